"""The engine's interface: inputs, clock, errors, several queries and counters."""

from __future__ import annotations

import pickle
import sys
import threading
import time
import warnings
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.letters import PAIR, SCHEMA, V, bindings, engine, events
from support.waiting import LIMIT, wait_for

import fastcep as fc
from fastcep._core.input.batch import Batch
from fastcep._core.matcher.matcher import Matcher
from fastcep.events import EventBatch, StringTable
from fastcep.plan import make_plan

DATA: dict[str, list[Any]] = {
    "type": ["A", "A", "B", "C", "B"],
    "ID": [1, 2, 1, 1, 2],
    "V": [10, 20, 30, 40, 50],
    "ts": [0, 1, 2, 3, 4],
}
PAIRS = [{"a": 0, "b": 2}, {"a": 1, "b": 4}]


# ------------------------------------------------------------------------ input


@pytest.mark.parametrize(
    "make",
    [dict, pa.table, pl.DataFrame, pd.DataFrame, lambda data: pa.RecordBatch.from_pydict(data),
     lambda data: {name: np.array(values) for name, values in data.items()}],
    ids=["dict", "pyarrow", "polars", "pandas", "record batch", "numpy"],
)  # fmt: skip
def test_process_takes(make: Any) -> None:
    assert bindings(engine().process(make(DATA))) == PAIRS


def test_send() -> None:
    one = engine()
    found = []
    for kind, ident, value, ts in zip(*DATA.values(), strict=True):
        found += bindings(one.send(kind, ID=ident, V=value, ts=ts))
    assert found == PAIRS
    assert bindings(one.send("B", ID=2, ts=5)) == [{"a": 1, "b": 5}], "what is left out is null"


def test_send_takes_the_time_under_either_name() -> None:
    plain = fc.Schema({"A": {"self": "int64"}}, time="ts")
    engine = fc.Engine(fc.parse("PATTERN SEQ(A a) WITHIN 1s", plain))
    assert len(engine.send("A", ts=1, self=3)) == len(engine.send("A", time=2, self=3)) == 1
    bare = fc.Schema({"A": {"v": "int64"}}, time=0, header=False, sources={"A": {"v": 2}})
    assert len(fc.Engine(fc.parse("PATTERN SEQ(A a) WITHIN 1s", bare)).send("A", time=1, v=3)) == 1
    numbered = fc.Schema({"A": {"v": "int64"}}, time="ts", sequence="n")
    with pytest.raises(fc.DataError, match="has no seq; give seq="):
        fc.Engine(fc.parse("PATTERN SEQ(A a) WITHIN 1s", numbered)).send("A", ts=1, v=3)


def test_send_refuses() -> None:
    one = engine()
    with pytest.raises(fc.DataError, match="unknown event type 'X'"):
        one.send("X", ts=1)
    with pytest.raises(fc.DataError, match="no attribute 'W'"):
        one.send("A", W=1, ts=1)
    with pytest.raises(fc.DataError, match="no time"):
        one.send("A", V=1)
    with pytest.raises(fc.SchemaError):
        one.send("A", V="text", ts=1)
    assert one.metrics()["events"] == 0
    with pytest.raises(fc.DataError, match="ts and time are both column 'ts'; give one of them"):
        one.send("A", V=1, ts=1, time=2)


def test_empty_batches_change_nothing() -> None:
    one = engine()
    nothing = {name: pa.array([], pa.string() if name == "type" else pa.int64()) for name in DATA}
    assert len(one.process(nothing)) == 0
    one.process({name: values[:2] for name, values in DATA.items()})
    assert len(one.process(nothing)) == 0
    assert bindings(one.process({name: values[2:] for name, values in DATA.items()})) == PAIRS


# ---------------------------------------------------------------- clock and end


def test_advance_leaves_nothing() -> None:
    one = engine()
    one.process(DATA)
    assert one.metrics()["live_partial_matches"] == 2
    assert len(one.advance(10)) == 0
    assert one.metrics()["live_partial_matches"] == 2, "the window includes its end"
    one.advance(11)
    assert one.metrics()["live_partial_matches"] == 1
    one.advance(12)
    state = one.metrics()
    assert (state["live_partial_matches"], state["stored_rows"], state["keys"]) == (0, 0, 0)
    assert bindings(one.process({"type": ["A", "B"], "ID": [1, 1], "V": [0, 0], "ts": [12, 12]})) == [{"a": 5, "b": 6}]


