"""Messages between an engine and its instances, where descriptors or connections are missing."""

from __future__ import annotations

import errno
import os
import random
import resource
import select
import selectors
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from parallel.streams import QUERY, batches, joined, of_one_engine, stream

import fastcep as fc
from fastcep.parallel import ParallelEngine, scheduler
from fastcep.parallel.channel import Channel, SharedMemoryError, packed, unpacked


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Let this process open no file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def channels() -> Iterator[tuple[Channel, Channel]]:
    ends = Channel.pair()
    try:
        yield ends
    finally:
        for end in ends:
            end.close()


@pytest.mark.parametrize("back", [False, True])
def test_data_arrives(back: bool) -> None:
    table = pa.table({"x": range(1_000)})
    with channels() as (here, there):
        sender, receiver = (there, here) if back else (here, there)
        assert sender.send({"slice": 3}, packed([table, table]))
        message = receiver.receive()
        assert message is not None
        header, data = message
        assert header["slice"] == 3
        assert unpacked(data, 2) == [table, table]


@pytest.mark.parametrize("back", [False, True])
def test_data_without_a_descriptor_is_an_error(back: bool) -> None:
    """Linux passes on the message without its data then."""
    with channels() as (here, there):
        sender, receiver = (there, here) if back else (here, there)
        sender.send({"slice": 3}, b"data")
        with (
            no_descriptors(),
            pytest.raises(
                SharedMemoryError,
                match="cannot get 4 bytes from shared memory: Too many open files; close files or raise",
            ),
        ):
            receiver.receive()
        with (
            no_descriptors(),
            pytest.raises(
                SharedMemoryError,
                match="cannot put 4 bytes into shared memory: Too many open files; close files or raise",
            ),
        ):
            sender.send({"slice": 3}, b"data")
        sender.send({"slice": 4})
        assert receiver.receive() == ({"slice": 4}, None)


def test_no_matches_are_lost_without_descriptors() -> None:
    with ParallelEngine(QUERY, instances=1) as engine:
        found = engine.process(stream(5_000)).to_arrow()
        connection = engine._scheduler.instances[0].channel
        assert select.select([connection], [], [], 60)[0], "the instance answers"
        with (
            no_descriptors(),
            pytest.raises(
                fc.InstanceError, match=r"cannot get [\d,]+ bytes from shared memory: Too many open .* engine is closed"
            ),
        ):
            engine.flush()
    assert len(found) == 0 < len(of_one_engine(QUERY, stream(5_000), 5_000))


def test_the_engine_does_not_spin_while_messages_wait() -> None:
    """It looks again after a pause, not at once because the socket has room."""
    waits: list[float | None] = []
    with ParallelEngine(QUERY, instances=1, workers="threads") as engine:
        engine.process(stream(10))
        instance, selector = engine._scheduler.instances[0], engine._scheduler._selector
        instance.channel.is_crowded = True
        instance._unsent.append(({"feeds": []}, None))

        def recorded(timeout: float | None) -> Any:
            waits.append(timeout)
            assert not any(key.events & selectors.EVENT_WRITE for key in selector.get_map().values())
            return []

        with patch.object(selector, "select", recorded):
            engine._scheduler.receive(None)
        assert waits == [scheduler.PAUSE]
        assert not instance.has_unsent, "it was sent"
        engine.flush()


def test_too_many_messages_in_transit() -> None:
    """Linux limits them for users without privileges; both sides wait until others have been received."""
    choices, failures = random.Random(1), 0

    def limited(connection: Any, buffers: Any, descriptors: list[int]) -> int:
        nonlocal failures
        if descriptors and choices.random() < 0.6:
            failures += 1
            raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))
        return send(connection, buffers, descriptors)

    send, table = socket.send_fds, stream(4_000)
    with (
        patch.object(socket, "send_fds", limited),
        ParallelEngine(QUERY, instances=3, workers="threads", slice_events=250) as engine,
    ):
        found = [matches for part in batches(table, 100) for matches in (engine.process(part), engine.poll())]
        found.append(engine.flush())
    assert failures > 20
    assert joined(found).equals(of_one_engine(QUERY, table, 100))


def test_waiting_ends_with_the_other_end() -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))

    with channels() as (here, there), patch.object(socket, "send_fds", full):
        assert not there.send({}, b"data")
        assert there.is_crowded
        here.close()
        with pytest.raises(ConnectionError):
            there.send_in_time({}, b"data")
