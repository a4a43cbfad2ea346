"""Shedding by eSPICE: it keeps the contract, and finds more than shedders that ignore positions."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, cast

import numpy as np
import pytest
from support.shedding import positional
from support.shedding.contract import SCHEMA as CONTRACT_SCHEMA
from support.shedding.contract import Contract, Make
from support.shedding.contract import stream as stream_
from support.shedding.shed_views import Counters

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.errors import ModelError, ValidationError
from fastcep.overload.load import DetectorReading, Load
from fastcep.overload.protocols import QueryView
from fastcep.plan import make_plan
from fastcep.shedding import ESpice, Model, QueueLength, Shedder
from fastcep.shedding.espice.drop_table import DropTable
from fastcep.shedding.espice.model import ESpiceModel

stream_of_contract = pytest.fixture(scope="module", name="stream")(stream_.__wrapped__)  # type: ignore[attr-defined]

CONTRACT = fc.parse(
    "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V "
    "WINDOW OPEN EVERY 500us CLOSE AFTER 2ms", CONTRACT_SCHEMA, name="q1",
)  # fmt: skip


@cache
def contract_model() -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return fc.fit(CONTRACT, ds1(events=40_000, seed=21), kind="espice")


class TestESpice(Contract):
    make: Make = staticmethod(lambda: ESpice(contract_model()))
    query = CONTRACT


@pytest.mark.thorough
class TestLiteral(Contract):
    make: Make = staticmethod(lambda: ESpice(contract_model(), literal=True))
    query = CONTRACT


# -------------------------------------------------------------------- quality


def queue_run(shedder: Shedder, rate: float = 2.0) -> tuple[list[Any], dict[str, Any], float]:
    """Return the matches, the metrics and the longest latency by the bound, with events that arrive too fast."""
    _, mean = positional.truth()
    events, bound = positional.early(300, 2), 2000 * mean
    detector = shedder.detector("queue")
    engine = fc.Engine(
        positional.query(), latency_bound=bound, shedder=shedder, detector=detector, **positional.OPTIONS
    )
    longest = []
    engine.listen(lambda processing, latency: longest.append(float(latency.max())))
    matches = engine.process(events, arrivals=(np.arange(len(events)) * mean / rate).astype(np.int64))
    return matches.to_arrow().to_pylist(), engine.metrics()["shedding"], max(longest) / bound


@pytest.mark.sample(1)
@pytest.mark.parametrize("options", [{}, {"literal": True}, {"f": "auto"}, {"f": 0.5}])
def test_it_drops_events_of_no_use(options: dict[str, Any]) -> None:
    """The work of the late events is saved, and nearly all matches are found."""
    truth, _ = positional.truth()
    matches, metrics, longest = queue_run(ESpice(positional.model(), **options))
    assert len(matches) >= 0.95 * len(truth) and all(match in truth for match in matches)
    assert metrics["dropped_in_windows"] > 1000 and metrics["episodes"] >= 1
    assert metrics["estimated_recall"] == pytest.approx(len(matches) / len(truth), abs=0.08)
    assert longest <= 1.25


@pytest.mark.parametrize("rate", [1.2, 1.4, 2.0])
def test_events_wait_for_about_f_of_the_bound(rate: float) -> None:
    """Since what is dropped takes no time, more than ``f * q_max`` events wait."""
    _, metrics, longest = queue_run(ESpice(positional.model()), rate)
    _, mean = positional.truth()
    assert 0.62 < metrics["event_latency"]["p50"] / (2000 * mean) < 0.9 and longest < 1


@pytest.mark.thorough
def test_others_lose_most_matches() -> None:
    truth, _ = positional.truth()
    for name in ("bl", "rs"):
        matches, _, _ = queue_run(fc.shedding.by_name(name))
        assert len(matches) < 0.6 * len(truth), name


# ------------------------------------------------------------------- decisions


def view(text: str = "", **load: float) -> QueryView:
    query = positional.query(*([text] if text else []))
    plan = make_plan(query, store="rows", isolated=True)
    measured = Load(load.pop("bound", 0.0), service=load.get("service", 0.0), events=int(load.get("events", 0)))
    reading = [DetectorReading(0.5, utilisation=2.0)] if measured.bound else []
    counters = cast(Any, Counters(plan, {}, 1))
    return QueryView(plan, counters, 1, window_size=load.get("size", 0.0), received=int(load.get("received", 0)),
                     load=measured, readings=reading)  # fmt: skip


def test_a_decision_has_an_amount_for_each_partition() -> None:
    """q_max = 100 and f = 0.8 leave room for 20 events: 10 partitions of 20 events each (section 3.4)."""
    shedder = ESpice(positional.model(equal_costs=True))
    [plan] = shedder.decide(0.4, 0.0, [view(bound=100.0, service=1.0)])
    cells = ESpiceModel.of(positional.model())
    assert plan.windows is not None and plan.bin == 4 and plan.windows.shape == (5, 50)
    dropped = (plan.windows * cells.events).sum(axis=0).reshape(10, 5).sum(axis=1)
    assert dropped == pytest.approx(0.4 * cells.events.sum(axis=0).reshape(10, 5).sum(axis=1))
    queue = QueueLength(0.8, q_max=100)
    share = 0.4 * 20  # x = (R - th) * p_size / R, of all events
    assert queue.partitions(200) == 10 and queue.amount(200, 1 / 0.6) == pytest.approx(share)
    [whole] = shedder.decide(0.4, 0.0, [view()])  # without a queue
    assert whole.windows is not None and whole.windows[:, 20:].sum() > plan.windows[:, 20:].sum()
    assert shedder.decide(0.0, 0.0, [view()]) == [fc.shedding.DropPlan()]


def test_f_is_the_largest_that_leaves_events_of_low_utility() -> None:
    """The first of several partitions has not enough events of low utility for a large demand."""
    shedder = ESpice(positional.model(), f="auto")
    detector = shedder.detector("queue")
    assert isinstance(detector, QueueLength) and detector.f == 0.8
    detector.read(Load(300.0, service=1.0, queue=10))  # q_max = 300
    shedder.decide(0.75, 0.0, [view(bound=300.0, service=1.0)])
    chosen = detector.f
    table = DropTable(ESpiceModel.of(positional.model()), 200)
    missing = {f: table.shortfall(0.75, detector_partitions(f)) for f in (chosen, chosen + 0.05, 0.8)}
    assert chosen < 0.8 and missing[chosen] < missing[chosen + 0.05] <= missing[0.8]
    assert detector.spec()["f"] == "auto" and detector.state()["f"] == chosen
    again = ESpice(positional.model(), f="auto").detector("queue")
    again.restore(detector.state())
    assert cast(QueueLength, again).f == chosen
    detector.read(Load(10_000.0, service=1.0))  # room for all windows
    shedder.decide(0.3, 0.0, [view(bound=10_000.0, service=1.0)])
    assert detector.f == 0.8


def detector_partitions(f: float) -> int:
    return QueueLength(f, q_max=300).partitions(200)


def test_sizes_of_time_windows_follow_the_stream() -> None:
    text = "WINDOW OPEN ON O o CLOSE AFTER 200us"
    model = fc.fit(positional.query(text), positional.early(300, 1), kind="espice")
    shedder = ESpice(model)
    positions = model.numbers["positions"]
    assert positions in (200, 201)
    shedder.decide(0.3, 0.0, [view(text)])
    assert shedder.metrics()["queries"]["q"]["window"] == positions
    shedder.decide(0.3, 0.0, [view(text, size=1024.0, received=50, events=50)])  # nothing has been measured
    assert shedder.metrics()["queries"]["q"]["window"] == positions
    for received in range(100, 2000, 100):
        shedder.decide(0.3, 0.0, [view(text, size=100.0, received=received)])
    size = shedder.metrics()["queries"]["q"]["window"]
    assert size == pytest.approx(100, abs=5)
    [plan] = shedder.decide(0.3, 0.0, [view(text, size=100.0, received=2000)])
    assert plan.windows is not None and plan.bin * plan.windows.shape[1] == pytest.approx(100, abs=8)
    other = ESpice(model)
    other.restore(shedder.state())
    assert other.state() == shedder.state()


# ---------------------------------------------------------------------- errors


def test_refused_queries() -> None:
    within = positional.query("WITHIN 100 EVENTS")
    error = r"shedder 'espice' drops events by their position .* query 'q' has WITHIN 100 EVENTS, .* give explicit"
    with pytest.raises(ModelError, match=error):
        fc.Engine(within, latency_bound="1ms", shedder=ESpice(positional.model()))
    with pytest.raises(ModelError, match="is for query"):
        fc.Engine(positional.query("WINDOW OPEN ON O o CLOSE AFTER 9 EVENTS"), latency_bound="1ms",
                  shedder=ESpice(positional.model()))  # fmt: skip
    with pytest.raises(ValidationError, match=r"f='auto' requires the queue detector .* detector=shedder.detector"):
        fc.Engine(positional.query(), latency_bound="1ms", shedder=ESpice(positional.model(), f="auto"),
                  detector=QueueLength())  # fmt: skip
    fc.Engine(positional.query(), latency_bound="1ms", shedder=ESpice(positional.model(), f="auto"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"f": 1}, "f=1; expected a number above 0 and below 1, such as 0.8, or 'auto'"),
        ({"f": 0}, "f=0"),
        ({"f": "best"}, "f='best'"),
        ({"f": True}, "f=True"),
        ({"f": float("nan")}, "f=nan"),
        ({"literal": 1}, "literal=1; expected True or False"),
        ({"history": 10}, "history=10; expected a whole number, at least 1,000"),
    ],
)
def test_wrong_options(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ValidationError, match=f"shedder 'espice': {error}"):
        ESpice(positional.model(), **options)


# ------------------------------------------------------------------ evaluation


@pytest.mark.thorough
def test_it_is_evaluated_by_name_with_a_model_of_the_history() -> None:
    report = fc.evaluate(
        positional.query(), positional.early(900, 2), history=positional.early(300, 1), shedders=["espice", "bl"],
        demands=["40%"], cost_table="paper",
    )  # fmt: skip
    recall = {row["shedder"]: row["recall"] for row in report.rows}
    assert recall["espice"] > 0.95 and recall["bl"] < 0.6
    assert report.rows[0]["estimated_recall"] == pytest.approx(recall["espice"], abs=0.08)


def test_it_takes_over_from_another_shedder_in_windows() -> None:
    """And goes on after a restore. The queue detector of the engine stays, so it cannot choose f itself."""
    events, (truth, mean) = positional.early(300, 2), positional.truth()
    engine = fc.Engine(positional.query(), latency_bound=0.5 * mean, shedder="bl", **positional.OPTIONS)
    engine.process(events.slice(0, 20_000))
    with pytest.raises(ValidationError, match="f='auto' requires the queue detector of this shedder"):
        engine.set_shedder(ESpice(positional.model(), f="auto"))
    engine.set_shedder(ESpice(positional.model()))
    assert engine.metrics()["shedding"]["shedder"] == "espice"
    engine.process(events.slice(20_000, 20_000))
    again = fc.Engine.restore(engine.snapshot(), shedder=ESpice(positional.model()))
    found = [live.process(events.slice(40_000)).to_arrow() for live in (engine, again)]
    assert found[0].equals(found[1])
    late = [match for match in truth if match["window_id"] >= 40_000]
    assert len(found[0]) > 0.9 * len(late)


# ------------------------------------------------------------------------ queue


class Recorder(QueueLength):
    """Records whether demands take effect at once, and whether times are those of the wall clock."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once, self.on_wall_clock = set[bool](), set[bool]()

    def read(self, load: Load) -> DetectorReading:
        self.at_once.add(load.at_once)
        self.on_wall_clock.add(load.on_wall_clock)
        return super().read(load)