def test_clock_does_not_run_back() -> None:
    one = engine()
    one.advance(100)
    with pytest.raises(fc.ValidationError, match="clock back"):
        one.advance(99)
    with pytest.raises(fc.DataError, match="before 100 ns"):
        one.send("A", ID=1, V=1, ts=99)
    one.advance(100)
    one.send("A", ID=1, V=1, ts=100)
    assert len(one.send("B", ID=1, V=1, ts=100)) == 1


def test_advance_takes_datetimes() -> None:
    one = engine()
    one.advance(datetime(2020, 1, 1))
    with pytest.raises(fc.ValidationError, match="2020-01-01"):
        one.advance(datetime(2019, 12, 31, 23, tzinfo=UTC))
    one.advance(datetime(2020, 1, 1, tzinfo=UTC))
    ts = 1_577_836_800 * 10**9
    one.send("A", ID=1, ts=ts)
    assert len(one.send("B", ID=1, ts=ts + 10)) == 1


def test_advance_does_not_close_event_windows() -> None:
    one = engine("PATTERN SEQ(A a, B b) WITHIN 2 EVENTS")
    one.send("A", ts=0)
    one.advance(10**15)
    assert len(one.send("B", ts=10**15)) == 1
    assert len(one.send("B", ts=10**15)) == 0


def test_flush_ends_the_stream() -> None:
    one = engine()
    one.process(DATA)
    ended = one.flush()
    assert len(ended) == 0
    assert ended.to_arrow().schema == engine().process(DATA).to_arrow().schema
    assert one.metrics()["live_partial_matches"] == one.metrics()["keys"] == 0
    for again in (lambda: one.process(DATA), lambda: one.send("A", ts=9), lambda: one.advance(10**9), one.flush):
        with pytest.raises(fc.ValidationError, match="flush"):
            again()


# --------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "bad",
    [
        {"type": ["B", "B"], "ID": [1, 1], "V": [0, 0], "ts": [2, 1]},
        {"type": ["B", "B"], "ID": [1, 1], "V": [0, 0], "ts": [0, 3]},
        {"type": ["B", "X"], "ID": [1, 1], "V": [0, 0], "ts": [2, 3]},
        {"type": ["B", "B"], "ID": [1, 1], "V": [0, 0], "ts": [2, None]},
        {"type": ["B", "B"], "ID": ["1", "1"], "V": [0, 0], "ts": [2, 3]},
        {"type": ["B", "B"], "ID": [1, 1], "ts": [2, 3]},
    ],
    ids=["disorder inside", "older than the last", "unknown type", "null time", "wrong dtype", "missing column"],
)
def test_a_bad_batch_is_refused_whole(bad: dict[str, list[Any]]) -> None:
    one = engine()
    one.process({name: values[:2] for name, values in DATA.items()})
    before = one.metrics()
    with pytest.raises((fc.DataError, fc.SchemaError)):
        one.process(bad)
    after = one.metrics()
    assert {k: v for k, v in after.items() if k != "strings"} == {k: v for k, v in before.items() if k != "strings"}
    assert bindings(one.process({name: values[2:] for name, values in DATA.items()})) == PAIRS


def test_engines_refuse() -> None:
    query = fc.parse(PAIR, SCHEMA)
    with pytest.raises(fc.ValidationError, match="at least one"):
        fc.Engine([])
    with pytest.raises(fc.ValidationError, match="two queries are named"):
        fc.Engine([query, query])
    other = fc.parse("PATTERN SEQ(A a) WITHIN 1s", fc.Schema({"A": V}), name="other")
    with pytest.raises(fc.ValidationError, match="another schema"):
        fc.Engine([query, other])
    chain = fc.parse("PATTERN SEQ(A+ a[]) WITHIN 1s", SCHEMA, name="chain")
    both = fc.Engine([query, chain]).process({"type": ["A"], "ID": [1], "V": [0], "ts": [0]})
    with pytest.raises(fc.ValidationError, match=r"column 'a' is int64 in query .* one query at a time"):
        both.to_arrow()
    assert both.query("chain").to_arrow()["a"].to_pylist() == [[0]]
    with pytest.raises(fc.ValidationError, match="found str, expected a query"):
        fc.Engine("PATTERN SEQ(A a) WITHIN 1s")  # type: ignore[arg-type]


