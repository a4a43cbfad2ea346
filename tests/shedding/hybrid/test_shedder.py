"""Hybrid shedding, HyI and HyS: they keep the contract, and find the matches that their model predicts."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import current_thread, main_thread
from threading import enumerate as enumerate_threads
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.shedding.contract import Contract, Make
from support.shedding.contract import stream as stream_
from support.shedding.evaluations import evaluated
from support.shedding.fitted import EVENTS, PAPER, model, shed, stream, truth
from support.shedding.shed_runs import Q1, SCHEMA, assert_within, found, query

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.overload.controller import Controller
from fastcep.overload.load import DetectorReading
from fastcep.shedding import Hybrid, HybridInput, HybridState, Model
from fastcep.shedding.background import Background
from fastcep.shedding.hybrid.adaptation import AdaptedFlow
from fastcep.shedding.hybrid.flow import Flow
from fastcep.shedding.hybrid.model import HybridModel

LONG = Q1.replace("2ms", "8ms")

stream_of_contract = pytest.fixture(scope="module", name="stream")(stream_.__wrapped__)  # type: ignore[attr-defined]

KINDS = {"hybrid": Hybrid, "hyi": HybridInput, "hys": HybridState}


class TestHybrid(Contract):
    make: Make = staticmethod(lambda: Hybrid(model()))
    free = 0.6


@pytest.mark.thorough
class TestHybridInput(Contract):
    make: Make = staticmethod(lambda: HybridInput(model()))


@pytest.mark.thorough
class TestHybridState(Contract):
    make: Make = staticmethod(lambda: HybridState(model()))
    free = 0.6


# ------------------------------------------------------------------------------------------------------------ quality


@cache
def model_of_half() -> Model:
    """Fit Q1 with C.V from 2 to 10 and the paper's windows."""
    return fc.fit(query(LONG), ds1(events=EVENTS, seed=21, c_values=(2, 10)), validate=False, **PAPER)


@cache
def rows(name: str) -> list[dict[str, Any]]:
    """Run the query of `model_of_half` over other events of the same kind."""
    events = ds1(events=EVENTS, seed=11, c_values=(2, 10))
    shedder = (lambda seed: KINDS[name](model_of_half(), seed)) if name in KINDS else name
    report = evaluated(shedder, events, query(LONG), bounds=["60%", "40%", "20%"], skip=0.1)
    return list(report.document["rows"])


def row(name: str, bound: str) -> dict[str, Any]:
    (one,) = (one for one in rows(name) if one["target"] == bound)
    return one


