"""Windows that are dropped with all of their events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from support.shedding import positional
from support.shedding.drop_plans import controlled

import fastcep as fc
from fastcep.errors import ValidationError
from fastcep.overload.protocols import Detector, QueryView
from fastcep.shedding import DropPlan, Shedder
from fastcep.shedding.fixed_plan import Overload


class WholeWindows(Shedder):
    """Drops windows with these probabilities, one decision after the other, and then with the last one."""

    name, in_windows = "whole-windows", True

    def __init__(self, probabilities: Sequence[float], seed: int = 0) -> None:
        self.seed, self._left = seed, list(probabilities)

    def detector(self, of: str) -> Detector:
        return Overload()

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        probability = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        return [DropPlan(whole_windows=probability) for _ in views]

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "seed": self.seed}

    def state(self) -> dict[str, Any]:
        return {"left": self._left}

    def restore(self, state: Any) -> None:
        self._left = list(state["left"])


def engine(shedder: Shedder) -> fc.Engine:
    return fc.Engine(positional.query(), latency_bound="1s", shedder=shedder, detector=Overload(), **positional.OPTIONS)


def by_window(matches: fc.Matches) -> Counter[int]:
    return Counter(matches.to_arrow()["window_id"].to_pylist())


def test_a_window_is_dropped_as_a_whole() -> None:
    truth, _ = positional.truth()
    whole = Counter(match["window_id"] for match in truth)
    live = engine(WholeWindows([0.4]))
    found = by_window(live.process(positional.early(300, 2)))
    later = {window: number for window, number in whole.items() if window > 20 * positional.WINDOW}
    assert {window: found[window] for window in later if window in found} == {
        window: later[window] for window in later if window in found
    }
    shed = live.metrics()["shedding"]
    assert 0.3 * 300 < shed["dropped_windows"] < 0.5 * 300 and shed["dropped_in_windows"] == 0
    assert shed["estimated_recall"] == pytest.approx(sum(found.values()) / len(truth), abs=0.1)
    assert shed["queries"]["q"]["kept"] is None  # not computed, but estimated from the weights of the matches


def test_windows_that_are_open_are_dropped_when_the_probability_rises() -> None:
    """At some decisions all open windows end, and with the lower probability afterwards they stay closed."""
    live = engine(WholeWindows([0.0] * 9 + [1.0] * 10 + [0.0]))
    found, truth = by_window(live.process(positional.early(300, 2))), positional.truth()[0]
    whole = Counter(match["window_id"] for match in truth)
    dropped = live.metrics()["shedding"]["dropped_windows"]
    assert dropped >= 1 and sum(whole.values()) > sum(found.values())
    assert all(found[window] == number for window, number in whole.items() if window > 200 * positional.WINDOW)


def test_a_snapshot_has_the_probability_and_the_counter() -> None:
    events = positional.early(300, 2)
    live = engine(WholeWindows([0.4]))
    first = live.process(events.slice(0, 20_050))
    rest = by_window(live.process(events.slice(20_050)))
    half = engine(WholeWindows([0.4]))
    assert by_window(half.process(events.slice(0, 20_050))) == by_window(first)
    again = fc.Engine.restore(half.snapshot(), shedder=WholeWindows([0.4]), detector=Overload())
    assert controlled(again).drop_plan.whole_windows == 0.4
    assert by_window(again.process(events.slice(20_050))) == rest
    ends = [one.metrics()["shedding"]["dropped_windows"] for one in (live, again)]
    assert ends[0] == ends[1] > half.metrics()["shedding"]["dropped_windows"] > 0


@pytest.mark.parametrize("wrong", [-0.1, 1.1, None, True, "all"])
def test_a_wrong_probability_is_rejected(wrong: Any) -> None:
    with pytest.raises(ValidationError, match="whole_windows"):
        engine(WholeWindows([wrong])).process(positional.early(300, 2))


def test_without_isolated_windows_it_is_rejected() -> None:
    shedder = WholeWindows([0.4])
    shedder.in_windows = False  # type: ignore[misc]
    with pytest.raises(ValidationError, match=r"whole_windows.*no window is isolated: set in_windows"):
        engine(shedder).process(positional.early(300, 2))
