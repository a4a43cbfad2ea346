"""Late and out-of-order streams: examples of held, released, late and rejected events."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import harness

import fastcep as fc

MIN, MAX = -(2**63), 2**63 - 1
V = {"id": "int64", "name": "string"}
SCHEMA = fc.Schema({"A": V, "B": {"id": "int64", "ok": "bool"}}, type="type")
NUMBERED = fc.Schema({"A": V, "B": V}, type="type", sequence="number")
PAIR = "PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 10ns"


def engine(lateness: Any = "5ns", schema: fc.Schema = SCHEMA, text: str = PAIR, **options: Any) -> fc.Engine:
    return fc.Engine(fc.parse(text, schema), allowed_lateness=lateness, **options)


def events(kinds: str, times: list[int], **columns: list[Any]) -> dict[str, Any]:
    ones = {"id": [1] * len(kinds), "name": ["x"] * len(kinds), "ok": [True] * len(kinds)}
    return {"type": list(kinds), "ts": times} | ones | columns


def pairs(matches: fc.Matches) -> list[tuple[int, int]]:
    return [(row["a"], row["b"]) for row in matches.to_arrow().select(["a", "b"]).to_pylist()]


def counts(one: fc.Engine) -> tuple[Any, ...]:
    state = one.metrics()
    return tuple(state[key] for key in ("events", "held_events", "late_events", "late_waiting", "watermark"))


# --------------------------------------------------------------------- examples


def test_held_then_released() -> None:
    one = engine()
    assert pairs(one.process(events("BA", [3, 2]))) == []
    assert counts(one) == (0, 2, 0, 0, -2)
    assert pairs(one.process(events("A", [8]))) == [(1, 0)], "what the watermark has reached can come out"
    assert counts(one) == (2, 1, 0, 0, 3)
    assert pairs(one.process(events("BBA", [8, 2, 3]))) == []
    assert counts(one) == (3, 2, 1, 1, 3), "an event as old as the watermark is not late"
    found = one.flush().to_arrow()
    assert found.select(["a", "b"]).to_pylist() == [{"a": 1, "b": 3}, {"a": 5, "b": 3}, {"a": 2, "b": 3}]
    assert found["detected_at"].cast(pa.int64()).to_pylist() == [8, 8, 8]
    assert one.late()["seq"].to_pylist() == [4]


def test_late_is_decided_event_by_event() -> None:
    """The second event is late because of the first, not of later ones in its batch; batch boundaries do not matter."""
    data = events("AAAA", [10, 4, 5, 30])
    whole, single = engine(), engine()
    whole.process(data)
    for k in range(4):
        single.process({name: column[k : k + 1] for name, column in data.items()})
    assert whole.late()["ts"].cast(pa.int64()).to_pylist() == [4] == single.late()["ts"].cast(pa.int64()).to_pylist()


def test_no_lateness_at_all_is_not_none() -> None:
    strict, zero = fc.Engine(fc.parse(PAIR, SCHEMA)), engine(timedelta(0))
    with pytest.raises(fc.DataError, match=r"batch, row 1, column 'ts': time 1 ns is before 2 ns.*allowed_lateness"):
        strict.process(events("AA", [2, 1]))
    assert pairs(zero.process(events("AAB", [2, 1, 2]))) == [(0, 2)], "nothing is held back"
    assert counts(zero) == (2, 0, 1, 1, 2)


def test_sequence_column_decides_among_equal_times() -> None:
    one = engine("0s", NUMBERED)
    assert pairs(one.process(events("BA", [7, 7], number=[5, 3]))) == []
    assert counts(one) == (0, 2, 0, 0, 7), "an event with a smaller number may still come"
    assert pairs(one.process(events("AA", [7, 8], number=[1, 9]))) == [(1, 5), (3, 5)]


@pytest.mark.parametrize("size", [1, 5])
def test_a_sequence_number_given_twice(size: int) -> None:
    one = engine("5ns", NUMBERED)
    data = events("AAAAA", [7, 8, 6, 8, 8], number=[1, 2, 1, 3, 2])
    with pytest.raises(fc.DataError, match=r"file, row 104, column 'number': found 2 at the time 8 ns for the second"):
        for k in range(0, 5, size):
            part = {name: column[k : k + size] for name, column in data.items()}
            one.process(part, origin="file", first_row=100 + k)
    assert one.metrics()["held_events"] == (4 if size == 1 else 0), "the batch is refused whole"


def test_rows_of_the_input_are_named_where_types_are_ignored() -> None:
    schema = fc.Schema({"A": V, "B": V}, type="type", sequence="number", other_types="ignore")
    data = events("XAXA", [0, 1, 2, 1], number=[0, 1, 2, 1])
    with pytest.raises(fc.DataError, match="row 13, column 'number'"):
        engine("5ns", schema).process(data, first_row=10)
    with pytest.raises(fc.DataError, match="row 13, column 'number'"):
        fc.Engine(fc.parse(PAIR, schema)).process(data, first_row=10)
    with pytest.raises(fc.DataError, match="row 13, column 'ts'"):
        fc.Engine(fc.parse(PAIR, schema)).process(data | {"ts": [0, 1, 2, 0]}, first_row=10)


def test_events_held_are_copies() -> None:
    one = engine()
    times, ids = np.array([0, 1]), np.array([1, 1])
    one.process({"type": ["A", "B"], "ts": times, "id": ids, "name": ["x", "y"], "ok": [None, None]})
    times[:], ids[:] = -99, 7
    found = one.flush().to_arrow()
    assert found.select(["a", "b"]).to_pylist() == [{"a": 0, "b": 1}]
    assert found["detected_at"].cast(pa.int64()).to_pylist() == [1]


def test_strings_of_held_and_late_events_are_kept() -> None:
    one = engine("10ns", text="PATTERN SEQ(A a) WITHIN 1ns RETURN a.name AS name")
    names: list[Any] = []
    for at in range(60):
        for t in (at, at - 20):
            one._stream.unused.limit = 0  # forget strings after every call
            names += one.process(events("A", [t], name=[f"{t}"])).to_arrow()["name"].to_pylist()
    names += one.flush().to_arrow()["name"].to_pylist()
    assert [int(name) for name in names] == list(range(60))
    assert one.late()["name"].to_pylist() == [str(at - 20) for at in range(60)]


def test_late_table() -> None:
    schema = fc.Schema(
        {"A": {"id": "int64", "name": "string"}, "B": {"id": "int64", "x": "float64", "ok": "bool"}},
        time="when", type="kind", time_unit="ms", codes={"A": 3, "B": -1}, sources={"B": {"x": "b.x"}},
    )  # fmt: skip
    one = fc.Engine(fc.parse("PATTERN SEQ(A a, B b) WITHIN 1s", schema), allowed_lateness="1ms")
    assert one.late().num_rows == 0
    data = {"kind": [3, 3, -1, -1], "when": [5, 2, 3, 1], "id": [1, None, 3, 4], "name": ["p", "q", "r", None],
            "b.x": [0.5, 1.5, None, 2.5], "ok": [True, True, False, None]}  # fmt: skip
    one.process(data)
    table = one.late()
    assert table.schema == one.late().schema
    assert table.schema.field("when").type == pa.timestamp("ns", "UTC")
    assert table.drop_columns(["when"]).to_pylist() == [
        {"kind": "A", "seq": 1, "id": None, "name": "q", "b.x": None, "ok": None},
        {"kind": "B", "seq": 2, "id": 3, "name": None, "b.x": None, "ok": False},
        {"kind": "B", "seq": 3, "id": 4, "name": None, "b.x": 2.5, "ok": None},
    ]
    assert table["when"].cast(pa.int64()).to_pylist() == [2_000_000, 3_000_000, 1_000_000]


def test_late_table_names_columns_without_a_header() -> None:
    schema = fc.Schema({"A": {"n": "int64", "copy": "int64"}}, time=1, header=False,
                       sources={"A": {"n": 0, "copy": 2}})  # fmt: skip
    one = fc.Engine(fc.parse("PATTERN SEQ(A a) WITHIN 1s", schema), allowed_lateness="0s")
    one.process({0: [7, 8], 1: [1, 0], 2: [5, 6]})
    assert one.late().drop_columns(["time"]).to_pylist() == [{"type": "A", "seq": 1, "n": 8, "copy": 6}]
    clash = fc.Schema({"A": {"a": "int64"}}, time="seq", sources={"A": {"a": "type"}})
    one = fc.Engine(fc.parse("PATTERN SEQ(A a) WITHIN 1s", clash), allowed_lateness="0s")
    assert one.late().column_names == ["seq", "type", "event.seq", "A.a"]


def test_late_events_may_not_pile_up() -> None:
    one = engine("0s", late_limit=2)
    one.process(events("AAA", [9, 1, 2]))
    with pytest.raises(fc.ValidationError, match=r"1 late events in this batch and 2 waiting.*late_limit=2.*late\(\)"):
        one.process(events("AB", [3, 9]))
    assert counts(one) == (1, 0, 2, 2, 9), "nothing of the batch was taken"
    assert one.late().num_rows == 2
    assert pairs(one.process(events("AB", [3, 9]))) == [(0, 4)]
    assert counts(one) == (2, 0, 3, 1, 9)


def test_late_works_after_the_end() -> None:
    one = engine()
    one.process(events("AA", [9, 1]))
    one.flush()
    assert one.late().num_rows == 1
    assert fc.Engine(fc.parse(PAIR, SCHEMA)).late().num_rows == 0


def test_held_events_count_as_memory_and_give_it_back() -> None:
    one = engine("1ms", text="PATTERN SEQ(A a) WITHIN 1ns")
    rest = one.metrics()["memory_bytes"]
    for start in range(0, 100_000, 1_000):
        one.process(events("A" * 1_000, list(range(start, start + 1_000))))
    assert one.metrics()["held_events"] == 100_000
    assert one.metrics()["memory_bytes"] > rest + 100_000 * 26
    assert one.metrics()["memory_bytes"] < rest + 100_000 * 80
    one.advance(98_000)
    assert one.metrics()["held_events"] == 1_999
    assert one._stream.reorder is not None and one._stream.reorder.nbytes < 2_000 * 100
    one.advance(100_000)
    assert one._stream.reorder.nbytes == 0


@pytest.mark.thorough
def test_sending_one_by_one_with_much_held_is_not_quadratic() -> None:
    """There are few runs: copies per event grow with the logarithm of the number of held events."""
    one = engine("1ms")
    for at in range(3_000):
        one.send("A", id=1, name="x", ts=at * 7 % 3_000)
    assert one._stream.reorder is not None
    assert one.metrics()["held_events"] == 3_000 and len(one._stream.reorder._runs) <= 14


# ------------------------------------------------------------------------- idle


def test_a_quiet_stream_gives_its_matches() -> None:
    clock = harness.Clock()
    one = engine("5ns", idle_timeout="2s", clock=clock)
    assert len(one.poll()) == 0, "nothing has come yet"
    one.process(events("AB", [4, 6]))
    clock.now += 1_999_999_999
    assert len(one.poll()) == 0
    clock.now += 1
    assert pairs(one.poll()) == [(0, 1)]
    assert counts(one) == (2, 0, 0, 0, 6)
    assert len(one.poll()) == 0
    assert pairs(one.process(events("AB", [5, 6]))) == [(0, 3)], "older ones are late now, equal ones are not"
    assert counts(one) == (3, 0, 1, 1, 6)


def test_a_quiet_stream_with_a_sequence_column() -> None:
    clock = harness.Clock()
    one = engine("5ns", NUMBERED, idle_timeout="1ms", clock=clock)
    one.process(events("AB", [4, 6], number=[1, 8]))
    clock.now += 10**6
    assert pairs(one.poll()) == [(1, 8)]
    one.process(events("A", [6], number=[2]))
    assert counts(one) == (2, 0, 1, 1, 7), "it would have come before one that is gone"
    one.process(events("A", [MAX], number=[3]))
    clock.now += 10**6
    one.poll()
    assert counts(one) == (3, 0, 1, 1, MAX + 1)
    one.process(events("A", [MAX], number=[4]))
    assert counts(one) == (3, 0, 2, 2, MAX + 1)


@pytest.mark.thorough
def test_sources_are_few() -> None:
    one = engine()
    for number in range(4_096):
        one.process(events("", []), source=f"{number}")
    with pytest.raises(fc.ValidationError, match=r"source='new': there are 4,096 sources already"):
        one.process(events("A", [1]), source="new")
    one.process(events("A", [1]), source="7")
    with pytest.raises(fc.ValidationError, match="source=7: expected a name"):
        one.process(events("A", [1]), source=7)  # type: ignore[arg-type]


def test_an_idle_source_does_not_hold_back_the_others() -> None:
    clock = harness.Clock()
    one = engine("5ns", idle_timeout="1s", clock=clock)
    one.process(events("", []), source="b")
    assert pairs(one.process(events("ABA", [4, 6, 50]), source="a")) == []
    assert counts(one) == (0, 3, 0, 0, None), "b was announced"
    one.process(events("B", [5]), source="b")
    assert counts(one) == (0, 4, 0, 0, 0)
    clock.now += 5 * 10**8
    one.process(events("A", [51]), source="a")
    clock.now += 5 * 10**8
    assert pairs(one.poll()) == [(0, 3), (0, 1)], "b is idle, a is not"
    assert counts(one) == (3, 2, 0, 0, 46)
    one.process(events("B", [45]), source="b")
    assert counts(one) == (3, 2, 1, 1, 46)


def test_an_idle_timeout_alone_allows_no_lateness() -> None:
    now = 0
    one = fc.Engine(fc.parse(PAIR, NUMBERED), idle_timeout="1ms", clock=lambda: now)
    assert len(one.process(events("AB", [1, 2], number=[0, 1]))) == 0, "a smaller number may come"
    now = 1_000_000
    assert len(one.poll()) == 1
    one.process(events("A", [1], number=[2]))
    assert one.metrics()["late_events"] == 1


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allowed_lateness": "5 parsecs"}, "allowed_lateness: unknown unit 'parsecs'"),
        ({"allowed_lateness": 5}, "allowed_lateness: a duration cannot be of type int"),
        ({"allowed_lateness": timedelta(-1)}, "allowed_lateness: negative duration"),
        ({"idle_timeout": "0s"}, "idle_timeout is 0"),
        ({"allowed_lateness": "1s", "idle_timeout": "0s"}, "idle_timeout is 0"),
        ({"allowed_lateness": "1s", "late_limit": -1}, "late_limit=-1: expected a number of events"),
        ({"late_limit": 1.5}, "late_limit=1.5"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        fc.Engine(fc.parse(PAIR, SCHEMA), **options)


def test_calls_that_need_an_option() -> None:
    with pytest.raises(fc.ValidationError, match=r"poll\(\) needs"):
        engine().poll()
    with pytest.raises(fc.ValidationError, match="source='a' needs"):
        fc.Engine(fc.parse(PAIR, SCHEMA)).process(events("A", [1]), source="a")


def test_the_clock_does_not_run_back() -> None:
    one = engine()
    one.process(events("A", [20]))
    with pytest.raises(fc.ValidationError, match="clock back from 15 ns to 14 ns"):
        one.advance(14)
    one.advance(15)
    one.process(events("A", [15]))
    assert counts(one) == (1, 1, 0, 0, 15)
    assert len(one.advance(20)) == 0
    assert counts(one) == (2, 0, 0, 0, 20)


@pytest.mark.parametrize("lateness", [None, "0ns", "5ns", "1s"])
def test_a_stream_that_broke_off_decides_nothing_beyond_its_end(lateness: str | None) -> None:
    """The first A waits until 10, the second until 12. The last event is at 12, where another may come."""
    text = "PATTERN SEQ(A a, NEG B b) WITHIN 10ns"
    for moved, wanted in ((None, [0]), (12, [0]), (13, [0, 1])):
        one = engine(lateness, text=text)
        found = [one.process(events("AAA", [0, 2, 12]))]
        if moved is not None:
            found.append(one.advance(moved))
        found.append(one.flush(complete=False))
        assert [a for matches in found for a in matches.to_arrow()["a"].to_pylist()] == wanted
        state = one.metrics()
        assert (state["matches"], state["live_partial_matches"], state["waiting_matches"]) == (len(wanted), 0, 0)
    assert len(engine(lateness, text=text).flush(complete=False)) == 0


# ------------------------------------------------------------------------ limits


@pytest.mark.parametrize("schema", [SCHEMA, NUMBERED])
def test_times_and_lateness_at_the_limits(schema: fc.Schema) -> None:
    one = engine(f"{MAX}ns", schema, text="PATTERN SEQ(A a) WITHIN 1ns")
    first = one.process(events("AAAA", [MIN, 0, MAX, MIN], number=[1, 2, 3, 4]))
    assert counts(one)[2:] == (1, 1, 0), "the watermark is 0, not below int64, and INT64_MIN is older"
    found = [matches.to_arrow()["a"].to_pylist() for matches in (first, one.flush())]
    assert found == ([[1], [2, 3]] if schema is NUMBERED else [[0, 1], [2]])


def test_the_watermark_stops_at_the_smallest_time() -> None:
    one = engine("1d", text="PATTERN SEQ(A a) WITHIN 1ns")
    assert len(one.process(events("AAA", [MIN + 5, MIN + 1, MIN]))) == 1, "nothing can come before INT64_MIN"
    assert counts(one) == (1, 2, 0, 0, None)
    assert len(one.advance(MAX)) == 2
    one.process(events("AA", [MAX, MAX - 1]))
    assert counts(one) == (4, 0, 1, 1, MAX)