def test_unbounded_warns() -> None:
    query = fc.parse("PATTERN SEQ(A a, B b) WITHIN UNBOUNDED", SCHEMA, name="forever")
    with pytest.warns(UserWarning, match="'forever' is WITHIN UNBOUNDED") as caught:
        one = fc.Engine(query)
    assert caught[0].filename == __file__
    assert len(one.process({"type": ["A", "B"], "ID": [1, 2], "V": [0, 0], "ts": [0, 2**62]})) == 1


def test_windows_that_wait_for_an_event_of_their_own_warn() -> None:
    """A window that nothing closes stays forever; an event that closes any open window is expected to come."""
    opened = "PATTERN SEQ(A a, B b) WINDOW OPEN ON A o CLOSE ON B c"
    with pytest.warns(UserWarning, match="'own': a window that no 'c' closes stays until the stream ends") as caught:
        fc.Engine(fc.parse(f"{opened} WHERE c.ID = o.ID", SCHEMA, name="own"))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in (opened, f"{opened} WHERE c.ID = 1", opened.replace("OPEN ON A o", "EVERY 9s") + " WHERE c.ID = 1"):
            fc.Engine(fc.parse(text, SCHEMA))


def test_many_keys_work_and_too_many_carried_values_are_refused() -> None:
    names = [f"k{number}" for number in range(70)]
    wide = fc.Schema({"A": dict.fromkeys(names, "int64"), "B": dict.fromkeys(names, "int64")}, type="type")
    data = {"type": ["A", "B", "B"], "ts": [0, 1, 2], **{name: [1, 1, 1] for name in names}, "k69": [1, 1, 2]}
    engine = fc.Engine(fc.parse(f"PATTERN SEQ(A a, B b) WHERE [{', '.join(names)}] WITHIN 1s", wide))
    assert engine.process(data).to_arrow().select(["a", "b"]).to_pylist() == [{"a": 0, "b": 1}]
    ordered = " AND ".join(f"a.{name} <= b.{name}" for name in names)
    with pytest.raises(fc.ValidationError, match=r"bound 'a' would carry 70 values .* at most 64"):
        fc.Engine(fc.parse(f"PATTERN SEQ(A a, B b) WHERE {ordered} WITHIN 1s", wide))


# -------------------------------------------------------------------- sequences


def test_sequence_column_with_gaps() -> None:
    schema = fc.Schema({"A": V, "B": V}, type="type", sequence="n")
    one = engine("PATTERN SEQ(A+ a[], B? b, A c) WHERE c.seq > 100 WITHIN 1s RETURN c.seq AS number", schema)
    found = one.process({"type": list("AABA"), "n": [-5, 7, 100, 200], "ts": [0, 0, 0, 0], "ID": [0] * 4, "V": [0] * 4})
    rows = found.to_arrow().select(["a", "b", "c", "number"]).to_pylist()
    assert rows == [
        {"a": a, "b": b, "c": 200, "number": 200}
        for a, b in [([-5], None), ([7], None), ([-5, 7], None), ([-5], 100), ([7], 100), ([-5, 7], 100)]
    ]
    for bad in (200, 199):
        with pytest.raises(fc.DataError, match="greater than 200"):
            one.send("A", n=bad, ts=1)
    with pytest.raises(fc.DataError, match="row 1"):
        one.process({"type": ["A", "A"], "n": [300, 300], "ts": [1, 1], "ID": [0, 0], "V": [0, 0]})
    assert one.metrics()["events"] == 4


# -------------------------------------------------------------- several queries


