"""Aggregates over windows against their naive twin: batches, cuts at random points, any subset of the state."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from migration.operators.naive import AGGREGATES, SCHEMA, NaiveAggregate, Row, streams, table

import fastcep as fc
from fastcep.migration.operators import WindowAggregate
from fastcep.migration.operators.aggregate_assembly import start_aggregate

Sizes = st.tuples(st.integers(1, 12), st.integers(1, 12)).map(lambda pair: (max(pair), min(pair)))


def operator(window: int, slide: int, **options: Any) -> WindowAggregate:
    return WindowAggregate(
        SCHEMA, time="t", keys=["k", "g"], window=f"{window}ns", slide=f"{slide}ns", aggregates=AGGREGATES, **options
    )


def batches(rows: list[Row], cuts: list[int]) -> list[list[Row]]:
    ends = [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
    return [rows[begin:end] for begin, end in itertools.pairwise(ends)]


CUTS = st.lists(st.integers(0, 100), max_size=5)


@given(streams(), CUTS, Sizes)
def test_the_result_does_not_depend_on_batches(rows: list[Row], cuts: list[int], sizes: tuple[int, int]) -> None:
    tested, naive = operator(*sizes), NaiveAggregate(*sizes)
    for part in batches(rows, cuts):
        assert tested.process(table(part)).to_pylist() == naive.process(part)
        assert tested.metrics()["states"] == len(naive.extents)
    assert tested.flush().to_pylist() == naive.close(np.inf)
    assert tested.metrics()["states"] == 0 and tested.position == len(rows)


@given(streams(), CUTS, CUTS, Sizes, st.data())
def test_any_part_of_the_state_continues_exactly(
    rows: list[Row], cuts: list[int], moves: list[int], sizes: tuple[int, int], data: st.DataObject
) -> None:
    tested, naive, read = operator(*sizes), NaiveAggregate(*sizes), 0
    for part in batches(rows, [*cuts, *moves]):
        assert tested.process(table(part)).to_pylist() == naive.process(part)
        read += len(part)
        cut = tested.partial_states()
        assert (cut.kind, cut.position, len(cut.states)) == ("aggregate", read, len(naive.extents))
        keys = list(zip(*(cut.rows[name].to_pylist() for name in ("start", "k0", "k1")), strict=True))
        assert set(keys) == naive.extents.keys()
        sent = data.draw(st.permutations(range(len(keys))))
        sent = sent[: data.draw(st.integers(0, len(sent)))] if data.draw(st.booleans()) else sent
        assembly = start_aggregate(cut.base(), {})
        half = data.draw(st.integers(0, len(sent)))
        for numbers in (sent[:half], sent[half:]):
            message = cut.encode(np.array(numbers, np.int64))
            assert len(message) <= cut.states.size[numbers].sum() or not numbers
            assert assembly.add(message).tolist() == numbers
        tested = assembly.build()
        naive.keep([keys[number] for number in sent])
        assert tested.metrics()["states"] == len(naive.extents) and tested.position == read
    assert tested.flush().to_pylist() == naive.close(np.inf)


@given(streams())
def test_sizes_are_those_of_messages(rows: list[Row]) -> None:
    tested = operator(8, 4)
    tested.process(table(rows))
    cut = tested.partial_states()
    assert [len(cut.encode(np.array([number]))) for number in range(len(cut.states))] == cut.states.size.tolist()


def test_the_operator_continues_while_states_are_sent() -> None:
    tested = operator(10, 10)
    tested.process(table([{"t": 1, "k": "a", "g": 0}]))
    cut = tested.partial_states()
    before = cut.encode(np.array([0]))
    tested.process(table([{"t": 2, "k": "a", "g": 0}, {"t": 30, "k": "b", "g": 0}]))
    assert cut.encode(np.array([0])) == before and cut.position == 1


def test_utilities_are_rows_and_age() -> None:
    tested = operator(10, 5)
    tested.process(table([{"t": time, "k": "a", "g": 0} for time in (2, 6, 7)]))
    cut = tested.partial_states()
    by_start = dict(zip(cut.rows["start"].to_pylist(), cut.states.utility.tolist(), strict=True))
    assert by_start == {0: pytest.approx(3 * 0.7), 5: pytest.approx(2 * 0.2)}


def test_utilities_of_a_function() -> None:
    tested = operator(10, 10)
    tested.process(table([{"t": time, "k": key, "g": 0, "x": 2.5} for time, key in ((2, "a"), (6, "b"), (7, "b"))]))

    def by_total(extents: pa.Table) -> Any:
        assert extents.schema.names == ["k", "g", "window_start", "window_end", *AGGREGATES]
        return extents["total"]

    cut = tested.partial_states(by_total)
    assert dict(zip(cut.rows["k0"].to_pylist(), cut.states.utility.tolist(), strict=True)) == {"a": 2.5, "b": 5.0}
    with pytest.raises(fc.ValidationError, match="utility: nan of state 0"):
        tested.partial_states(lambda extents: [np.nan] * len(extents))
    with pytest.raises(fc.ValidationError, match="utility='best': expected one of auto, size, random, or a function"):
        tested.partial_states("best")
    assert (tested.partial_states("size").states.utility == cut.states.size**1.5).all()
    drawn = [tested.partial_states("random", seed).states.utility.tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    with pytest.raises(fc.ValidationError, match="utility: 1 values for 2 states"):
        tested.partial_states(lambda extents: [1.0])


def test_no_state() -> None:
    cut = operator(10, 5).partial_states()
    assembly = start_aggregate(cut.base(), {})
    assert len(cut.states) == 0 and assembly.add(cut.encode(np.array([], np.int64))).tolist() == []
    assert assembly.build().process(table([{"t": 1, "k": "a", "g": 0}])).num_rows == 0


def test_windows_end_without_rows() -> None:
    tested = operator(10, 10)
    tested.process(table([{"t": 2, "k": "a", "g": 0}]))
    assert tested.advance(9).num_rows == 0 and tested.advance(10).num_rows == 1
    with pytest.raises(fc.OrderError, match=r"time=9 is before the last row, 10; advance to a later time"):
        tested.advance(9)
    with pytest.raises(fc.ValidationError, match="time='x': expected a whole number"):
        tested.advance("x")  # type: ignore[arg-type]


def test_times_without_keys_and_other_units() -> None:
    moments = pa.array([0, 1_000, 60_000], pa.timestamp("ms", "UTC"))
    rows = pa.table({"at": moments, "kind": pa.array(["x", "y", "x"]).dictionary_encode()})
    tested = WindowAggregate(rows.schema, time="at", keys=[], window=timedelta(seconds=30), aggregates={"n": "count"})
    found = tested.process(rows)
    assert found.schema.field("window_end").type == pa.timestamp("ms", "UTC") and found["n"].to_pylist() == [2]
    tested = WindowAggregate(
        rows.schema, time="at", keys=["kind"], window="1min", slide="30s", aggregates={"n": "count"}
    )
    for batch in rows.to_batches():
        tested.process(batch)
    found = start_aggregate(tested.partial_states().base(), {}).build().flush()
    assert found.num_rows == 0 and tested.flush()["kind"].to_pylist() == ["x", "x"]


def test_limits() -> None:
    rows = [{"t": 1, "k": key, "g": 0} for key in "abc"]
    tested = operator(10, 10, max_states=2)
    tested.process(table(rows[:2]))
    for _ in range(2):
        with pytest.raises(fc.MemoryLimitError, match=r"would store 3 states, more than max_states=2; it is as before"):
            tested.process(table(rows[2:]))
    assert tested.metrics() == {"rows": 2, "states": 2, "bytes": tested.metrics()["bytes"], "closed": 0}
    with pytest.raises(fc.MemoryLimitError, match=r"bytes, more than memory_limit=64; .*Raise memory_limit"):
        operator(10, 10, memory_limit="64B").process(table(rows))
    cut = operator(10, 10)
    cut.process(table(rows))
    states = cut.partial_states()
    assembly = start_aggregate(states.base(), {"max_states": 2})
    assembly.add(states.encode(np.arange(3)))
    with pytest.raises(fc.MemoryLimitError, match="max_states=2"):
        assembly.build()


@pytest.mark.thorough
def test_the_state_of_ended_windows_is_freed() -> None:
    tested = operator(10, 5)
    for time in range(0, 5_000, 5):
        tested.process(table([{"t": time, "k": str(time), "g": 0}]))
        assert tested.metrics()["states"] <= 3
    assert tested.metrics()["closed"] > 1_900


@pytest.mark.parametrize(("values", "dtype"), [([2**62, 2**62], pa.int64()), ([2**63], pa.uint64())])
def test_sums_that_do_not_fit(values: list[int], dtype: pa.DataType) -> None:
    rows = pa.table({"t": [1] * len(values), "v": pa.array(values, dtype)})
    tested = WindowAggregate(rows.schema, time="t", keys=[], window="1s", aggregates={"sum": ("sum", "v")})
    with pytest.raises(fc.DataError, match=r"column 'v': .*fit *int64"):
        tested.process(rows)
    assert tested.position == 0
