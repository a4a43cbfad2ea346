"""Choice between a work limit and dropping classes alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastcep as fc
from fastcep._core.matcher.interrupt import set_pause
from fastcep.overload import work_limit
from fastcep.overload.drop_plan import drops_anything
from fastcep.shedding import Auto, Detector, DetectorReading, Hybrid, Load, SmoothedLatency
from fastcep.shedding.hybrid import limit_choice
from fastcep.shedding.hybrid.limit_choice import LimitChoice, Mode
from fastcep.stored import Misfit

Kept = Callable[[float], float]


class Stream:
    """Decisions about a stream.

    Parameters
    ----------
    found
        Share of the matches found beside the limit.
    needed
        Demand that suffices without a limit.
    kept
        Share of the matches that is kept for a demand.
    predicted
        Demand that the work for events lets one expect, before it is tried.
    """

    def __init__(self, found: float, needed: float, kept: Kept, predicted: float | None = None) -> None:
        self.choice, self.found, self.needed, self.kept = LimitChoice(), found, needed, kept
        self.predicted = needed if predicted is None else predicted

    def run(self, decisions: int, events: float = 10_000.0) -> list[str]:
        """Decide; return the letters of what is in force after each decision: limit, trial or alone."""
        letters, choice = [], self.choice
        for _ in range(decisions):
            needed = self.needed if choice.demand > 0 else self.predicted
            unlimited = 0.0 if choice.mode is Mode.ALONE else max(1.0, (1 - choice.demand) / (1 - needed))
            demand = self.needed if choice.mode is Mode.ALONE else choice.demand
            choice.update(events, 100.0, self.found, unlimited, demand, self.kept)
            letters.append(choice.mode[0])
        return letters


def straight(demand: float) -> float:
    return 1 - demand / 2


def test_more_is_kept_without_a_limit() -> None:
    """A trial begins once the limit has settled, and ends when events do not reach the limit any more."""
    stream = Stream(0.6, 0.5, straight)
    assert "".join(stream.run(12)) == "lllta" + 7 * "a"
    assert stream.choice.demand == 0.5


@pytest.mark.parametrize("found", [0.72, 0.8])
def test_as_much_is_found_beside_the_limit(found: float) -> None:
    assert set(Stream(found, 0.5, straight).run(50)) == {"l"}


def test_unknown_numbers() -> None:
    """Nothing is known of the work without a limit, or of the matches found; or no drops save enough."""
    stream = Stream(0.6, 0.5, straight)
    for found, unlimited, kept in ((0.6, 0.0, straight), (0.0, 2.0, straight), (0.6, 2.0, lambda _: 0.0)):
        for _ in range(20):
            stream.choice.update(10_000.0, 100.0, found, unlimited, 0.0, kept)  # type: ignore[arg-type]
        assert stream.choice.demand == 0


def test_a_prediction_that_is_too_low_is_corrected() -> None:
    letters = "".join(Stream(0.6, 0.6, straight, predicted=0.4).run(8))
    assert letters == "lllttaaa"


def test_trials_in_vain_become_rare() -> None:
    stream = Stream(0.6, 0.95, straight, predicted=0.5)
    letters = "".join(stream.run(1_000))
    assert "a" not in letters and 3 <= letters.count("lt") <= 8
    pauses = [len(pause) for pause in letters.split("t") if pause][1:-1]
    assert all(later >= 2 * earlier - 2 for earlier, later in pairwise(pauses))


def test_it_returns_to_the_limit() -> None:
    """The drops keep less than was found beside the limit: at once if far less, whatever the size of a window."""
    for events, most in ((10_000.0, 1), (1_000.0, 7)):
        stream = Stream(0.6, 0.5, straight)
        assert stream.run(80, events)[-1] == "a"
        stream.needed = 0.999
        letters = "".join(stream.run(8, events))
        assert letters.rstrip("l") in {"a" * number for number in range(most + 1)}


def test_only_trials_in_vain_make_pauses_longer() -> None:
    """After a time without a limit that ends as planned, the next trial in vain has the first pause again."""
    stream = Stream(0.6, 0.95, straight, predicted=0.5)
    stream.run(100)
    stream.needed = 0.5
    stream.run(100)
    assert stream.choice.state()["pause"] == 8
    stream.needed = 0.999
    assert stream.run(9) == list("llllllll" + "t")


def test_a_trial_waits_for_unknown_work() -> None:
    """It neither suspends the limit without knowing that no event reaches it, nor waits for ever."""
    stream = Stream(0.6, 0.5, straight)
    assert stream.run(4)[-1] == "t"
    modes = []
    for _ in range(6):
        stream.choice.update(10_000.0, 100.0, 0.6, 0.0, 0.5, straight)
        modes.append(stream.choice.mode)
    assert modes == [Mode.TRIAL] * 4 + [Mode.LIMIT] * 2


def test_the_limit_is_measured_again() -> None:
    """More and more seldom, as it may find more than before."""
    stream = Stream(0.6, 0.5, straight)
    letters = "".join(stream.run(400))
    assert letters.count("alllta") >= 2 and letters.count("l") < 20
    stream.found = 0.8
    assert set(stream.run(1_000)[-200:]) == {"l"}


def test_short_intervals_count_together() -> None:
    """An interval is two windows and 4,000 events at least."""
    stream = Stream(0.6, 0.5, straight)
    assert stream.run(44, events=1_000.0).index("t") == 39
    stream = Stream(0.6, 0.5, straight)
    for _ in range(44):
        stream.choice.update(1_000.0, 30_000.0, 0.6, 2.0, 0.0, straight)
    assert stream.choice.demand == 0


def test_a_trial_goes_on_from_the_demand_in_force() -> None:
    """Another detector demands more than the trial does, and it is this demand that suffices or not."""
    for unlimited, expected in ((1.2, 1 - 0.1 / 1.2 / 1.03), (1.0, 0.9)):
        stream = Stream(0.1, 0.5, straight)
        assert stream.run(4)[-1] == "t"
        stream.choice.update(10_000.0, 100.0, 0.1, unlimited, 0.9, straight)
        assert stream.choice.demand == pytest.approx(expected)


def test_a_snapshot() -> None:
    one, again = Stream(0.6, 0.6, straight, 0.4), Stream(0.6, 0.6, straight, 0.4)
    one.run(5)
    again.choice.restore(json.loads(json.dumps(one.choice.state())))
    assert again.run(100) == one.run(100) and again.choice.state() == one.choice.state()
    for wrong in (5, None, "limit", {**one.choice.state(), "wait": -1}, {**one.choice.state(), "mode": "l"}):
        with pytest.raises(Misfit):
            again.choice.restore(wrong)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------- in an engine

QUERY = """
STREAM TIME 'ts' UNIT us TYPE 'type'
EVENT A (u int64)
EVENT B (u int64)
QUERY q PATTERN SEQ(B{1,3} a[], B b, A c)
WHERE ABS(b.u - c.u) < 24 AND c.u > 20 AND ABS(a[i].u - b.u) < 12 WITHIN 22ms
"""


def events(number: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    kinds = pa.array(random.choice(["A", "B"], number).astype(object), pa.string())
    gaps = random.integers(1, 2_000, number)
    return pa.table({"type": kinds, "u": random.integers(0, 100, number), "ts": np.cumsum(gaps)})


STREAM = events(20_000, 2)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose after few events."""
    monkeypatch.setattr(limit_choice, "_FIRST", 2_000.0)
    monkeypatch.setattr(limit_choice, "_EVENTS", 500.0)