@pytest.mark.thorough
@pytest.mark.parametrize("bound", ["60%", "40%", "20%"])
@pytest.mark.parametrize("name", KINDS)
def test_what_is_found_is_what_is_said(name: str, bound: str) -> None:
    own = row(name, bound)
    assert own["held"] and own["precision"] == 1
    assert own["estimated_recall"] == pytest.approx(own["recall"], abs=0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("bound", ["60%", "40%", "20%"])
def test_it_finds_as_much_as_anyone(bound: str) -> None:
    """`informed` knows all probabilities, and lets nothing through to learn from."""
    hybrid = row("hybrid", bound)["recall"]
    assert hybrid >= row("informed", bound)["recall"] - 0.02
    assert hybrid >= max(row(name, bound)["recall"] for name in ("ri", "rs")) + 0.05
    assert hybrid >= max(row(name, bound)["recall"] for name in ("hyi", "hys")) - 0.02


@pytest.mark.thorough
@pytest.mark.parametrize("bound", ["60%", "40%", "20%"])
def test_each_drops_what_it_is_named_for(bound: str) -> None:
    assert row("hyi", bound)["shed_matches"] == 0 < row("hyi", bound)["shed_events"]
    assert row("hys", bound)["shed_events"] == 0 < row("hys", bound)["shed_matches"]
    assert row("hybrid", bound)["shed_events"] > 0


@pytest.mark.thorough
@pytest.mark.parametrize("demand", [0.001, 0.3])
def test_what_is_worth_nothing_goes_first(demand: float) -> None:
    """At any demand: half of the work is for useless partial matches."""
    matches, live = shed(Hybrid(model()), demand)
    plain = fc.Engine(query(), index="key", store="rows")
    whole = found(plain.process(stream()))
    assert_within(matches, whole)
    assert len(matches) >= 0.99 * len(whole)
    work = [one.metrics()["rows_visited"] + one.metrics()["rows_created"] for one in (live, plain)]
    assert work[0] < 0.6 * work[1]
    assert live.metrics()["shedding"]["estimated_recall"] > 0.99


@pytest.mark.thorough
def test_after_a_change_no_more_is_dropped_than_demanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drops that lose no match by the model may lose matches once the stream has changed."""
    plain = fc.Engine(query(), index="key", store="rows")
    plain.process(stream())
    work = {}
    for reliable in (True, False):
        monkeypatch.setattr(AdaptedFlow, "is_reliable", reliable)
        _, live = shed(Hybrid(model()), 0.1)
        work[reliable] = sum(live.metrics()[name] / plain.metrics()[name] for name in ("rows_visited", "rows_created"))
    assert work[True] / 2 < 0.65 and 0.8 < work[False] / 2 < 0.95


def test_of_nothing_that_is_demanded_nothing_is_dropped() -> None:
    matches, live = shed(Hybrid(model()), 0.0)
    assert matches == truth()
    told = live.metrics()["shedding"]
    assert (told["dropped_events"], told["dropped_partial_matches"]) == (0, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS.values())
def test_the_seed_decides(kind: type[Hybrid]) -> None:
    one, again, other = (shed(kind(model(), seed), 0.7)[0] for seed in (3, 3, 4))
    assert one == again != other


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS.values())
def test_a_model_on_disk_sheds_the_same(kind: type[Hybrid], tmp_path: Path) -> None:
    model().save(tmp_path / "m")
    given = shed(kind(model()), 0.7)[0]
    assert shed(kind(tmp_path / "m"), 0.7)[0] == given == shed(kind(str(tmp_path / "m")), 0.7)[0]
    assert given == shed(kind(fc.load_model(tmp_path / "m")), 0.7)[0]
    assert given == shed(fc.shedding.by_name(kind.name, model=tmp_path / "m"), 0.7)[0]
    assert kind(tmp_path / "m").spec() == kind(model()).spec()


@pytest.mark.thorough
def test_another_model_is_another_shedder(tmp_path: Path) -> None:
    one, other = Hybrid(model()), Hybrid(model(slices=2))
    assert one.spec() != other.spec() and json.loads(json.dumps(one.spec())) == one.spec()
    live = shed(one, 0.5)[1]
    live.process(ds1(events=10, seed=1).slice(0, 0))
    data = live.snapshot()
    with pytest.raises(fc.SnapshotError):
        fc.Engine.restore(data, shedder=other)


# ----------------------------------------------------------------------------------------------------- several queries


SHORT = Q1.replace("2ms", "1ms")


def test_several_queries() -> None:
    """Each query sheds by its own model, and finds more than at random."""
    events = stream(events=20_000)
    both = [query(), query(SHORT, "short")]
    models = [model(), model(SHORT, "short")]
    live = fc.Engine(both, clock="virtual", latency_bound=1e9, shedder=Hybrid(models), **PAPER)
    matches = live.process(events)
    plain = fc.Engine(both, index="key", store="rows").process(events)
    assert len(matches) == len(plain)
    mean = live.metrics()["shedding"]["processing_latency"]["mean"]
    live = fc.Engine(both, clock="virtual", latency_bound=0.5 * mean, shedder=Hybrid(models), **PAPER)
    matches = live.process(events)
    for name in ("q1", "short"):
        assert_within(found(matches, name), found(plain, name))
        assert len(matches.query(name)) >= 0.9 * len(plain.query(name))
    told = live.metrics()["shedding"]
    assert set(told["model"]["queries"]) == {"q1", "short"}
    assert told["processing_latency"]["mean"] < 0.6 * mean


# ------------------------------------------------------------------------------------------------------ wrong models


def test_no_model_of_the_query() -> None:
    with pytest.raises(fc.errors.ModelError, match="has a model for 'q1', none for 'other'; fit one for it"):
        shed(Hybrid(model()), 0.5, own=query(Q1, "other"))
    with pytest.raises(fc.errors.ModelError, match="has a model for 'q1', none for 'short'"):
        shed(Hybrid(model()), 0.5, own=[query(), query(SHORT, "short")])


def test_a_model_of_another_query() -> None:
    with pytest.raises(fc.errors.ModelError, match="fit one for this query"):
        shed(Hybrid(model()), 0.5, own=query(Q1.replace("2ms", "3ms")))


def test_a_model_of_another_schema() -> None:
    schema = fc.Schema({name: {"ID": "int64", "V": "float64"} for name in "ABCD"}, time="ts", type="type",
                       time_unit="us")  # fmt: skip
    with pytest.raises(fc.errors.ModelError, match="schema differs"):
        shed(Hybrid(model()), 0.5, own=fc.parse(Q1, schema, name="q1"))
    assert schema != SCHEMA


def test_a_model_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastcep.shedding.model.MODELS", ("hybrid", "other"))
    with pytest.raises(fc.errors.ModelError, match="found a model of kind 'other', expected 'hybrid'"):
        Hybrid(replace(model(), kind="other"))


@pytest.mark.parametrize("part", ["children", "looks", "asked"])
def test_a_model_whose_parts_do_not_fit(part: str) -> None:
    own = model()
    without = {name: table for name, table in own.parts.items() if name != part}
    short = own.parts | {part: own.parts[part].drop_columns(own.parts[part].column_names[0])}
    for parts in (without, short):
        with pytest.raises(fc.errors.ModelError, match="is inconsistent"):
            Hybrid(replace(own, parts=parts))


@pytest.mark.parametrize("name", ["states", "stride", "members", "event_stride", "slices"])
def test_a_model_whose_numbers_do_not_fit(name: str) -> None:
    own = model()
    with pytest.raises(fc.errors.ModelError, match="is inconsistent"):
        Hybrid(replace(own, numbers=own.numbers | {name: 1 if name != "slices" else 2}))


def test_a_model_comes_back_from_disk(tmp_path: Path) -> None:
    own = HybridModel.of(model())
    again = HybridModel.of(own.stored())
    assert again.stored().hash == own.stored().hash and again.flow.steps(own.costs) == own.flow.steps(own.costs)
    assert model(slices=2).hash != own.stored().hash


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", KINDS)
def test_no_order_is_computed_after_a_model_is_loaded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is part of a model; that of an older model is computed when it is loaded."""
    model().save(tmp_path / "new")
    replace(model(), parts={part: table for part, table in model().parts.items() if part != "drop order"}).save(
        tmp_path / "old"
    )
    computed: list[tuple[Any, ...]] = []
    count = Flow.counted_steps
    monkeypatch.setattr(Flow, "counted_steps", lambda *of: (computed.append(of[2:]), count(*of))[1])
    new, old = KINDS[name](str(tmp_path / "new")), KINDS[name](str(tmp_path / "old"))
    assert computed == [(old.events, old.rows)]
    events = stream(events=EVENTS // 4)
    rows_ = [shed(shedder, 0.6, events)[0] for shedder in (new, old)]
    assert len(computed) == 1 and rows_[0] == rows_[1]
    assert 0 < len(rows_[0]) < len(fc.Engine(query(), index="key", store="rows").process(events))


@pytest.mark.parametrize(
    ("column", "value"),
    [("owner", 9), ("number", -1), ("slice", 4), ("saved", 1.1), ("kept", -0.5), ("shedder", "rs")],
)
def test_orders_of_other_classes_are_rejected(column: str, value: Any) -> None:
    rows_ = model().parts["drop order"].to_pylist()
    rows_[0][column] = value
    order = pa.Table.from_pylist(rows_, model().parts["drop order"].schema)
    with pytest.raises(fc.ModelError, match=r"part 'drop order', (row 0: found .* expected a class|kept)"):
        Hybrid(replace(model(), parts=model().parts | {"drop order": order}))


def test_options() -> None:
    for options, message in (
        ({"explore": 1.5}, "explore=1.5"), ({"seed": -1}, "seed=-1"), ({"model": []}, "expected at least one"),
        ({"adapt": 1}, "adapt=1; expected True or False"),
    ):  # fmt: skip
        with pytest.raises(fc.ValidationError, match=message):
            Hybrid(**{"model": model()} | options)  # type: ignore[arg-type]
    with pytest.raises(fc.errors.ModelError, match="'nowhere' does not exist"):
        Hybrid("nowhere")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slices": 0}, "slices=0"),
        ({"clusters": 0, "per": "leaf"}, "clusters=0"),
        ({"kind": "hybird"}, "did you mean 'hybrid'"),
        ({"history": ds1(events=10, seed=1).slice(0, 0)}, "no events|no partial match"),
        ({"history": pa.table({"type": ["D"], "ID": [1], "V": [1], "ts": [0]})}, "no partial match in 1 events"),
    ],
)
def test_what_cannot_be_fitted(options: Any, message: str) -> None:
    history = options.pop("history", stream())
    with pytest.raises(fc.ValidationError, match=message):
        fc.fit(query(), history, **PAPER | options)


