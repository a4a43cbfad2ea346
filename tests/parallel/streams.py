"""Streams and queries for tests of instances."""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import fastcep as fc
from fastcep.parallel import ParallelEngine

SCHEMA = fc.Schema(
    {kind: {"k": "int64", "name": "string", "price": "float64"} for kind in "ABC"}, time="ts", type="type",
    time_unit="us",
)  # fmt: skip
QUERY = fc.parse(
    "PATTERN SEQ(A a, B+ b[], C c) WHERE [k] AND b[i].price > a.price WITHIN 200us "
    "RETURN a.name AS name, SUM(b[].price) AS total", SCHEMA,
)  # fmt: skip


def stream(events: int, seed: int = 0) -> pa.Table:
    """Draw events with ties in time, nulls and texts."""
    random = np.random.default_rng(seed)
    prices = random.normal(size=events).round(2)
    return pa.table({
        "ts": np.cumsum(random.integers(0, 6, events)),
        "type": random.choice(list("ABC"), events),
        "k": random.integers(0, 6, events),
        "name": random.choice(["x", "y", "é", ""], events),
        "price": pa.array(prices, mask=random.random(events) < 0.05),
    })  # fmt: skip


def batches(table: pa.Table, size: int) -> list[pa.Table]:
    """Divide a table."""
    return [table.slice(at, size) for at in range(0, len(table), size)]


def joined(matches: Iterable[fc.Matches]) -> pa.Table:
    """Return the matches of all calls."""
    return pa.concat_tables([part.to_arrow() for part in matches]).unify_dictionaries().combine_chunks()


def of_one_engine(query: object, table: pa.Table, size: int) -> pa.Table:
    """Return the matches of a single engine."""
    engine = fc.Engine(query)
    return joined([*(engine.process(batch) for batch in batches(table, size)), engine.flush()])


@contextmanager
def without_answers(engine: ParallelEngine) -> Iterator[None]:
    """Take no answers of instances; fail if the engine would wait for one."""

    def receive(timeout: float | None) -> None:
        assert timeout is not None, "the engine waits for answers; give it fewer events"

    with patch.object(engine._scheduler, "receive", receive):
        yield


def joined_with_interrupts(
    engine: ParallelEngine | fc.Engine, table: pa.Table, size: int, interval: float, most: int = 60
) -> pa.Table:
    """Return the matches of an engine whose calls ``most`` interrupts end, at most one each ``interval`` seconds.

    The next batch begins after the events that the engine has taken.
    """
    interrupts, found = 0, []

    def interrupt(_: int, frame: FrameType | None) -> None:
        nonlocal interrupts
        inside = frame is not None and "/fastcep/" in frame.f_code.co_filename  # elsewhere the test loses a result
        if inside and interrupts < most:  # on a slow machine, each call may take longer than the interval
            interrupts += 1
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # an exception that a handler raises in a callback of the collector is lost
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, interval)
        while True:
            try:
                taken = engine.metrics()["events"]
                if taken == len(table):
                    found.append(engine.flush())
                    break
                found.append(engine.process(table.slice(taken, size)))
            except KeyboardInterrupt:
                pass
    finally:
        end_interrupts({signal.SIGALRM: before})
        gc.enable()
    return joined(found)


def end_interrupts(before: Mapping[int, Any]) -> None:
    """Stop the timer, and restore the handlers of signals once none is under way.

    Another thread may have taken the last signal. It would be reported later as an error if it had no handler then.
    """
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in before:
        signal.signal(number, lambda *_: None)
    time.sleep(0.1)
    for number, handler in before.items():
        signal.signal(number, handler)