@cache
def model() -> tuple[fc.Query, fc.Model]:
    query = fc.parse_document(QUERY).queries[0]
    return query, fc.fit(query, events(6_000, 1), validate=False)


@cache
def other() -> tuple[fc.Query, fc.Model]:
    text = QUERY.replace("QUERY q PATTERN SEQ(B{1,3} a[], B b, A c)", "QUERY other PATTERN SEQ(A a, B b, A c)")
    query = fc.parse_document(text.replace("a[i].u", "a.u")).queries[0]
    return query, fc.fit(query, events(6_000, 1), validate=False)


def engine(bound: float, shedder: Any = None, detectors: Sequence[Detector] = (), **options: Any) -> fc.Engine:
    query, fitted = model()
    return fc.Engine(
        options.pop("queries", query), clock="virtual", store="rows", latency_bound=bound,
        shedder=shedder or Hybrid(fitted, **options), detector=[SmoothedLatency("p95"), *detectors],
        cost_table="measured",
    )  # fmt: skip


@cache
def without() -> tuple[int, float]:
    """Return the number of matches, and a quarter of the 95th percentile of the latency, without a bound."""
    live = fc.Engine(model()[0], clock="virtual", store="rows", latency_bound="1h")
    matches = len(live.process(STREAM))
    return matches, live.metrics()["shedding"]["processing_latency"]["p95"] / 4


