"""The memory limit: kept at every moment, with informative errors, and an engine that remains usable."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastcep as fc
from fastcep.errors import MemoryLimitError, ValidationError
from fastcep.events import parse_size

SCHEMA = fc.Schema({name: {"k": "int64", "v": "int64"} for name in "ABC"}, type="type")
LARGE = "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.v < c.v WITHIN 1h"
KLEENE = "PATTERN SEQ(A a, B+ b[], C c) WHERE a.k = b[i].k AND a.k = c.k WITHIN 1h"
TEXTS = fc.Schema({name: {"k": "int64", "v": "int64", "s": "string"} for name in "ABCD"}, type="type")
SMALL = "PATTERN SEQ(A a, C c) WHERE a.k = c.k WITHIN 10us"


def stream(batches: int, rows: int = 2_000, seed: int = 1) -> list[dict[str, Any]]:
    draw = np.random.default_rng(seed)
    return [
        {
            "type": draw.choice(list("ABC"), rows, p=[0.45, 0.45, 0.1]),
            "k": draw.integers(0, 50 if rows > 500 else 25, rows),
            "v": draw.integers(0, 3, rows),
            "ts": (np.arange(rows) + number * rows) * 100,
        }
        for number in range(batches)
    ]


def query(text: str, name: str) -> fc.Query:
    return fc.parse(text, SCHEMA, name=name)


@pytest.mark.parametrize("text", [LARGE, KLEENE, LARGE + " RETURN a.v AS v, c.k AS k"])
def test_one_query_over_its_limit_does_not_stop_the_others(text: str) -> None:
    engine = fc.Engine([query(text, "large"), query(SMALL, "small")], memory_limit="4MiB")
    alone = fc.Engine(query(SMALL, "small"))
    errors = 0
    for batch in stream(12):
        expected = alone.process(batch)
        try:
            found = engine.process(batch)
        except MemoryLimitError as error:
            errors += 1
            assert [item.query for item in error.over] == ["large"]
            assert error.over[0].dropped > 0
            assert "'large' at event" in str(error) and "Raise the limit" in str(error)
            assert error.matches is not None
            found = error.matches
        assert found.query("small").to_arrow().equals(expected.to_arrow())
        metrics = engine.metrics()
        assert metrics["memory_bytes"] <= metrics["memory_limit"] == 4 * 2**20
    assert errors > 5
    assert metrics["dropped_partial_matches"] > 0


def test_the_matches_before_the_event_without_room_are_kept() -> None:
    whole, batch = fc.Engine(query(LARGE, "q")), stream(1, 1_500)[0]
    truth = whole.process(batch).to_arrow()
    with pytest.raises(MemoryLimitError) as caught:
        fc.Engine(query(LARGE, "q"), memory_limit="1MiB").process(batch)
    found = caught.value.matches.to_arrow()
    event = caught.value.over[0].event
    before = truth.slice(0, sum(at < event for at in truth["c"].to_pylist()))
    assert 0 < len(found) == len(before) and found.equals(before)


@given(
    text=st.sampled_from([LARGE, KLEENE]),
    limit=st.integers(120_000, 600_000),
    seed=st.integers(0, 5),
    rows=st.sampled_from([5, 64, 200]),
)
def test_what_is_found_under_a_limit_is_true(text: str, limit: int, seed: int, rows: int) -> None:
    """Dropped partial matches lose matches and add none; after an error the engine still finds what it can."""
    whole = stream(1, 200, seed)[0]
    truth = {tuple(map(str, row.values())) for row in fc.Engine(query(text, "q")).process(whole).to_arrow().to_pylist()}
    engine = fc.Engine(query(text, "q"), memory_limit=limit)
    errors = 0
    for start in range(0, 200, rows):
        try:
            found = engine.process({name: values[start : start + rows] for name, values in whole.items()})
        except MemoryLimitError as error:
            errors, found = errors + 1, error.matches
        assert engine.metrics()["memory_bytes"] <= limit
        for row in found.to_arrow().to_pylist():
            assert tuple(map(str, row.values())) in truth
    metrics = engine.metrics()
    assert metrics["events"] == 200
    assert errors or (metrics["matches"] == len(truth) and metrics["dropped_partial_matches"] == 0)


def test_a_batch_for_which_there_is_no_room_at_all_is_not_taken() -> None:
    engine = fc.Engine(query(LARGE + " RETURN a.v AS v", "q"), memory_limit="300kB")
    large, small = stream(1, 20_000)[0], stream(1, 20)[0]
    with pytest.raises(MemoryLimitError, match="nothing of the batch was taken") as caught:
        engine.process(large)
    assert caught.value.matches is None and caught.value.over == ()
    assert engine.metrics()["events"] == 0
    engine.process(small)
    assert engine.metrics()["events"] == 20


def test_the_query_that_needs_the_oldest_event_gives_way() -> None:
    old = query("PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.v > 5 AND c.v > 7 WITHIN 1h RETURN a.v AS v", "old")
    new = query("PATTERN SEQ(A a, C c) WHERE a.k = c.k WITHIN 1us RETURN c.v AS v", "new")
    engine = fc.Engine([old, new], memory_limit="2MB")
    over = []
    for batch in stream(30):
        try:
            engine.process(batch)
        except MemoryLimitError as error:
            over += [item.query for item in error.over]
        assert engine.metrics()["memory_bytes"] <= 2_000_000
    assert over and set(over) == {"old"}


def test_held_and_late_events_count() -> None:
    engine = fc.Engine(query(SMALL, "q"), allowed_lateness="1h", memory_limit="1MiB")
    taken = 0
    with pytest.raises(MemoryLimitError, match="call late"):
        for batch in stream(100):
            engine.process(batch)
            taken += 2_000
    metrics = engine.metrics()
    assert metrics["held_events"] == taken and metrics["memory_bytes"] <= 2**20
    expected = fc.Engine(query(SMALL, "q"))
    assert len(engine.flush()) == sum(len(expected.process(batch)) for batch in stream(taken // 2_000))


def test_without_a_limit_nothing_is_refused() -> None:
    engine = fc.Engine(query(LARGE, "q"))
    for batch in stream(2):
        engine.process(batch)
    assert engine.metrics()["memory_limit"] is None
    assert engine.metrics()["dropped_partial_matches"] == 0


def test_what_a_key_a_row_and_an_event_take() -> None:
    schema = fc.Schema({"A": {"k": "int64"}, "B": {"k": "int64"}}, type="type")
    engine = fc.Engine(fc.parse("PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 1h RETURN a.k AS k", schema))
    n = 100_000
    engine.process({"type": ["A"] * n, "k": np.arange(n), "ts": np.arange(n)})
    metrics = engine.metrics()
    assert metrics["keys"] == metrics["stored_rows"] == n
    assert 0 < metrics["bytes_per_key"] <= 128
    assert 0 < metrics["bytes_per_row"] <= 128  # a bucket starts with room for four rows
    assert 0 < metrics["bytes_per_event"] <= 64
    assert sum(metrics["memory_by_query"].values()) < metrics["memory_bytes"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_limit": "much"}, "'much' is no size"),
        ({"memory_limit": 0}, "0 is no size"),
        ({"memory_limit": True}, "True is no size"),
        ({"memory_limit": 1.5}, "1.5 is no size"),
        ({"memory_limit": "10kB"}, "too small"),
        ({"memory_limit": "1GiB", "on_memory_limit": "shed", "shedder": None}, "needs a shedder"),
        ({"memory_limit": "1GiB", "on_memory_limit": "ignore"}, "expected 'raise' or 'shed'"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        fc.Engine(query(SMALL, "q"), **options)


@pytest.mark.parametrize(
    ("text", "size"),
    [("512MiB", 512 * 2**20), ("1 GB", 10**9), ("7", 7), ("3b", 3), ("2kib", 2**11), (12, 12), ("-1", None)],
)
def test_sizes(text: str | int, size: int | None) -> None:
    if size is None:
        with pytest.raises(ValidationError, match="no size"):
            parse_size(text)
    else:
        assert parse_size(text) == size


RESIDENT = """
import json, resource, sys
import numpy as np
import fastcep as fc
schema = fc.Schema({name: {"k": "int64", "v": "int64"} for name in "ABC"}, type="type")
engine = fc.Engine(fc.parse(sys.argv[1], schema), memory_limit=int(sys.argv[2]))
draw, errors, base, held = np.random.default_rng(1), 0, None, 0
for number in range(60):
    n = 2_000
    batch = {"type": draw.choice(list("ABC"), n, p=[0.5, 0.49, 0.01]), "k": draw.integers(0, 9, n),
             "v": draw.integers(0, 3, n), "ts": np.arange(n) + number * n}
    try:
        engine.process(batch)
    except fc.MemoryLimitError:
        errors += 1
    if number == 0:
        base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    held = max(held, engine.metrics()["memory_bytes"])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"errors": errors, "grown": peak - base, "held": held}))
