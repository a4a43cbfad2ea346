"""Drop probabilities of eSPICE: the amount per partition, the order of dropping, and the expected loss."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import harness
from support.shedding import positional

import fastcep as fc
from fastcep.shedding import cumulative_utility, utility_threshold
from fastcep.shedding.counts import position_counts
from fastcep.shedding.espice.drop_table import DropTable, parts_of
from fastcep.shedding.espice.fit import fit_espice
from fastcep.shedding.espice.model import ESpiceModel

SCHEMA = fc.Schema({name: {"k": "int64"} for name in "ABCO"}, time="ts", type="type", time_unit="ns")
EIGHT = "WINDOW OPEN ON O o CLOSE AFTER 8 EVENTS"


def table_of(
    events: Any, matched: Any, *, literal: bool = False, pattern: str = "SEQ(A a, B b, C c)", size: float | None = None
) -> DropTable:
    """Return the table for a window of 8 events, given events and matches of A, B and C by position in 10 windows."""
    query = fc.parse(f"PATTERN {pattern} {EIGHT}", SCHEMA, name="q")
    template = position_counts(query, harness.batch(SCHEMA, harness.stream(SCHEMA, "O A B C A B C A")))
    types, positions = np.nonzero(np.array(events))
    rows = pa.table({
        "type": [SCHEMA.type_names[number] for number in types], "position": positions,
        "events": np.array(events)[types, positions], "matched": np.array(matched)[types, positions],
    })  # fmt: skip
    counts = rows.cast(template.schema.remove_metadata()).replace_schema_metadata(template.schema.metadata)
    return DropTable(ESpiceModel(query, 8, 1, 10, counts), size or 8, literal=literal)


EVENTS = [[10] * 8, [5] * 8, [2] * 8]
MATCHED = [[0, 0, 0, 0, 8, 8, 2, 2], [0, 4, 4, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 2]]


def test_partitions_cover_the_window_evenly() -> None:
    assert parts_of(8, 3).tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert parts_of(2, 5).tolist() == [0, 1] and parts_of(3, 1).tolist() == [0, 0, 0]


@pytest.mark.parametrize("partitions", [1, 2, 3, 8, 20])
@pytest.mark.parametrize("demand", [0.1, 0.37, 0.8])
def test_each_partition_drops_the_share(partitions: int, demand: float) -> None:
    table = table_of(EVENTS, MATCHED)
    drops, part = table.probabilities(demand, partitions), parts_of(8, partitions)
    dropped = np.bincount(part, (drops * table.cells.events).sum(axis=0))
    assert dropped == pytest.approx(demand * np.bincount(part, table.cells.events.sum(axis=0)))


CELL = st.tuples(st.integers(0, 6), st.integers(0, 6))


@given(
    st.lists(st.lists(CELL, min_size=8, max_size=8), min_size=3, max_size=3), st.floats(0, 1), st.integers(1, 9),
)  # fmt: skip
def test_no_event_is_dropped_before_one_of_less_use(cells: Any, demand: float, partitions: int) -> None:
    """By the rate of its cell; and cells that are equal have equal probabilities."""
    events = [[number for number, _ in row] for row in cells]
    matched = [[min(number, used) for number, used in row] for row in cells]
    if not np.any(matched):
        return
    table = table_of(events, matched)
    drops, part = table.probabilities(demand, partitions), parts_of(8, partitions)
    assert ((drops >= 0) & (drops <= 1)).all()
    for number in range(int(part[-1]) + 1):
        rate, chance = table.cells.rate[:, part == number].ravel(), drops[:, part == number].ravel()
        better = rate[:, None] > rate[None, :]
        assert not (better & (chance[:, None] > 0) & (chance[None, :] < 1)).any()
        amount = (table.cells.events[:, part == number].ravel() * chance).sum()
        assert amount == pytest.approx(demand * table.cells.events[:, part == number].sum(), abs=1e-9)


def test_ties_go_by_the_contribution_of_the_type() -> None:
    """C takes part in 4 matches altogether, B in 8, A in 20: cells without matches are dropped in this order."""
    table = table_of(EVENTS, MATCHED)
    of_c = 6 * 0.2 / table.cells.events.sum()
    drops = table.probabilities(of_c)
    assert drops[2].tolist() == [0, 1, 1, 1, 1, 1, 1, 0] and not drops[:2].any()
    drops = table.probabilities(2 * of_c)
    assert drops[1, [0, 3, 4, 5, 6, 7]] == pytest.approx(1.2 / 3) and not drops[0].any()


def test_equal_utilities_go_by_the_exact_rate() -> None:
    """0.994 and 1 both have the utility 99 or 100 after rounding; the lower one goes first."""
    table = table_of([[1000] * 8, [1] * 8, [1] * 8], [[999, 1000, *[1000] * 6], [0] * 8, [0] * 8])
    assert table.cells.utility[0, 0] == table.cells.utility[0, 1] == 100
    events = table.cells.events
    drops = table.probabilities(float((events[1:].sum() + 0.5 * events[0, 0]) / events.sum()))
    assert drops[0, 0] == pytest.approx(0.5) and not drops[0, 1:].any()


def test_negated_types_are_dropped_last() -> None:
    table = table_of(EVENTS, MATCHED, pattern="SEQ(A a, NEG B x, C c)")
    others = float(table.cells.events[[0, 2]].sum() / table.cells.events.sum())
    assert not table.probabilities(0.99 * others)[1].any()
    assert table.probabilities(others + 0.1)[1].max() > 0


def test_literal_drops_are_those_of_the_paper() -> None:
    table = table_of(EVENTS, MATCHED, literal=True)
    counts = np.zeros((4, 8))
    counts[:3] = MATCHED
    assert table.cells.utility.tolist() == np.rint(100 * counts / 8).astype(int).tolist()
    for demand in (0.1, 0.5, 0.9):
        amount = demand * table.cells.events.sum()
        threshold = utility_threshold(cumulative_utility(table.cells.utility, table.cells.events), amount)
        assert table.probabilities(demand).tolist() == (table.cells.utility <= threshold).astype(float).tolist()


def test_expected_loss() -> None:
    """Drops for certain count once per type, random drops for each variable."""
    events, matched = [[10] * 8, [0] * 8, [0] * 8], [[2, 2, 2, 2, 4, 4, 4, 4], [0] * 8, [0] * 8]
    table = table_of(events, matched, pattern="SEQ(A a, A b, A c)")
    certain, random = np.zeros((4, 8)), np.zeros((4, 8))
    certain[0, :4], random[0] = 1, 0.25
    assert table.kept(certain) == pytest.approx(16 / 24)
    assert table.kept(random) == pytest.approx(0.75**3)
    assert table.kept(np.maximum(certain, random)) == pytest.approx(16 / 24 * 0.75**3)
    assert table.kept(np.zeros((4, 8))) == 1
    anything = table_of(events, matched, pattern="ANY(2, A a, B b)")
    assert anything.kept(certain) == pytest.approx((16 / 24 + 1) / 2)
    assert anything.kept(random) == pytest.approx(((0.75 + 1) / 2) ** 2)
    repeated = table_of(events, matched, pattern="SEQ(A{2,3} a[], B b)")
    assert repeated.kept(random) == pytest.approx(0.75**2) and repeated.kept(certain) == pytest.approx(16 / 24)


def test_shortfall_is_what_important_events_must_be_dropped() -> None:
    events, matched = [[10] * 8, [0] * 8, [0] * 8], [[10] * 4 + [0] * 4, [0] * 8, [0] * 8]
    table = table_of(events, matched)
    assert table.shortfall(0.5, 1) == pytest.approx(0)
    assert table.shortfall(0.5, 2) == pytest.approx(0.5)  # the first half has no event of low utility
    assert table.shortfall(0.75, 1) == pytest.approx(1 / 3)


def test_it_keeps_the_matches_of_the_history() -> None:
    """Dropping all late events keeps every match."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit_espice(positional.query(), positional.early(300, 1))
    table = DropTable(model, positional.WINDOW)
    late = float(model.events[:, 15:].sum() / model.events.sum())
    drops = table.probabilities(0.95 * late)
    assert table.kept(drops) == 1 and drops[:, 15:].max() > 0.9
    scaled = DropTable(model, 1.5 * positional.WINDOW)
    assert scaled.kept(scaled.probabilities(0.9 * late)) == pytest.approx(1, abs=0.02)