def test_several_queries() -> None:
    queries = [
        fc.parse("PATTERN SEQ(B b) WITHIN 1s", SCHEMA, name="bs"),
        fc.parse(PAIR, SCHEMA, name="pairs"),
        fc.parse("PATTERN SEQ(A a, C c) WITHIN 1s", SCHEMA, name="ac"),
    ]
    one = fc.Engine(queries)
    found = one.process(DATA)
    table = found.to_arrow()
    assert table["query"].to_pylist() == ["bs", "pairs", "ac", "ac", "bs", "pairs"], "detecting event, then query"
    assert table.select(["a", "b", "c"]).to_pylist() == [
        {"a": None, "b": 2, "c": None},
        {"a": 0, "b": 2, "c": None},
        {"a": 0, "b": None, "c": 3},
        {"a": 1, "b": None, "c": 3},
        {"a": None, "b": 4, "c": None},
        {"a": 1, "b": 4, "c": None},
    ]
    assert found.counts() == one.metrics()["matches_by_query"] == {"bs": 2, "pairs": 2, "ac": 2}
    for query in queries:
        alone = fc.Engine(query).process(DATA).to_arrow()
        assert found.query(query.name).to_arrow().equals(alone)


# ------------------------------------------------------------------ the threads


def test_gil_is_released() -> None:
    """A counting thread, which takes the GIL only where it is released, continues while a batch is processed."""
    n = 12_000
    data = events("A" * n + "B" * n, V=np.ones(2 * n, np.int64))
    ticks, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            ticks[0] += 1
            time.sleep(0)

    def counted_beside() -> bool:
        one = engine("PATTERN SEQ(A a, B b) WHERE a.V * b.V < 0 WITHIN 1s")
        before = ticks[0]
        assert len(one.process(data)) == 0
        beside = ticks[0] - before
        assert one.metrics()["rows_visited"] == n * n
        return beside > 1_000

    interval, thread = sys.getswitchinterval(), threading.Thread(target=count)
    sys.setswitchinterval(LIMIT)
    try:
        thread.start()
        wait_for(counted_beside, "thread that ran beside a batch")
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        thread.join()


def test_a_second_thread_is_refused_while_a_batch_runs() -> None:
    engine = fc.Engine(fc.parse("PATTERN SEQ(A a) WITHIN 1s", SCHEMA))
    with engine._stream.exclusive(), pytest.raises(fc.ValidationError, match="one thread at a time"):
        engine.send("A", ts=0, ID=1, V=1)
    assert len(engine.send("A", ts=0, ID=1, V=1)) == 1


def test_two_engines_in_two_threads() -> None:
    data = events("ABC" * 3_000)
    wanted = engine("PATTERN SEQ(A a, B b, C c) WITHIN 60ns").process(data).to_arrow()
    found: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(engine("PATTERN SEQ(A a, B b, C c) WITHIN 60ns").process(data).to_arrow())
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(table.equals(wanted) for table in found)


# ------------------------------------------------------------------------ values


def test_null_and_nan_keys_join_nothing() -> None:
    schema = fc.Schema({"A": {"k": "float64", "i": "int64"}, "B": {"k": "float64", "i": "int64"}}, type="type")
    nan = float("nan")
    data = {"type": list("AAAABBBB"), "ts": list(range(8)), "i": pa.array([1, None, 3, 4, 1, None, 3, 0]),
            "k": pa.array([nan, 1.0, None, -0.0, nan, 1.0, None, 0.0])}  # fmt: skip
    for where, wanted in (
        ("a.k = b.k", [(1, 5), (3, 7)]),
        ("a.i = b.i", [(0, 4), (2, 6)]),
        ("a.i = b.k", [(0, 5)]),
        ("[k]", [(1, 5), (3, 7)]),
        ("[i]", [(0, 4), (2, 6)]),
        ("a.k != b.k", [(0, 4), (1, 4), (3, 4), (0, 5), (3, 5), (0, 7), (1, 7)]),
    ):
        found = bindings(engine(f"PATTERN SEQ(A a, B b) WHERE {where} WITHIN 1s", schema).process(data))
        assert [(row["a"], row["b"]) for row in found] == wanted, where


@pytest.mark.parametrize("window", ["1h", "106751d"])
def test_times_at_the_ends_of_int64(window: str) -> None:
    low, high = -(2**63), 2**63 - 1
    one = engine(f"PATTERN SEQ(A a, B b) WITHIN {window}")
    table = one.process(
        {"type": list("ABABAB"), "ID": [0] * 6, "V": [0] * 6, "ts": [low, low, low + 1, high - 1, high, high]}
    ).to_arrow()
    assert table.select(["a", "b"]).to_pylist() == [{"a": 0, "b": 1}, {"a": 4, "b": 5}]
    assert table["detected_at"].cast(pa.int64()).to_pylist() == [low, high]
    assert len(one.advance(high)) == 0
    assert one.metrics()["live_partial_matches"] == 1


