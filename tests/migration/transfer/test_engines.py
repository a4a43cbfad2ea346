"""Engines move to another host over TCP: old and new matches together are those of an engine that has not moved."""

from __future__ import annotations

import io
import os
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from migration.transfer.hosts import KEY, new_host

import fastcep as fc
from fastcep.migration import Received, States, partition, send, start

SCHEMA = fc.Schema(
    {kind: {"k": "int64", "v": "float64", "s": "string"} for kind in "ABC"}, time="ts", type="type", time_unit="us"
)
QUERIES = {
    "keyed": "PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.v < c.v WITHIN 80us RETURN a.s AS s, b.v AS v",
    "Kleene": "PATTERN SEQ(A a, B+ b[], C c) WHERE [k] AND b[i].v > a.v WITHIN 60us RETURN SUM(b[].v) AS total",
    "negation": "PATTERN SEQ(A a, B b, NEG C c) WHERE [k] WITHIN 40us RETURN b.s AS s",
    "windows": "PATTERN SEQ(A a, B b) WHERE a.v < b.v WINDOW OPEN ON C o CLOSE AFTER 60us RETURN a.s AS s",
    "no key": "PATTERN SEQ(A a, B b, C c) WHERE a.v < b.v AND b.v < c.v WITHIN 30us",
    "consumption": "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 60us CONSUME consumed RETURN b.v AS v",
}
EVENTS, BATCH = 600, 25
#: Random points at which an engine moves: 2 in `make test`, 20 in `make ci`, 100 in `make check`.
POINTS = min(max(int(os.environ.get("FASTCEP_EXAMPLES", "20")) // 4, 2), 100)


def stream(seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    return pa.table({
        "type": draw.choice(list("ABC"), EVENTS), "ts": np.cumsum(draw.integers(0, 4, EVENTS)),
        "k": draw.integers(0, 4, EVENTS), "v": draw.random(EVENTS).round(2), "s": draw.choice(["x", "y", "é"], EVENTS),
    })  # fmt: skip


def engine_of(text: str) -> fc.Engine:
    return fc.Engine(fc.parse(text, SCHEMA, name="q"), store="rows" if "+" in text else "auto")


def written(found: list[fc.Matches]) -> bytes:
    """Return the rows of matches as bytes of an Arrow file."""
    table = pa.concat_tables([matches.to_arrow() for matches in found]).unify_dictionaries().combine_chunks()
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def batches(table: pa.Table) -> list[pa.Table]:
    return [table.slice(at, BATCH) for at in range(0, EVENTS, BATCH)]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", QUERIES)
def test_outputs_together_are_those_of_one_engine(name: str) -> None:
    text = QUERIES[name]
    for point in range(POINTS):
        choices = random.Random(f"{name} {point}")
        parts = batches(stream(point))
        whole = engine_of(text)
        expected = [whole.process(part) for part in parts]
        old = engine_of(text)
        cut = choices.randrange(len(parts))
        end = choices.randint(cut, len(parts))
        found = [old.process(part) for part in parts[:cut]]
        with new_host() as host:
            track = choices.choice(["single", "parallel"])
            with start(old, host.address, key=KEY, timeout="20s", track=track) as migration:
                for part in parts[cut:end]:
                    found += migration.process(part)
                report = migration.finish()
            received = host.received()
        assert report.handed_over and received.complete and received.position == sum(map(len, parts[:end]))
        found += received.matches
        new = received.operator
        found += [new.process(part) for part in parts[end:]]
        assert written([*found, new.flush()]) == written([*expected, whole.flush()]), f"{name}, point {point}, {track}"
        assert new.metrics()["events"] == EVENTS
        with pytest.raises(fc.ValidationError, match="the state of this operator moves, or has moved, to another host"):
            old.process(parts[0])


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["keyed", "Kleene", "negation"])
@pytest.mark.parametrize("by", ["partial match", "key"])
def test_later_matches_are_those_of_the_states_received(name: str, by: str) -> None:
    """The old host is lost in the middle of the transfer; the new one continues with what has arrived."""
    text = QUERIES[name].replace("AND b[i].v > a.v ", "")
    for point in range(max(2, POINTS // 4)):
        choices = random.Random(f"{name} {by} {point}")
        parts = batches(stream(point))
        cut = choices.randrange(5, 20)
        query = fc.parse(text.replace("RETURN", "RETURN a.k AS key,"), SCHEMA, name="q")
        old, twin = (fc.Engine(query, store="rows") for _ in range(2))
        for part in parts[:cut]:
            old.process(part), twin.process(part)
        starts: dict[int, int] = {}
        cuts = partition(old, by, lambda table, starts=starts: remembered(table, starts))
        keep = choices.randint(1, len(cuts.states) - 1)
        with new_host() as host:
            lossy = Losing(cuts, keep)
            with pytest.raises(fc.MigrationError, match="the host is lost"):
                send(lossy, host.address, key=KEY, timeout="20s", on_disconnect="hand_over")
            outcome = host.outcome()
        if isinstance(outcome, fc.MigrationError):  # the system has dropped even the first frame with the connection
            assert outcome.owner != "new"
            continue
        assert isinstance(outcome, Received)
        received = outcome
        assert received.interrupted is not None and 1 <= received.states_received <= keep
        with pytest.raises(fc.ValidationError, match="the state of this operator moves, or has moved, to another host"):
            old.process(parts[cut])
        expected = [(part, twin.process(part)) for part in parts[cut:]]
        new = received.operator
        found = [row for part, _ in expected for row in plain(new.process(part))] + plain(new.flush())
        every = [row for _, matches in expected for row in plain(matches)] + plain(twin.flush())
        assert set(found) <= set(every)
        assert [row for row in every if row[0] >= cut * BATCH] == [row for row in found if row[0] >= cut * BATCH]
        if by == "key":
            keys = {parts_key(parts, starts[state]) for state in received.states.tolist() if state in starts}
            assert found == [row for row in every if row[0] >= cut * BATCH or row[1] in keys]


def plain(matches: fc.Matches) -> list[tuple[Any, ...]]:
    """Return the rows of matches: the first event, the key, and all columns."""
    return [(row["a"], row.get("key"), repr(row)) for row in matches.to_dicts()]


class Losing:
    """Partial states of an engine on a host that is lost after it has sent `keep` of them."""

    def __init__(self, cuts: Any, keep: int) -> None:
        self._cuts, self._left = cuts, keep
        self.kind, self.position, self.operator = cuts.kind, cuts.position, cuts.operator
        self.states = States(cuts.states.size * 1_000_000, cuts.states.utility)  # so large that each has its own frame

    def base(self) -> bytes:
        return bytes(self._cuts.base())

    def encode(self, numbers: Any) -> bytes:
        self._left -= 1
        if self._left < 0:
            raise OSError("the host is lost")
        return bytes(self._cuts.encode(numbers))


def remembered(table: pa.Table, starts: dict[int, int]) -> Any:
    """Note the first event of a partial match of each state; the utility of all is 1."""
    starts |= dict(zip(table["state"].to_pylist(), table["started"].to_pylist(), strict=True))
    return np.ones(len(table))


def parts_key(parts: list[pa.Table], position: int) -> int:
    """Return the key of an event."""
    return int(parts[position // BATCH]["k"][position % BATCH].as_py())
