"""Events dropped from single windows: the decision for each event and window, compared with a reference."""

from __future__ import annotations

import numpy as np
import pytest
from support.shedding.drop_plans import SCHEMA, WORD, Quiet, controlled, made, mixed, stream

import fastcep as fc
from fastcep.shedding import DropPlan

TYPES = list("ABCD")
SIZE, EVERY = 40, 6
EVENTS, BATCH = 900, 150


class InWindows(Quiet):
    drops_matches, in_windows = False, True


def query() -> fc.Query:
    window = f"OPEN EVERY {EVERY} EVENTS CLOSE AFTER {SIZE} EVENTS"
    return fc.parse(f"PATTERN SEQ(A a, B b) WINDOW {window}", SCHEMA, name="q")


def drop_plan(rng: np.random.Generator) -> DropPlan:
    """Return random probabilities; those of a type are 0, the same in all bins, certain, or all different."""
    bins = int(rng.integers(1, 9))
    rows = {
        "never": np.zeros(bins), "same": np.full(bins, rng.random()), "certain": (rng.random(bins) < 0.5) * 1.0,
        "by bin": rng.random(bins) * (rng.random(bins) < 0.7),
    }  # fmt: skip
    kinds = rng.choice(list(rows), len(TYPES))
    return DropPlan(windows=np.array([rows[kind] for kind in kinds]), bin=int(rng.integers(1, 9)))


def is_dropped(plan: DropPlan, seed: int, kind: str, event: int, opened: int) -> bool:
    """Return whether the event at a position is dropped from the window that opened at a position."""
    if plan.windows is None:
        return False
    cell = min((event - opened) // plan.bin, plan.windows.shape[1] - 1)
    start = mixed(seed + 0x9E3779B97F4A7C15 & WORD) ^ mixed(opened)
    drawn = mixed(start + event * 0x9E3779B97F4A7C15 & WORD) >> 32
    return drawn < round(plan.windows[TYPES.index(kind), cell] * 2**32)


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(12))
def test_each_event_is_looked_up_in_each_of_its_windows(seed: int) -> None:
    rng, events = np.random.default_rng(seed), stream(EVENTS, seed)
    engine = made(query(), InWindows(seed=seed))
    kinds, plans, matches = events["type"].to_pylist(), [], []
    for number, first in enumerate(range(0, EVENTS, BATCH)):
        plans.append(DropPlan() if rng.random() < 0.2 else drop_plan(rng))
        controlled(engine).apply(plans[-1], number + 1)
        matches += engine.process(events.slice(first, BATCH)).to_arrow().to_pylist()
        if number == seed % (EVENTS // BATCH):
            engine = fc.Engine.restore(engine.snapshot(), shedder=InWindows(seed=seed))
    expected, dropped = set(), 0
    for opened in range(0, EVENTS, EVERY):
        kept = []
        for event in range(opened, min(opened + SIZE, EVENTS)):
            if not is_dropped(plans[event // BATCH], seed, kinds[event], event, opened):
                kept.append(event)
            elif kinds[event] == "A" or (kinds[event] == "B" and any(kinds[at] == "A" for at in kept)):
                dropped += 1
        expected |= {(opened, a, b) for a in kept for b in kept if a < b and kinds[a] == "A" and kinds[b] == "B"}
    assert {(match["window_id"], match["a"], match["b"]) for match in matches} == expected
    assert len(matches) == len(expected)
    assert controlled(engine).shedding.totals[1] == dropped