# --------------------------------------------------------------------------------------------------------- adaptation


def changing() -> pa.Table:
    """Return a stream with C.V from 2 to 10, and from the middle on from 12 to 20."""
    one, other = (ds1(events=EVENTS // 2, seed=41, c_values=values) for values in ((2, 10), (12, 20)))
    late = pa.array(other["ts"].to_numpy() + one["ts"][-1].as_py() + 10)
    return pa.concat_tables([one, other.set_column(other.column_names.index("ts"), "ts", late)]).combine_chunks()


def test_it_follows_the_stream() -> None:
    """Without adaptation nothing would be found after the change; with it, most is found again within 13 windows."""
    own, events, last = query(LONG), changing(), EVENTS * 3 // 4
    whole = [match for match in found(fc.Engine(own, index="key").process(events)) if match[1] >= last]
    recalls, told = [], []
    for adapt in (True, False):
        matches, live = shed(Hybrid(model(LONG), adapt=adapt), 0.5, events, own)
        recalls.append(sum(match[1] >= last for match in matches) / len(whole))
        told.append(live.metrics()["shedding"]["model"]["queries"]["q1"])
    assert recalls[0] > 0.7 and recalls[1] < 0.05
    assert told[0]["changes"] > 0 == told[1]["changes"] and told[0]["not_counted"] == 0


def test_nothing_changes_without_reason() -> None:
    _, live = shed(Hybrid(model(LONG)), 0.7, own=query(LONG))
    told = live.metrics()["shedding"]["model"]["queries"]["q1"]
    assert told["changes"] == 0 <= told["drift"] < 0.5


@pytest.mark.thorough
def test_what_is_learned_goes_on_from_a_snapshot() -> None:
    from fastcep.evaluation.constant import ConstantDemand, SameDemand

    events, half = changing(), EVENTS * 3 // 4 + 77

    def shedder() -> Any:
        return ConstantDemand(Hybrid(model(LONG)), 0.6)

    def live() -> fc.Engine:
        return fc.Engine(query(LONG), clock="virtual", latency_bound="1s", detector=SameDemand(0.6), shedder=shedder(),
                         **PAPER)  # fmt: skip

    whole, one = live(), live()
    rows_ = found(whole.process(events))
    before = found(one.process(events.slice(0, half)))
    again = fc.Engine.restore(one.snapshot(), shedder=shedder(), detector=SameDemand(0.6))
    assert before + found(again.process(events.slice(half))) == rows_
    assert again.metrics()["shedding"]["model"] == whole.metrics()["shedding"]["model"]
    assert whole.metrics()["shedding"]["model"]["queries"]["q1"]["changes"] > 0


def test_a_thread_adapts_on_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions go on with the last order meanwhile; a snapshot waits. On the virtual clock there is no thread."""
    threads: list[str] = []
    learn = AdaptedFlow.learn

    def recorded(adapted: AdaptedFlow, *of: Any) -> bool:
        threads.append(current_thread().name)
        return learn(adapted, *of)

    monkeypatch.setattr(AdaptedFlow, "learn", recorded)
    shed(Hybrid(model(LONG)), 0.6, changing(), query(LONG))
    assert set(threads) == {main_thread().name}
    threads.clear()
    monkeypatch.setattr("fastcep.overload.protocols.QueryView.on_wall_clock", True)
    monkeypatch.setattr("fastcep.shedding.background._SHARE", 1.0)
    take = Background.take  # wait for each computation, however busy the machine is
    monkeypatch.setattr(Background, "take", lambda self, *, wait=False: take(self, wait=True))
    shedder = Hybrid(model(LONG))
    _, live = shed(shedder, 0.6, changing(), query(LONG))
    state = shedder.state()
    assert set(threads) == {"fastcep drop order"} and len(threads) > 3
    assert state["learned"]["q1"]["changes"] == live.metrics()["shedding"]["model"]["queries"]["q1"]["changes"] > 0
    assert all(thread.name != "fastcep drop order" for thread in enumerate_threads())


# ----------------------------------------------------------------------------------------------- demand as it is needed


def test_what_is_saved_for_nothing_does_not_end_the_demand() -> None:
    """The latency is 10 % too high, and drops without a loss save half. The demand and these drops last."""
    controller, saved, demands = Controller(), 0.0, []
    for _ in range(300):
        latency = 1.1 * (1 - saved)
        demand = controller.update(DetectorReading(latency - 1), saved)
        saved = 0.5 if demand > 0 else 0.0
        demands.append(demand)
    assert min(demands) > 0 and demands[-1] < 0.5
    controller, saved, off = Controller(), 0.0, 0
    for _ in range(300):  # it falls to 0 if the saved share is not reported
        demand = controller.update(DetectorReading(1.1 * (1 - saved) - 1))
        saved = 0.5 if demand > 0 else 0.0
        off += demand == 0
    assert off > 50


def test_the_demand_goes_when_it_is_not_needed() -> None:
    controller, saved = Controller(), 0.0
    for step in range(300):
        load = 1.1 if step < 100 else 0.9
        demand = controller.update(DetectorReading(load * (1 - saved) - 1), saved)
        saved = 0.5 if demand > 0 else 0.0
    assert demand == 0


@pytest.mark.thorough
def test_the_demand_stands_in_an_engine() -> None:
    """A bound at 90 %: half of the work is saved without a loss, all of the time."""
    plain = fc.Engine(query(), clock="virtual", latency_bound=1e9, shedder=Hybrid(model()), **PAPER)
    blocks: list[Any] = []
    plain.listen(lambda processing, _: blocks.append(processing))
    plain.process(stream())
    bound = 0.9 * np.concatenate(blocks).mean()
    live = fc.Engine(query(), clock="virtual", latency_bound=bound, shedder=Hybrid(model()), **PAPER)
    demands = []
    for at in range(0, EVENTS, 500):
        live.process(stream().slice(at, 500))
        demands.append(live.metrics()["shedding"]["demand"])
    assert live.metrics()["shedding"]["episodes"] <= 2
    assert np.mean(np.array(demands[10:]) > 0) > 0.9
    assert live.metrics()["matches"] >= 0.99 * len(truth())


@pytest.mark.thorough
def test_half_of_the_live_partial_matches_come_to_nothing() -> None:
    """Hybrid, Fig. 6c: without half of them, HyS finds all matches and RS half (C.V from 2 to 10)."""
    from fastcep.evaluation.constant import ConstantDemand, SameDemand
    from fastcep.shedding import by_name

    own, events = query(LONG), ds1(events=EVENTS, seed=43, c_values=(2, 10))

    def run(shedder: Any) -> tuple[int, float]:
        more = {} if shedder is None else {"shedder": ConstantDemand(shedder, 0.5), "detector": SameDemand(0.5)}
        live = fc.Engine(own, clock="virtual", latency_bound="1s", **PAPER, **{"shedder": None, **more})
        matches, there = 0, []
        for at in range(0, EVENTS, 400):
            matches += len(live.process(events.slice(at, 400)))
            there.append(live.metrics()["live_partial_matches"])
        return matches, float(np.mean(there[5:]))

    (truth, whole), (hys, left), (rs, rest) = run(None), run(HybridState(model(LONG))), run(by_name("rs", seed=1))
    assert left < 0.51 * whole and rest > 0.5 * whole
    assert hys > 0.98 * truth and rs < 0.55 * truth


@pytest.mark.thorough
def test_queries_whose_windows_are_cut_differently() -> None:
    """An explicit window is one slice; one shedder serves both queries."""
    explicit = query(f"{Q1.split(' WITHIN')[0]} WINDOW EVERY 2ms CLOSE AFTER 2ms", "explicit")
    models = [model(), fc.fit(explicit, ds1(events=EVENTS, seed=44), validate=False, **PAPER)]
    both = Hybrid(models)
    assert (both.slices, both.slices_of(query()), both.slices_of(explicit)) == (4, 4, 1)
    live = fc.Engine([query(), explicit], clock="virtual", latency_bound=5.0, shedder=both, **PAPER)
    matches = live.process(stream())
    told = live.metrics()["shedding"]
    assert len(matches) > 0 and told["demand"] > 0
    assert all(own["changes"] == 0 for own in told["model"]["queries"].values())


@pytest.mark.parametrize(
    "text, drops", [(Q1, True), ("PATTERN SEQ(A a, NEG B n, C c) WHERE a.ID = c.ID WITHIN 2ms", False)]
)
def test_events_are_dropped_as_a_whole_if_classes_do_not_save_enough(text: str, drops: bool) -> None:
    """But not with negation, where that could report false matches."""
    options = PAPER | {"cost_table": "measured"}  # where an event costs something even if nothing is tried
    shedder = Hybrid(fc.fit(query(text), stream().slice(0, 8_000), validate=False, **options))
    _, live = shed(shedder, 0.5, stream().slice(0, 4_000), query(text))
    control: Any = live._stream.queries.control
    (view,) = [control._query_view(item) for item in control.queries]
    for demand in (0.5, 0.999):
        (plan,) = shedder.decide(demand, 0.0, [view])
        assert (plan.events is not None and plan.events.any()) == (drops and demand > 0.9)