@pytest.mark.usefixtures("soon")
def test_more_is_found_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work limit loses most matches, and the drops that suffice without it lose fewer."""
    truth, bound = without()
    live = engine(bound)
    recall = len(live.process(STREAM)) / truth
    shed = live.metrics()["shedding"]
    assert shed["processing_latency"]["p95"] <= bound and abs(shed["estimated_recall"] - recall) < 0.06
    assert shed["model"]["queries"]["q"]["work_limit_suspended"] and shed["demand"] > 0
    monkeypatch.setattr(LimitChoice, "update", lambda *_: None)
    limited = engine(bound)
    assert recall > 1.5 * len(limited.process(STREAM)) / truth
    assert not limited.metrics()["shedding"]["model"]["queries"]["q"]["work_limit_suspended"]


@pytest.mark.usefixtures("soon")
def test_snapshots_continue_exactly() -> None:
    """Also if the engine checks for signals after every event, as it may after any on a busy machine."""
    whole, parts = (engine(without()[1]) for _ in range(2))
    for number, batch in enumerate(STREAM.to_batches(max_chunksize=1_701)):
        if number % 2:
            parts = fc.Engine.restore(parts.snapshot(), shedder=Hybrid(model()[1]), detector=SmoothedLatency("p95"))
        found = len(whole.process(batch))
        if number % 8 < 2:
            set_pause(0)
        assert len(parts.process(batch)) == found
        set_pause()
    one, other = (live._stream.queries.control.state() for live in (whole, parts))
    assert one == other and one["cut"]["suspended"]


@pytest.mark.usefixtures("soon")
def test_the_limit_is_imposed_again_without_a_load() -> None:
    """When nothing is dropped any more, single events are limited again."""
    live = engine(without()[1])
    live.process(STREAM)
    control: Any = live._stream.queries.control
    assert control._work_limit.suspended
    start, many = STREAM["ts"][-1].as_py(), 300_000
    live.process({"type": ["A"] * many, "u": [0] * many, "ts": start + 100_000 * np.arange(1, many + 1)})
    assert control._work_limit.in_force
    assert not live.metrics()["shedding"]["model"]["queries"]["q"]["work_limit_suspended"]


@pytest.mark.usefixtures("soon")
def test_a_snapshot_of_an_older_version() -> None:
    """It has no choice: there is a limit."""
    shedder = Hybrid(model()[1])
    live = engine(without()[1])
    live.process(STREAM)
    state: dict[str, Any] = live._stream.queries.control.state()["shedder"]
    assert state.pop("choice")["mode"] == "alone"
    for course in state["courses"].values():
        del course["optimal"]
    shedder.restore(state)
    assert not shedder.metrics()["queries"]["q"]["work_limit_suspended"]


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("options", [{}, {"adapt": False}, {"explore": 0.0}, {"adapt": False, "cut": False}])
def test_the_estimate_includes_certain_drops(options: dict[str, Any]) -> None:
    """There are many windows between two decisions, and what is dropped for certain shows in no weight."""
    truth, bound = without()
    live = engine(bound, **options)
    recall = len(live.process(STREAM)) / truth
    assert live.metrics()["shedding"]["estimated_recall"] == pytest.approx(recall, abs=0.1)


class Constant(Detector):
    """Demands always the same."""

    name, statistic, allowed, amount = "constant", "mean", 0.0, 0.0

    def read(self, load: Load) -> DetectorReading:
        return DetectorReading(0.0, amount=self.amount, of_present=False, why="test")

    def spec(self) -> dict[str, Any]:
        return {"name": self.name}


@pytest.mark.usefixtures("soon")
def test_a_larger_demand_of_another_detector_holds_in_a_trial() -> None:
    detector = Constant()
    live = engine(without()[1], detectors=[detector])
    control: Any = live._stream.queries.control
    for batch in STREAM.to_batches(max_chunksize=500):
        live.process(batch)
        if control.shedder._choice.mode is Mode.TRIAL and control.demand > 0.9:
            break
        detector.amount = 0.95 * (control.shedder._choice.mode is Mode.TRIAL)
    assert control.shedder._choice.demand < 0.9 < control.shedder._states["q"].demand


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("quiet", [1, 1_000])
def test_a_query_is_added_while_the_limit_is_suspended(quiet: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are limited from then on, and nothing is dropped as if there were no limit."""
    monkeypatch.setattr(work_limit, "_QUIET", quiet)
    query, fitted = other()
    live = engine(without()[1], Hybrid([model()[1], fitted]))
    live.process(STREAM)
    control: Any = live._stream.queries.control
    assert control._work_limit.suspended and control.demand > 0.3
    live.add(query)
    assert control._work_limit.in_force and control.demand == 0
    assert not any(drops_anything(item.drop_plan) for item in control.queries)
    assert not live.metrics()["shedding"]["model"]["queries"]["q"]["work_limit_suspended"]
    start = STREAM["ts"][-1].as_py()
    more = events(4_000, 3)
    live.process(more.set_column(2, "ts", pa.array(more["ts"].to_numpy() + start)))
    assert control.shedder._choice.mode is not Mode.ALONE and control.demand < 0.3