"""


@pytest.mark.slow
def test_resident_memory_stays_within_the_limit() -> None:
    """Compare the memory of the process with that of a run whose limit is so small that it uses none."""
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.v < c.v AND c.v > 5 WITHIN 1h"

    def run(limit: int) -> dict[str, int]:
        command = [sys.executable, "-c", RESIDENT, text, str(limit)]
        return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))

    limit = 200 * 2**20
    tiny, large = run(2**20), run(limit)
    assert tiny["errors"] and large["errors"]
    assert large["held"] <= limit
    assert large["grown"] - tiny["grown"] <= limit * 1.05


def events(kind: str, start: int, rows: int, text: str | None = None) -> pa.Table:
    keys = np.arange(start, start + rows)
    texts = [text] * rows if text else [f"text {key}" for key in keys]
    return pa.table({"type": [kind] * rows, "k": keys, "v": keys, "s": texts, "ts": keys * 100})


def test_a_query_that_does_nothing_gives_way_when_the_ring_grows() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 1h RETURN a.v AS v"
    engine = fc.Engine(fc.parse(text, TEXTS, name="q"), memory_limit="2MB")
    engine.process(events("A", 0, 5_000, "x"))
    over = []
    for number in range(1, 12):
        try:
            engine.process(events("D", number * 5_000, 5_000, "x"))
        except MemoryLimitError as error:
            over += error.over
            assert error.matches is not None
        assert engine.metrics()["memory_bytes"] <= 2_000_000
    assert [(item.query, item.dropped) for item in over] == [("q", 5_000)]
    assert engine.metrics()["events"] == 60_000


def test_a_query_gives_way_to_events_held_back() -> None:
    engine = fc.Engine(fc.parse("PATTERN SEQ(A a, C c) WITHIN 1h", TEXTS), allowed_lateness="1ms", memory_limit="750kB")
    over = []
    for number in range(22):
        late = 0 if number < 12 else 10**6  # no more events are released
        try:
            engine.process(events("A", late + number * 500, 500, "x"))
        except MemoryLimitError as error:
            assert error.matches is not None
            over += [item.dropped for item in error.over]
        assert engine.metrics()["memory_bytes"] <= 750_000
    assert over == [6_000]


def test_strings_that_nothing_holds_make_room() -> None:
    engine = fc.Engine(fc.parse(SMALL, TEXTS), memory_limit="1MB")
    for number in range(30):
        engine.process(events("D", number * 1_000, 1_000))
        assert engine.metrics()["memory_bytes"] <= 1_000_000
    with pytest.raises(MemoryLimitError, match="nothing of the batch was taken"):
        engine.process(events("D", 30_000, 20_000))
    engine.process(events("D", 50_000, 1_000))
    assert engine.metrics()["strings"] < 2_000 and engine.metrics()["memory_bytes"] <= 1_000_000


def test_output_that_was_withdrawn_is_given_back() -> None:
    engine = fc.Engine(fc.parse("PATTERN SEQ(A a, C? c, B b) WITHIN 1ms", TEXTS), memory_limit=620_000)
    empty = engine.metrics()["memory_by_query"]
    engine.process(events("A", 0, 8_000, "x"))
    with pytest.raises(MemoryLimitError) as caught:
        engine.process(events("B", 8_000, 1, "x"))
    assert len(caught.value.matches) == 0
    engine.flush()
    assert engine.metrics()["memory_by_query"] == empty


@pytest.mark.parametrize(
    ("text", "store"),
    [
        (LARGE, "rows"), (KLEENE, "rows"), (KLEENE, "factorised"), (SMALL, "rows"),
        ("PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k WITHIN 10us", "rows"),
    ],
)  # fmt: skip
def test_the_bytes_add_up(text: str, store: Any) -> None:
    """Keys, rows and the bytes of an empty query add up to the total, and nothing is left at the end."""
    engine = fc.Engine(query(text.replace("1h", "3us"), "q"), store=store)
    matcher = engine._stream.queries.running[0].matcher
    empty, rest = matcher.nbytes, matcher.nbytes - matcher.key_bytes - matcher.row_bytes
    for batch in stream(3):
        engine.process(batch)
        assert matcher.nbytes == matcher.key_bytes + matcher.row_bytes + rest or text == KLEENE
    engine.advance(10**12)
    assert matcher.keys == matcher.rows_stored == matcher.live == 0
    engine.flush()
    assert matcher.nbytes == empty


def test_keys_that_are_gone_leave_no_room_behind() -> None:
    engine = fc.Engine(fc.parse("PATTERN SEQ(A a, C c) WHERE a.k = c.k WITHIN 1ms", TEXTS))
    engine.process(events("A", 0, 100_000, "x").set_column(4, "ts", pa.array(np.zeros(100_000, np.int64))))
    matcher = engine._stream.queries.running[0].matcher
    large = matcher.key_bytes
    engine.process(events("A", 20_000, 3, "x"))
    engine.advance(20_003 * 100)
    assert matcher.keys == 3
    assert matcher.key_bytes < 2_000 < large
