"""All slices together give the matches of a single engine, in its order: random queries, streams and cuts, no Spark."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from strategies.queries import Case
from support import harness
from support import slices as sliced

import fastcep as fc
from fastcep.plan import make_plan
from fastcep.plan.plan import KeyPlan
from fastcep.plan.slicing import Context, slicing_of
from fastcep.spark.slicing.assignment import SliceAssignment
from fastcep.spark.slicing.cutter import _slice_count, key_cut
from fastcep.spark.slicing.slices import time_cut

often_refused = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def check_time(case: Case, data: st.DataObject) -> None:
    first, last = (case.events[0].time, case.events[-1].time) if case.events else (0, 0)
    context = slicing_of(make_plan(case.query), last - first).time
    assume(isinstance(context, Context))
    assert isinstance(context, Context)
    parts = data.draw(st.lists(st.integers(first - 1, last), max_size=9).map(sorted), "parts")
    numbered = case.query.schema.sequence is not None
    cut = time_cut(parts, data.draw(st.integers(1, 6), "slices"), context, positions=not numbered)
    if cut.edges:
        cut = cut.with_positions(sliced.counts(case.events, cut))
    table = sliced.detected(case.query, case.events, SliceAssignment(cut.slices, cut), numbered=numbered)
    matches = harness.table_rows(case.query, table)
    event(f"slices: {len(cut.slices)}, matches: {bool(matches)}")
    harness.assert_same(case.query, case.events, matches, f"cut at {[piece.start for piece in cut.slices]}")


def check_key(case: Case, data: st.DataObject) -> None:
    assume(isinstance(slicing_of(make_plan(case.query)).key, KeyPlan))
    first, last = (case.events[0].time, case.events[-1].time) if case.events else (0, 0)
    parts = data.draw(st.lists(st.integers(first - 1, last + 2), max_size=5).map(sorted), "parts")
    cut, route = sliced.by_key(case.query, case.events, data.draw(st.integers(1, 4), "slices"), parts)
    table = sliced.detected(case.query, case.events, cut, route, numbered=True)
    matches = harness.table_rows(case.query, table)
    event(f"slices: {len(cut.slices)}, by time: {cut.time is not None}, matches: {bool(matches)}")
    harness.assert_same(case.query, case.events, matches, f"cut by key into {len(cut.slices)}")


@given(st.data())
def test_pieces_have_what_they_need(data: st.DataObject) -> None:
    """A piece contains the context of the events that it owns, and the position of its first event is right."""
    times = sorted(data.draw(st.lists(st.integers(-20, 60), min_size=1, max_size=40), "times"))
    parts = data.draw(st.lists(st.sampled_from(times), max_size=9).map(sorted), "parts")
    before, after = (
        Context(data.draw(st.integers(0, 9)), data.draw(st.integers(0, 4)), data.draw(st.sampled_from([0, 0, 7])))
        for _ in range(2)
    )
    after = Context(after.nanoseconds, after.events)
    cut = time_cut(parts, data.draw(st.integers(1, 6), "slices"), before, positions=True, after=after)
    cut = cut.with_positions([sum(low <= time < high for time in times) for low, high in zip(
        [-99, *cut.edges], [*cut.edges, 99], strict=True)])  # fmt: skip
    owned = 0
    for number, piece in enumerate(cut.slices):
        begin, end = ([-99, *cut.begins][number], [*cut.ends, 99][number])
        contained = [seq for seq, time in enumerate(times) if begin <= time < end]
        own = [seq for seq, time in enumerate(times) if (piece.start is None or piece.start <= time)
               and (piece.stop is None or time < piece.stop)]  # fmt: skip
        assert contained == list(range(contained[0], contained[-1] + 1)) if contained else not own
        if contained:
            assert piece.position == contained[0]
        if piece.skip_before is not None:
            contained = [seq for seq in contained if times[seq] >= piece.skip_before]
            assert piece.skip_before % before.every_nanoseconds == 0
        if own:
            first = piece.start if piece.start is not None else -99
            near_start = {seq for seq, time in enumerate(times) if first - before.nanoseconds <= time <= first}
            assert near_start <= set(contained)
            assert set(range(max(0, own[0] - before.events), own[0])) <= set(contained)
            later = [seq for seq, time in enumerate(times) if seq > own[-1]]
            near = [seq for seq in later if piece.stop is not None and times[seq] < piece.stop + after.nanoseconds]
            assert set(later[: len(near) + after.events]) <= set(contained)
        owned += len(own)
    assert owned == len(times)


SIDES = [
    "NEG N n, A a, NEG B m", "NEG N n, A a, B b, NEG N m", "NEG N n, A a", "NEG N n, A a, B b",
    "NEG N n, A a, B+ b[], A c",
]  # fmt: skip


@given(st.data())
def test_negation_on_both_sides(data: st.DataObject) -> None:
    """A match decided one window after its first event may depend on events one window before it."""
    types: dict[str, dict[str, str]] = {name: {} for name in "ABN"}
    schema = fc.Schema(types, time="ts", type="type")
    pattern = data.draw(st.sampled_from(SIDES))
    strategy = data.draw(st.sampled_from(["", " STRATEGY skip_till_next"]))
    try:
        query = fc.parse(f"PATTERN SEQ({pattern}) WITHIN {data.draw(st.integers(1, 9))}ns{strategy}", schema)
    except fc.FastcepError:
        assume(False)
    gaps = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=14))
    line = " ".join(f"{data.draw(st.sampled_from('ABN'))}@{sum(gaps[: at + 1])}" for at in range(len(gaps)))
    check_time(Case(query, line, harness.stream(schema, line), [3]), data)


@pytest.mark.parametrize(
    ("pattern", "line", "edge", "expected"),
    [
        # N occurs more than a window before the cut, and before it is decided that B does not occur.
        ("SEQ(NEG N n, A a, NEG B m) WITHIN 5ns", "N@1 A@5 B@12 A@14 N@30", 10, [{"a": 3}]),
        # Because of N, A does not take the first B; it takes the second one.
        ("SEQ(NEG N n, A a, B b) WITHIN 6ns STRATEGY skip_till_next", "N@20 A@23 B@24 B@29", 29, [{"a": 1, "b": 3}]),
    ],
)
def test_a_dependency_beyond_the_window(pattern: str, line: str, edge: int, expected: list[dict[str, int]]) -> None:
    schema = fc.Schema({"A": {}, "B": {}, "N": {}}, time="ts", type="type")
    query = fc.parse(f"PATTERN {pattern}", schema)
    events = harness.stream(schema, line)
    context = slicing_of(make_plan(query)).time
    assert isinstance(context, Context)
    cut = time_cut([edge], 2, context, positions=True)
    cut = cut.with_positions(sliced.counts(events, cut))
    matches = harness.table_rows(query, sliced.detected(query, events, SliceAssignment(cut.slices, cut)))
    harness.assert_same(query, events, matches, f"cut at {edge}")
    assert [row[0] for row in matches] == expected


def test_windows_longer_than_time() -> None:
    """Slices begin and end at times that fit int64."""
    century = 100 * 365 * 24 * 3_600 * 10**9
    most = 2**63 - 1
    cut = time_cut([-90 * century // 100, century], 3, Context(most), positions=True, after=Context(most, 1))
    cut = cut.with_positions([1] * (len(cut.edges) + 1))
    assert cut.begins == [-most, century - most]
    assert cut.ends[1] == most
    assert all(-most <= edge <= most for edge in cut.edges)


@pytest.mark.parametrize(
    ("events", "expected"),
    [(0, 1), (100, 1), (60_000, 3), (10**6, 4), (16_000_000, 4), (16_000_001, 8), (10**9, 252), (10**11, 1024)],
)
def test_number_of_slices(events: int, expected: int) -> None:
    """On two cores: complete rounds, and no slice above the maximum."""
    assert _slice_count(4, 4_000_000, events) == expected


def test_number_of_pieces() -> None:
    assert _slice_count(4, 500_000, 3 * 10**9, 8_192) == 6_000
    assert _slice_count(4, 500_000, 10**11, 8_192) == 8_192


@pytest.mark.parametrize("slice_count", [16, 64, 1024])
def test_heavy_groups_are_cut_by_their_own_size(slice_count: int) -> None:
    """Keys with Zipf's distribution: each slice has about the same number of events, and there are not too many."""
    sizes = [10**9 // rank for rank in range(1, 8 * slice_count + 1)]
    parts = list(range(1, 8 * slice_count))
    cut = key_cut(sizes, slice_count, parts, Context(0))
    assert len(cut.slices) <= min(2 * slice_count, 1024)
    assert cut.time is not None
    loads = [0.0] * len(cut.slices)
    for group, (first, step) in enumerate(zip(cut.groups, cut.steps, strict=True)):
        count = -(-len(cut.time.slices) // step)
        for piece in range(first, first + count):
            loads[piece] += sizes[group] / count
    assert max(loads) < 2.5 * sum(sizes) / slice_count
    first, second = (-(-len(cut.time.slices) // cut.steps[group]) for group in (0, 3))
    assert first >= 3 * second


def test_heavy_groups_do_not_give_too_many_slices() -> None:
    """Each of 600 keys would have two slices, beside about 120 of other keys."""
    sizes = [1_600] * 600 + [17] * 7_592
    assert len(key_cut(sizes, 1_024, list(range(1, 8_192)), Context(0)).slices) <= 1_024


def test_time_slices_of_a_heavy_group() -> None:
    time = time_cut([10, 20, 30, 40], 5, Context(3), positions=False)
    assert [(one.start, one.stop, one.begin, one.end) for one in time.coarser(2)] == [
        (None, 20, None, 20), (20, 40, 17, 40), (40, None, 37, None),
    ]  # fmt: skip