@pytest.mark.usefixtures("soon")
def test_another_shedder_while_the_limit_is_suspended() -> None:
    live = engine(without()[1])
    live.process(STREAM)
    control: Any = live._stream.queries.control
    assert control._work_limit.suspended
    live.set_shedder(Hybrid(model()[1]))
    assert control._work_limit.in_force and control.demand == 0


@pytest.mark.usefixtures("soon")
def test_several_shedders_keep_the_limit() -> None:
    """`auto` has one for each query; they could not agree."""
    shedder = Auto(model=[model()[1], other()[1]])
    live = engine(without()[1], shedder, queries=[model()[0], other()[0]])
    control: Any = live._stream.queries.control
    for batch in STREAM.to_batches(max_chunksize=2_000):
        live.process(batch)
        assert control._work_limit.in_force
        assert all(item._choice.mode is Mode.LIMIT for item in shedder._by_model._alone.values())  # type: ignore[union-attr]


@pytest.mark.usefixtures("soon")
def test_counts_that_the_matcher_does_not_have() -> None:
    live = engine(without()[1])
    live.process(STREAM.slice(0, 8_000))
    state: dict[str, Any] = live._stream.queries.control.state()
    for place, wrong in ((0, 1 << 40), (1, 1 << 40), (2, [1e12] * 33)):
        forged = json.loads(json.dumps(state["cut"]))
        forged["reaching"][0][place] = wrong
        with pytest.raises(Misfit, match="at most those of the matcher"):
            live._stream.queries.control._work_limit.restore(forged, live._stream.queries.control.queries)


@pytest.mark.usefixtures("soon")
def test_events_without_a_limit_leave_no_credit() -> None:
    """When the limit returns, no more events may run on than if those before had used what is allowed."""
    live = engine(without()[1])
    live.process(STREAM)
    control: Any = live._stream.queries.control
    (query,) = control.queries
    assert control._work_limit.suspended
    control._work_limit.suspend(control.queries, 0.0, False)
    few = events(100, 3)
    live.process(few.set_column(2, "ts", pa.array(few["ts"].to_numpy() + STREAM["ts"][-1].as_py())))
    assert query.shedding.cut_state()[0] <= 100 * 0.05 * 2**32
