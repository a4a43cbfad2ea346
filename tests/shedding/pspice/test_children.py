"""Children of partial matches by age, counted on history."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from support.shedding.markov_models import ABC, EVENTS, fitted, letters
from support.shedding.shed_runs import query

from fastcep.shedding.lineage import observe
from fastcep.shedding.pspice.children import Children, count_children, events_to_count

TEXTS = [ABC, f"{ABC} STRATEGY skip_till_next", "PATTERN SEQ(A a, B{2,3} b[], C c) WITHIN 20 EVENTS",
         "PATTERN SEQ(A a, B b, C c) WINDOW OPEN EVERY 50 EVENTS CLOSE AFTER 50 EVENTS"]  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("text", TEXTS)
def test_their_number_is_that_of_the_transitions(text: str) -> None:
    """They are counted on all windows but the first one."""
    model = fitted(text)
    assert model.children is not None
    chain, total = model.chain(), model.children.per_event.sum(axis=2)
    each = chain.met if "WINDOW" in text else chain.events
    assert total[0] == pytest.approx(chain.births / each, rel=0.05, abs=1e-3)
    names, counts, compared = model.states, model.counts, 0.0
    for parent, name in enumerate(names):
        for child in range(len(names)):
            if parent != child and names[child] != "c":
                of_pair = (counts["source"].to_numpy() == parent) & (counts["target"].to_numpy() == child)
                expected = counts["observations"].to_numpy()[of_pair].sum() / chain.events
                compared += expected
                assert total[parent + 1, child] == pytest.approx(expected, rel=0.1, abs=2e-3), (name, names[child])
    assert compared > 0 and model.children.window == pytest.approx(model.window, rel=0.01)


def test_their_age_is_that_of_their_parents() -> None:
    """Brute force: the age is the number of events since the first one of the partial match."""
    counted = count_children(query(ABC), letters())
    (record,) = observe(query(ABC), letters()).records
    extended = np.flatnonzero(record.parents >= 0)
    first = record.events.copy()
    for number in extended.tolist():  # parents come before their children
        first[number] = first[record.parents[number]]
    ages = record.events[extended] - first[extended]
    born = np.bincount(np.minimum(ages * 64 // 40, 63), minlength=64) / EVENTS
    assert counted is not None and ages.max() < 40
    assert counted.per_event[1:].sum(axis=(0, 1)) == pytest.approx(born, rel=0.15, abs=0.01)


@pytest.mark.parametrize("slices", [1, 3, 8, 32, 63, 64])
def test_other_numbers_of_slices(slices: int) -> None:
    random = np.random.default_rng(slices)
    children = Children(random.random((3, 2, 64)), np.zeros((3, 2)), 20.0)
    fewer = children.by_slice(slices)
    assert fewer.shape == (3, 2, slices)
    assert fewer.sum(axis=2) == pytest.approx(children.per_event.sum(axis=2))
    if 64 % slices == 0:
        assert fewer == pytest.approx(children.per_event.reshape(3, 2, slices, -1).sum(axis=3))


@pytest.mark.parametrize(
    ("window", "events"), [(1.0, 50_000), (2_499.5, 52_500), (1e5, 200_000), (9e18, 200_000)]
)
def test_the_number_of_events(window: float, events: int) -> None:
    assert events_to_count(window) == events


@pytest.mark.parametrize("events", [0, 30, 100])
def test_a_history_of_few_windows_says_nothing(events: int) -> None:
    assert count_children(query(ABC), letters().slice(0, events)) is None


def test_the_first_window_does_not_count() -> None:
    """Partial matches are missing in it. Before the second decision even the size of the windows is unknown."""
    random, events, window = np.random.default_rng(3), 70_000, 10_000
    types = random.choice(list("ABCD"), events, p=[1 / 32, 1 / 32, 1 / 16, 7 / 8])
    ones = np.ones(events, np.int64)
    table = pa.table({"type": types, "ID": ones, "V": ones, "ts": 10 * np.arange(events)})
    counted = count_children(query("PATTERN SEQ(A a, B b) WITHIN 100ms"), table)
    first, second = np.flatnonzero(types == "A"), np.flatnonzero(types == "B")
    second = second[second >= 1.2 * window]
    pairs = np.searchsorted(first, second) - np.searchsorted(first, second - window)
    assert counted is not None and counted.window == pytest.approx(window, rel=0.02)
    assert counted.per_event[1:].sum() == pytest.approx(pairs.sum() / (events - 1.2 * window), rel=0.02)


@pytest.mark.thorough
def test_the_error_is_that_of_the_mean_over_windows() -> None:
    """It is about the standard deviation of what is counted on several streams."""
    counted = [fitted(ABC, seed=seed).children for seed in range(100, 112)]
    rates = np.array([item.per_event[0].sum() for item in counted if item is not None])
    errors = np.array([item.error[0].sum() for item in counted if item is not None])
    assert len(rates) == 12 and errors.mean() == pytest.approx(rates.std(), rel=0.6)
