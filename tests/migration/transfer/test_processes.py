"""Hosts as processes, which are killed in the middle of a migration."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from migration.transfer.counter import events, filled
from migration.transfer.hosts import PATIENCE, begin, new_host
from migration.transfer.middle import Middle
from support.json_lines import python, said

import fastcep as fc
from fastcep.migration.transfer.frames import Kind

ROOT = Path(__file__).resolve().parents[3]
KEYS, SIZE = 20, 60_000


def process(side: str, **options: Any) -> AbstractContextManager[subprocess.Popen[str]]:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    return python("migration.transfer.process", side, json.dumps(options), environment=environment)


def text_of(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def test_two_processes() -> None:
    with process("new") as new:
        address = said(new)["address"]
        with process("old", address=text_of(address), keys=KEYS, size=SIZE) as old:
            report, received = said(old)["report"], said(new)
            assert (new.wait(PATIENCE), old.wait(PATIENCE)) == (0, 0)
    counter = filled(KEYS, SIZE)
    assert report["confirmed_states"] == KEYS and report["handed_over"]
    assert received["counts"] == {str(key): count for key, count in counter.counts.items()}


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", ["keep", "hand_over"])
@pytest.mark.parametrize("number", [1, 7])
def test_the_old_host_is_killed(mode: str, number: int) -> None:
    """It is killed after some messages with states; the rest of what it has sent is lost."""
    count = 0

    def kill(kind: Kind, data: bytes) -> bytes | None:
        nonlocal count
        if count == number:
            return None
        count += data[4] == Kind.STATES  # the last piece of a message
        if count == number:
            os.kill(old.pid, signal.SIGKILL)
        return data

    with new_host() as host:
        middle = Middle(host.address, kill)
        address = text_of(middle.address)
        with process("old", address=address, keys=KEYS, size=SIZE, on_disconnect=mode) as old:
            assert old.wait(PATIENCE) == -signal.SIGKILL
            if mode == "keep":
                with pytest.raises(fc.MigrationError, match="this host has discarded the state"):
                    host.received()
                return
            received = host.received()
    counter = filled(KEYS, SIZE)
    assert 1 <= received.states_received < KEYS
    assert received.interrupted is not None
    assert received.operator.counts == {key: counter.counts[key] for key in received.states.tolist()}
    key = int(received.states[0])
    assert received.operator.process(events(key)) == [(key, counter.counts[key] + 1)]


@pytest.mark.sample("hand_over")
@pytest.mark.parametrize("mode", ["keep", "hand_over"])
def test_the_new_host_is_killed(mode: str) -> None:
    counter, twin = filled(KEYS, SIZE), filled(KEYS, SIZE)
    count = 0

    def kill(kind: Kind, data: bytes) -> bytes | None:
        nonlocal count
        count += data[4] == Kind.STATES
        if count == 3:
            os.kill(new.pid, signal.SIGKILL)
        return data if count < 3 else None

    with process("new") as new:
        middle = Middle(tuple(said(new)["address"]), kill)
        with begin(counter, middle.address, on_disconnect=mode) as migration:
            assert migration.process(events(1, 2)) == []
            with pytest.raises(fc.MigrationError) as caught:
                migration.finish()
            assert new.wait(PATIENCE) == -signal.SIGKILL
            if mode == "keep":
                assert caught.value.owner == "old"
                assert [*caught.value.matches, *migration.process(events(3))] == [
                    twin.process(events(1, 2)), twin.process(events(3)),
                ]  # fmt: skip
            else:
                assert caught.value.owner in ("new", "unknown")
                assert migration.take_back() == [twin.process(events(1, 2))]
                assert migration.process(events(3)) == [twin.process(events(3))]
    assert counter.state == twin.state