# ----------------------------------------------------------------------- metrics


def test_metrics_of_a_hand_example() -> None:
    one = engine("PATTERN SEQ(A a, B b, C c) WITHIN 10ns")

    def live() -> tuple[int, int]:
        state = one.metrics()
        return state["live_partial_matches"], state["peak_partial_matches"]

    for kind, ts, wanted in [
        ("A", 0, (1, 1)),
        ("A", 1, (2, 2)),
        ("B", 2, (4, 4)),  # a, a, ab, ab
        ("C", 3, (4, 4)),
        ("B", 10, (6, 6)),
        ("B", 11, (4, 6)),  # the first A and its three partial matches are gone, one is new
        ("C", 12, (0, 6)),
    ]:
        one.send(kind, ID=1, V=1, ts=ts)
        assert live() == wanted, ts
    state = one.metrics()
    assert set(state) == {
        "events", "relevant_events", "matches", "matches_by_query", "rows_visited", "rows_created",
        "live_partial_matches", "peak_partial_matches", "stored_rows", "negated_events", "waiting_matches",
        "timed_out_waiting", "foreign_events", "open_windows", "keys", "strings", "arithmetic_nulls", "function_errors",
        "watermark", "held_events", "late_events", "late_waiting", "memory_bytes", "kernels",
        "memory_limit", "memory_by_query", "dropped_partial_matches", "bytes_per_key", "bytes_per_row", "shedding",
        "bytes_per_event", "threads", "queries", "prev_bytes",
    }  # fmt: skip
    assert (state["events"], state["matches"], state["rows_created"]) == (7, 2, 7)
    assert state["matches_by_query"] == {"query": 2}


def test_live_is_exact_on_a_random_stream() -> None:
    """Compare live and peak with a count of all prefixes by the reference matcher."""
    draw = np.random.default_rng(4)
    kinds = "".join(draw.choice(list("ABC"), 60))
    one = engine("PATTERN SEQ(A a, B b, C c) WITHIN 9ns")
    peak = 0
    for now, kind in enumerate(kinds):
        one.send(kind, ts=now)
        starts = [t for t in range(max(0, now - 9), now + 1) if kinds[t] == "A"]
        wanted = len(starts) + sum(kinds[t] == "B" for s in starts for t in range(s, now + 1))
        peak = max(peak, wanted)
        state = one.metrics()
        assert (state["live_partial_matches"], state["peak_partial_matches"]) == (wanted, peak), (kinds, now)


def test_relevant_events_and_arithmetic_nulls() -> None:
    one = engine("PATTERN SEQ(A a, B b) WHERE a.V > 0 AND a.V * b.V > 5 WITHIN 1s")
    one.process(events("ACAB", V=np.array([0, 1, 2**62, 4])))
    state = one.metrics()
    assert state["relevant_events"] == 2, "A with V = 2**62, and B"
    assert (state["arithmetic_nulls"], state["matches"]) == (1, 0)


# ----------------------------------------------------------------------- pickling


def test_plans_are_pickled() -> None:
    query = fc.parse(
        "PATTERN SEQ(A a, B* b[], C? c, A d) WHERE a.ID = b[i].ID AND SUM(b[].V) < d.V AND b[i].V > c.V WITHIN 1s",
        SCHEMA,
    )
    plan = make_plan(query)
    assert make_plan(query) == plan
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan
    assert again.query == query

    pair = pickle.loads(pickle.dumps(make_plan(fc.parse(PAIR, SCHEMA))))
    strings = StringTable()
    matcher = Matcher(pair, strings.intern)
    matcher.process(Batch(EventBatch.from_data(SCHEMA, DATA, strings), 0), None)
    values, lengths, detected, times, counts, _ = matcher.take_output().arrays()
    assert [values[0].tolist(), values[1].tolist()] == [[0, 1], [2, 4]]
    assert lengths == [None, None]
    assert (detected.tolist(), times.tolist(), counts.tolist()) == ([2, 4], [2, 4], [1, 1])
