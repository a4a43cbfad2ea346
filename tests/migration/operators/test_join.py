"""Joins over windows of time against their naive twin: turns, cuts at random points, any subset of the state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from migration.operators.naive import KEYS, REALS, WHOLES, NaiveJoin, Row

import fastcep as fc
from fastcep.migration.operators import WindowJoin
from fastcep.migration.operators.join_assembly import start_join

LEFT = pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.float64())])
RIGHT = pa.schema([("t", pa.int64()), ("k", pa.string()), ("y", pa.int64()), ("s", pa.string())])
SCHEMAS = {"left": LEFT, "right": RIGHT}


def operator(window: int = 5, **options: Any) -> WindowJoin:
    return WindowJoin(LEFT, RIGHT, ["k"], f"{window}ns", time="t", **options)


def table(side: str, rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMAS[side])


def left(*rows: tuple[int, str]) -> pa.Table:
    return table("left", [{"t": time, "k": key} for time, key in rows])


def right(*rows: tuple[int, str]) -> pa.Table:
    return table("right", [{"t": time, "k": key} for time, key in rows])


@st.composite
def turns(draw: st.DrawFn) -> list[tuple[str, list[Row]]]:
    """Draw batches of the sides in turn; times ascend in each side."""
    time = {"left": draw(st.integers(-9, 9)), "right": draw(st.integers(-9, 9))}
    found = []
    for side in draw(st.lists(st.sampled_from(["left", "right"]), max_size=10)):
        rows = []
        for gap, key in draw(st.lists(st.tuples(st.integers(0, 4), KEYS), max_size=6)):
            time[side] += gap
            row = {"t": time[side], "k": key}
            rows.append(
                row | ({"x": draw(REALS)} if side == "left" else {"y": draw(WHOLES), "s": draw(st.none() | KEYS)})
            )
        found.append((side, rows))
    return found


@given(turns(), st.integers(1, 12))
def test_the_result_is_that_of_all_pairs(drawn: list[tuple[str, list[Row]]], window: int) -> None:
    tested, naive, pairs = operator(window), NaiveJoin(window), 0
    for side, rows in drawn:
        expected = naive.process(side, rows)
        assert tested.process(table(side, rows), side).to_pylist() == expected
        pairs += len(expected)
    assert tested.metrics()["pairs"] == pairs and tested.position == sum(len(rows) for _, rows in drawn)


@given(turns(), st.integers(1, 12), st.data())
def test_any_part_of_the_state_continues_exactly(
    drawn: list[tuple[str, list[Row]]], window: int, data: st.DataObject
) -> None:
    tested, naive, read = operator(window), NaiveJoin(window), 0
    for side, rows in drawn:
        assert tested.process(table(side, rows), side).to_pylist() == naive.process(side, rows)
        read += len(rows)
        cut = tested.partial_states()
        assert (cut.kind, cut.position) == ("join", read)
        count = len(cut.states)
        assert tested.metrics()["states"] == count
        sent = data.draw(st.permutations(range(count)))
        sent = sent[: data.draw(st.integers(0, count))] if data.draw(st.booleans()) else sent
        assembly = start_join(cut.base(), {})
        half = data.draw(st.integers(0, len(sent)))
        for numbers in (sent[:half], sent[half:]):
            message = cut.encode(np.array(numbers, np.int64))
            assert len(message) <= cut.states.size[numbers].sum() or not numbers
            assert assembly.add(message).tolist() == numbers
        tested = assembly.build()
        # Only the last stored rows of a side can have partners, so the naive twin may forget the others.
        stored = [cut.rows.slice(number, 1).to_pylist()[0] for number in sorted(sent)]
        naive.left = [row for state in stored for row in state["left"]]
        naive.right = [row for state in stored for row in state["right"]]
        assert tested.metrics()["states"] == len(sent) and tested.position == read


@given(turns())
def test_sizes_are_those_of_messages(drawn: list[tuple[str, list[Row]]]) -> None:
    tested = operator(20)
    for side, rows in drawn:
        tested.process(table(side, rows), side)
    cut = tested.partial_states()
    assert [len(cut.encode(np.array([number]))) for number in range(len(cut.states))] == cut.states.size.tolist()


@given(turns())
def test_only_rows_that_can_have_partners_are_stored(drawn: list[tuple[str, list[Row]]]) -> None:
    tested, last = operator(5), {"left": -np.inf, "right": -np.inf}
    for side, rows in drawn:
        tested.process(table(side, rows), side)
        last[side] = rows[-1]["t"] if rows else last[side]
        for state in tested.partial_states().rows.to_pylist():
            assert all(row["t"] >= last["right"] - 5 for row in state["left"])
            assert all(row["t"] >= last["left"] - 5 for row in state["right"])


def test_time_passes_without_rows() -> None:
    tested = operator(5)
    tested.process(left((1, "a"), (3, "a")), "left")
    tested.advance(6)
    assert tested.metrics()["states"] == 2
    tested.advance(7)
    assert tested.metrics()["states"] == 1
    with pytest.raises(
        fc.OrderError, match="time=2 is before the last row of the left side, 7; advance to a later time"
    ):
        tested.advance(2)


def test_utilities_are_expected_partners() -> None:
    tested = operator(10)
    tested.process(right((0, "a"), (4, "a"), (14, "a"), (16, "b"), (20, "a")), "right")
    tested.process(left((12, "a"), (18, "a"), (19, "b"), (20, "c")), "left")
    utility = tested.partial_states().states.utility
    # left: a has 2 rows of the right in the last 10 ns (14, 20), and b 1; partners may arrive for t + 10 - 20
    assert utility[:4].tolist() == pytest.approx([2 / 10 * 2, 2 / 10 * 8, 1 / 10 * 9, 0])
    # right: the left side has a time of 8 ns; 14, 16 and 20 are stored
    assert utility[4:].tolist() == pytest.approx([2 / 8 * 4, 1 / 8 * 6, 2 / 8 * 10])
    assert operator().partial_states().states.utility.tolist() == []
    tested = operator(10)
    tested.process(left((12, "a")), "left")
    assert tested.partial_states().states.utility.tolist() == [0.0], "nothing is known of the other side"


def test_utilities_of_a_function() -> None:
    tested = operator(10)
    tested.process(left((1, "a"), (2, "a")), "left")
    tested.process(right((2, "a")), "right")
    cut = tested.partial_states(lambda side, rows: rows["t"].to_numpy() * (1 if side == "left" else 10))
    assert cut.states.utility.tolist() == [1, 2, 20]
    with pytest.raises(
        fc.ValidationError, match=r"utility: shape \(1,\) for 2 rows of the left side; return one value"
    ):
        tested.partial_states(lambda side, rows: [1.0])
    with pytest.raises(fc.ValidationError, match=r"utility: -1\.0 of state 0"):
        tested.partial_states(lambda side, rows: np.full(len(rows), -1.0))


def test_keys_of_several_columns_and_other_names() -> None:
    moments = pa.array([0, 1, 2], pa.timestamp("s"))
    first = pa.table({"at": moments, "job": [1, 1, 2], "task": ["x", "y", "x"]})
    second = pa.table({"job": [1, 1, 2], "step": ["y", "x", "y"], "at": moments, "flag": [True, None, False]})
    tested = WindowJoin(first.schema, second.schema, {"job": "job", "task": "step"}, "1s", time="at")
    for batch in first.to_batches():
        assert tested.process(batch, "left").num_rows == 0
    found = tested.process(second, "right")
    assert found.schema.names == [
        "left_at", "left_job", "left_task", "right_at", "right_job", "right_step", "right_flag"
    ]  # fmt: skip
    assert [(row["left_task"], row["right_flag"]) for row in found.to_pylist()] == [("y", True), ("x", None)]


def test_many_rows_of_one_key() -> None:
    tested = operator(2)
    times = [(time, "a") for time in range(3_000)]
    tested.process(left(*times), "left")
    assert tested.process(right(*times), "right").num_rows == 5 * 3_000 - 6


def test_limits() -> None:
    tested = operator(5, max_states=2)
    tested.process(left((1, "a"), (2, "b")), "left")
    for _ in range(2):
        with pytest.raises(fc.MemoryLimitError, match="would store 3 states, more than max_states=2"):
            tested.process(right((1, "a")), "right")
    assert tested.process(right((7, "b")), "right").num_rows == 1, "rows are freed first"
    assert tested.metrics()["states"] == 2 and tested.metrics()["rows"] == 3
    with pytest.raises(fc.MemoryLimitError, match="memory_limit=8"):
        operator(5, memory_limit=8).process(left((1, "a")), "left")
    cut = operator(5)
    cut.process(left((1, "a"), (2, "b"), (3, "c")), "left")
    states = cut.partial_states()
    assembly = start_join(states.base(), {"max_states": 2})
    assembly.add(states.encode(np.arange(3)))
    with pytest.raises(fc.MemoryLimitError, match="max_states=2"):
        assembly.build()