@pytest.mark.parametrize(
    ("shedder", "clauses", "at_once"),
    [
        ("bl", f"WINDOW OPEN ON O o CLOSE AFTER {positional.WINDOW} EVENTS", True),
        ("bl", f"WITHIN {positional.WINDOW} EVENTS", False),
        ("ri", f"WINDOW OPEN ON O o CLOSE AFTER {positional.WINDOW} EVENTS", False),
        ("rs", f"WINDOW OPEN ON O o CLOSE AFTER {positional.WINDOW} EVENTS SELECT first", False),
    ],
)
def test_only_drops_from_windows_take_effect_at_once(shedder: str, clauses: str, at_once: bool) -> None:
    """If events are dropped as a whole, partial matches continue without them."""
    recorder, query, events = Recorder(), positional.query(clauses), positional.early(10, 2)
    engine = fc.Engine(query, latency_bound="1s", shedder=shedder, detector=recorder, **positional.OPTIONS)
    engine.process(events, arrivals=np.arange(len(events)))
    assert recorder.at_once == {at_once}


@pytest.mark.parametrize("clock", ["wall", "virtual"])
def test_detectors_know_the_clock(clock: str) -> None:
    recorder, events = Recorder(), positional.early(10, 2)
    options = {**positional.OPTIONS, "clock": clock} if clock == "virtual" else {}
    engine = fc.Engine(positional.query(), latency_bound="1s", shedder="bl", detector=recorder, **options)
    engine.process(events)
    assert recorder.on_wall_clock == {clock == "wall"}
