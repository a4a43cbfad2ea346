"""Shedding by pSPICE: it keeps the contract, finds the matches that its order predicts, and handles several queries."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from threading import current_thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.shedding.contract import Q1 as CONTRACT
from support.shedding.contract import Contract, Make, engine, events, found, unshed
from support.shedding.contract import stream as stream_
from support.shedding.drop_plans import controlled
from support.shedding.markov_models import ABC, TABLE, fitted, letters, order, shedding
from support.shedding.shed_runs import assert_within, query
from support.shedding.shed_views import view as view_of

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.errors import ModelError, ValidationError
from fastcep.overload.protocols import QueryView
from fastcep.plan import make_plan
from fastcep.shedding import Model, PredictedLatency, PSpice
from fastcep.shedding.pspice import PSpiceProbability
from fastcep.shedding.pspice.drop_order import DropOrder
from fastcep.shedding.pspice.model import PSpiceModel

stream_of_contract = pytest.fixture(scope="module", name="stream")(stream_.__wrapped__)  # type: ignore[attr-defined]

TIMED = "PATTERN SEQ(A a, B b, C c) WITHIN 400us"
SEPARATE = "PATTERN SEQ(A a, B b, C c) WINDOW OPEN EVERY 50 EVENTS CLOSE AFTER 50 EVENTS"
OVERLAPPING = "PATTERN SEQ(A a, B b, C c) WINDOW OPEN ON D d CLOSE AFTER 80 EVENTS"
EVENLY = "PATTERN SEQ(A a, B b, C c) WINDOW OPEN EVERY 8 EVENTS CLOSE AFTER 64 EVENTS"


CHAIN = "PATTERN SEQ(A a, B b, C c, D d, A e, B f) WINDOW OPEN ON D o CLOSE AFTER 400 EVENTS STRATEGY skip_till_next"


@cache
def model() -> Model:
    return fc.fit(CONTRACT, ds1(events=40_000, seed=21), kind="pspice", cost_table="paper", index="key")


class TestPSpice(Contract):
    make: Make = staticmethod(lambda: PSpice(model()))


@pytest.mark.thorough
class TestPSpiceProbability(Contract):
    make: Make = staticmethod(lambda: PSpiceProbability(model()))


# --------------------------------------------------------------------- quality


@pytest.mark.sample(1)
@pytest.mark.parametrize("share", [0.8, 0.5])
def test_it_finds_more_than_random_drops(share: float) -> None:
    truth, mean = unshed()
    recall = {}
    for name, make in {"pspice": lambda: PSpice(model()), "rs": lambda: fc.shedding.by_name("rs")}.items():
        recall[name] = len(found(engine(make, share * mean).process(events()))) / len(truth)
    assert recall["pspice"] > recall["rs"] + 0.05


PREDICTED = {
    ABC: 0.05, f"{ABC} STRATEGY skip_till_next": 0.07, TIMED: 0.05, SEPARATE: 0.05, OVERLAPPING: 0.05,
    f"{OVERLAPPING} STRATEGY skip_till_next": 0.08, EVENLY: 0.05, f"{EVENLY} STRATEGY skip_till_next": 0.05,
    "PATTERN AND(A a, B b) WITHIN 30 EVENTS": 0.12, "PATTERN SEQ(A a, B+ b[], C c) WITHIN 9 EVENTS": 0.05,
    "PATTERN ANY(6, B b[]) WINDOW OPEN EVERY 10 EVENTS CLOSE AFTER 30 EVENTS STRATEGY skip_till_next": 0.05,
    "PATTERN SEQ(A a, B{2,3} b[], C c) WITHIN 20 EVENTS": 0.05, CHAIN: 0.05,
}  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("text", "apart", "options"),
    [*((text, apart, {}) for text, apart in PREDICTED.items()), (EVENLY, 0.05, {"timed_out": True})],
)
@pytest.mark.parametrize("demand", [0.1, 0.3, 0.6])
def test_what_it_saves_and_finds_is_what_its_order_predicts(
    text: str, apart: float, options: dict[str, Any], demand: float
) -> None:
    """On a stream whose events do not depend on each other, up to the visits that drop something.

    Engines that report partial matches that time out have each of them once in each window.
    """
    shedder = PSpice(fitted(text).stored())
    whole, live = shedding(query(text), None, **options), shedding(query(text), shedder, demand, **options)
    truth, matches = (len(one.process(letters(seed=3))) + len(one.flush()) for one in (whole, live))
    selection = live._stream.queries.control.shedder.inner._order[1].choose(demand)
    work = [one.metrics()["shedding"]["processing_latency"]["mean"] for one in (whole, live)]
    assert 1 - work[1] / work[0] == pytest.approx(selection.saved, abs=apart)
    assert matches / truth == pytest.approx(selection.kept[0], abs=apart)
    assert live.metrics()["shedding"]["estimated_recall"] == pytest.approx(matches / truth, abs=0.09)


@pytest.mark.sample(1)
@pytest.mark.parametrize("text", [ABC, TIMED, SEPARATE, OVERLAPPING])
def test_every_match_is_true(text: str) -> None:
    whole, live = shedding(query(text), None), shedding(query(text), PSpice(fitted(text).stored()), 0.7)
    truth, matches = (found(one.process(letters(seed=3))) for one in (whole, live))
    assert 0 < len(matches) < len(truth)
    assert_within(matches, truth) if text != OVERLAPPING else None
    assert set(matches) <= set(truth)


def test_a_demand_of_0_drops_nothing() -> None:
    whole, live = shedding(query(), None), shedding(query(), PSpice(model()), 0.0, cost_table="paper")
    assert found(live.process(events())) == found(whole.process(events()))
    assert live.metrics()["shedding"]["dropped_partial_matches"] == 0


def test_the_seed_decides() -> None:
    first, again, other = (
        found(shedding(query(ABC), PSpice(fitted().stored(), seed), 0.5).process(letters())) for seed in (3, 3, 4)
    )
    assert first == again != other


# -------------------------------------------------------------- several queries


def both(weights: tuple[float, float] = (1.0, 1.0)) -> tuple[list[fc.Query], list[Model]]:
    texts = {"one": ABC, "two": f"{ABC} STRATEGY skip_till_next"}
    queries = [replace(query(text, name), weight=weight)
               for (name, text), weight in zip(texts.items(), weights, strict=True)]  # fmt: skip
    return queries, [fc.fit(item, letters(), kind="pspice", cost_table=TABLE) for item in queries]


@pytest.mark.sample(1)
@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 1e6), (1e6, 1.0)])
def test_several_queries_share_one_order(weights: tuple[float, float]) -> None:
    """The partial matches of the query with the larger weight are dropped last."""
    queries, models = both(weights)
    live = shedding(queries, PSpice(models), 0.5)
    whole = shedding(queries, None)
    matches, truth = live.process(letters(seed=3)), whole.process(letters(seed=3))
    kept = [len(matches.query(name)) / len(truth.query(name)) for name in ("one", "two")]
    shared = live._stream.queries.control.shedder.inner._order[1]
    assert kept == pytest.approx(shared.choose(0.5).kept, abs=0.05)
    if weights[1] > 1:
        assert kept[1] > 0.98
    if weights[0] > 1:
        assert kept[1] < 0.02 < 0.4 < kept[0]


def test_each_query_needs_a_model() -> None:
    queries, models = both()
    with pytest.raises(ModelError, match="shedder 'pspice' has a model for 'one', none for 'two'; fit one for it"):
        shedding(queries, PSpice(models[:1]), 0.5)
    weighted, _ = both((1.0, 2.0))
    with pytest.raises(ModelError, match="is for query 'two', not for the query of this name here; fit one"):
        shedding(weighted, PSpice(models), 0.5)
    with pytest.raises(ModelError, match="'pspice'"):
        shedding(replace(query(TIMED), name="one"), PSpice(models), 0.5)


def test_utilities_are_visible_in_all_queries() -> None:
    """Before the first decision, and while it sheds."""
    queries, models = both()
    for bound, number in ((1e9, 700), (40.0, 5_000)):
        live = fc.Engine(
            queries, clock="virtual", cost_table=TABLE, latency_bound=bound, shedder=PSpice(models, slices=8)
        )  # fmt: skip
        live.process(letters().slice(0, number))
        seen = set()
        for place in range(number, number + 50):
            live.process(letters().slice(place, 1))
            rows: Any = live.partial_matches()
            assert rows["utility"].null_count == 0
            assert not len(rows) or rows["utility"].to_numpy().min() >= 0
            seen |= set(rows["query"].to_pylist())
        assert seen == {"one", "two"} if bound == 1e9 else seen >= {"one"}
        assert (live.metrics()["shedding"]["episodes"] > 0) == (bound < 1e9)


def test_another_store_drops_nothing() -> None:
    plan = make_plan(query(ABC), store="factorised")
    shedder = PSpice(fitted().stored())
    item = replace_plan(view_of(ABC), plan)
    (drop_plan,) = shedder.decide(0.5, 0.0, [item])
    assert drop_plan.births is None and drop_plan.drops is None
    item.of_present = True
    (drop_plan,) = shedder.decide(0.5, 0.0, [item])
    assert drop_plan.drops is None


def replace_plan(item: QueryView, plan: Any) -> QueryView:
    item.plan = replace(plan, query=query(ABC))
    return item


# ------------------------------------------------------------------ Algorithm 1


def of_present(amount: float, texts: list[str], seed: int = 5) -> tuple[list[QueryView], PSpice, list[Any]]:
    """Return views with random live partial matches, and the plans of a decision to drop a share of the present."""
    random = np.random.default_rng(seed)
    names = [f"q{number}" for number in range(len(texts))]
    shedder = PSpice([fitted(text, name).stored() for text, name in zip(texts, names, strict=True)], slices=8)
    views = []
    for text, name in zip(texts, names, strict=True):
        item = view_of(text, slices=8)
        item.plan = make_plan(query(text, name), store="rows")
        item.__dict__["live"] = random.integers(0, 50, (len(item.plan.states), 1, 8))
        item.of_present = True
        views.append(item)
    return views, shedder, list(shedder.decide(min(amount, 0.999), 0.0, views))


@pytest.mark.parametrize("texts", [[ABC], [ABC, f"{ABC} STRATEGY skip_till_next"]])
@pytest.mark.parametrize("amount", [0.01, 0.3, 0.7, 0.999])
def test_of_what_is_present_the_lowest_utilities_are_dropped(texts: list[str], amount: float) -> None:
    """Exactly the share of the expected work that is demanded; no birth is refused."""
    views, shedder, plans = of_present(amount, texts)
    assert shedder._order is not None
    shared = shedder._order[1]
    work = saved = 0.0
    dropped, spared = [], []
    for item, plan, rate, utility in zip(views, plans, shared.rates, shared.utilities, strict=True):
        assert plan.births is None and not plan.steady and plan.kept is None
        rows = item.live[:2, 0] * rate[:2]  # a match is not stored
        work, saved = work + rows.sum(), saved + (rows * plan.drops[:2, 0]).sum()
        dropped.append(utility[:2][(plan.drops[:2, 0] == 1) & (rows > 0)])
        spared.append(utility[:2][(plan.drops[:2, 0] < 1) & (rows > 0)])
        assert not plan.drops[2:].any() and not plan.drops[item.live == 0].any()
        assert 0 <= plan.left <= 1
    assert saved / work == pytest.approx(amount)
    assert np.concatenate(dropped).max(initial=-1) <= np.concatenate(spared).min(initial=np.inf)


def test_with_its_own_detector() -> None:
    """Algorithm 1 with Algorithm 2: partial matches are dropped at decisions, and the bound is held in the mean."""
    mean = shedding(query(ABC), None)
    mean.process(letters())
    bound = 0.6 * mean.metrics()["shedding"]["processing_latency"]["mean"]
    live = fc.Engine(
        query(ABC), clock="virtual", cost_table=TABLE, latency_bound=bound, shedder=PSpice(fitted().stored()),
        detector=PredictedLatency(),
    )  # fmt: skip
    assert len(live.process(letters(seed=3))) > 0
    shed = live.metrics()["shedding"]
    (counts,) = (item["partial_matches"] for item in shed["queries"].values())
    assert shed["dropped_partial_matches"] > 0 and sum(sum(item["dropped"]) for item in counts.values()) > 0
    assert 0 < shed["estimated_recall"] < 1


def test_nothing_is_present() -> None:
    views, shedder, _ = of_present(0.5, [ABC])
    views[0].__dict__["live"] = np.zeros((3, 1, 8), np.int64)
    (plan,) = shedder.decide(0.5, 0.0, views)
    assert not plan.drops.any() and plan.left == 1


# ---------------------------------------------------------- demands and windows


def decided(shedder: PSpice, demand: float, before: float = 0.0, item: QueryView | None = None) -> Any:
    if item is None:
        item = view_of(ABC, slices=shedder.slices)
        item.plan = make_plan(query(ABC), store="rows")
    (plan,) = shedder.decide(demand, before, [item])
    return plan


def test_a_rising_demand_drops_live_partial_matches_and_a_falling_one_does_not() -> None:
    shedder = PSpice(fitted().stored(), slices=8)
    first = decided(shedder, 0.2)
    assert first.drops is not None and first.steady and (first.drops == first.births).all() and first.left == first.kept
    assert decided(shedder, 0.21, 0.2).drops is None  # not worth a walk
    again = decided(shedder, 0.4, 0.21)
    assert again.drops is not None and again.left == pytest.approx(again.kept / order(fitted()).choose(0.21).kept[0])
    assert decided(shedder, 0.3, 0.4).drops is None
    assert decided(shedder, 0.4, 0.4).drops is not None
    calm = decided(shedder, 0.0, 0.4)
    assert calm.drops is None and not calm.births.any() and calm.kept == 1
    shedder.stop_shedding()
    assert shedder.state()["demand"] == shedder.state()["saved"] == 0


def test_births_are_refused_except_for_the_explored_share() -> None:
    everything, explored = (decided(PSpice(fitted().stored(), explore=share), 0.999).births for share in (0.0, 0.05))
    assert (everything[0] == 1).all() and not everything[2:].any()
    assert explored == pytest.approx(0.95 * everything)


@pytest.mark.parametrize("before", [0.0, 1e-12, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("demand", [0.0, 1e-12, 0.5, 0.999, 1.0])
def test_plans_are_valid_for_all_demands(demand: float, before: float) -> None:
    plan = decided(PSpice(fitted().stored()), demand, before)
    for table in (plan.births, plan.drops):
        assert table is None or (table.min() >= 0 and table.max() <= 1)
    assert 0 <= plan.kept <= 1 and (plan.left is None or 0 <= plan.left <= 1)


@pytest.mark.thorough
def test_the_order_follows_the_size_of_the_windows() -> None:
    """The rate doubles, so that twice as many events are in a window of time."""
    later = letters(seed=4, gap=5)
    later = later.set_column(3, "ts", pc.add(later["ts"], letters(seed=3)["ts"][-1]))
    live = shedding(query(TIMED), PSpice(fitted(TIMED).stored()), 0.4)
    shedder: PSpice = live._stream.queries.control.shedder.inner
    live.process(letters(seed=3))
    window = live.metrics()["shedding"]["model"]["queries"]["q1"]["window"]
    assert window == pytest.approx(40, rel=0.1)
    before = shedder._order
    live.process(later)
    window = live.metrics()["shedding"]["model"]["queries"]["q1"]["window"]
    assert window == pytest.approx(84, rel=0.1)  # gaps of 1 to 9 us, not of 1 to 19
    assert before is not None and shedder._order is not None and shedder._order[1] is not before[1]
    expected = DropOrder([fitted(TIMED)], [1.0], [window], [32], by_time=True)
    assert shedder._order[1].saved.tolist() == expected.saved.tolist() != before[1].saved.tolist()


@pytest.mark.thorough
def test_batches_and_snapshots_while_windows_change() -> None:
    """The cut into batches does not matter; a restored engine continues as one without the restore."""
    later = letters(4_000, seed=4, gap=4)
    later = later.set_column(3, "ts", pc.add(later["ts"], letters(4_000, seed=3)["ts"][-1]))
    whole = pa.concat_tables([letters(4_000, seed=3), later])
    plain = shedding(query(TIMED), PSpice(fitted(TIMED).stored()), 0.4)
    matches = found(plain.process(whole))
    for cut in (2_000, 4_100, 7_000):
        live = shedding(query(TIMED), PSpice(fitted(TIMED).stored()), 0.4)
        parts = [found(live.process(batch)) for batch in whole.slice(0, cut).to_batches(max_chunksize=333)]
        again = shedding(query(TIMED), PSpice(fitted(TIMED).stored()), 0.4)._stream.queries.control
        live = fc.Engine.restore(live.snapshot(), shedder=again.shedder, detector=again._demand.detectors[0])
        parts.append(found(live.process(whole.slice(cut))))
        assert [match for part in parts for match in part] == matches
        assert live.metrics()["shedding"] == plain.metrics()["shedding"]


@pytest.mark.parametrize(
    "state",
    [{}, {"demand": 2, "saved": 0, "windows": {}}, {"demand": 0, "saved": -1, "windows": {}},
     {"demand": 0, "saved": 0, "windows": {"q1": 0}}, {"demand": 0, "saved": 0, "windows": {"q1": float("nan")}},
     {"demand": 0, "saved": 0, "windows": []}, {"demand": 0, "saved": 0, "windows": {}, "more": 1}],
)  # fmt: skip
def test_a_damaged_state_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"control\.shedder"):
        PSpice(fitted().stored()).restore(state)


def test_on_the_wall_clock_the_order_is_computed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    shedder = PSpice(fitted().stored(), slices=8)
    computing: list[str] = []
    compute = shedder._new_order
    monkeypatch.setattr(shedder, "_new_order", lambda key: (computing.append(current_thread().name), compute(key))[1])
    decided(shedder, 0.2)
    assert shedder._order is not None
    before = shedder._order[1]
    item = view_of(ABC, slices=8)
    item.plan = make_plan(query(ABC), store="rows")
    item.window_size, item.received, item.count_budget = 80.0, 1_000, 1.0
    shedder.learn([item])
    assert shedder._order[1] is before or len(computing) == 2
    assert shedder._learning._future is not None
    shedder._learning._future.result()
    plan = decided(shedder, 0.2, 0.2, item)
    assert computing == [current_thread().name, "fastcep drop order"]
    assert shedder._order[1] is not before and shedder.metrics()["queries"]["q1"]["window"] == 80.0
    assert plan.drops is not None  # the new order may drop other partial matches


def test_the_sample_of_counted_events_follows_from_the_children_counted_before() -> None:
    """On the wall clock few are counted; after a reading, the number of children is that of the reading."""
    shedder, item = PSpice(fitted().stored(), slices=8), view_of(ABC, slices=8)
    item.plan = make_plan(query(ABC), store="rows")
    item.window_size, item.received, item.count_budget = 40.0, 1_000, 1.0
    expected = shedder._drifts["q1"].per_event
    assert decided(shedder, 0.2, item=item).counts == pytest.approx(0.02 / expected)
    keys, counts = np.full(1, 1 << 63, np.uint64), np.full(1, 4_000.0)  # in 200 events
    item.received, item.flows = 1_200, lambda: (keys, counts, counts, 0.0, np.zeros((3, 1)))  # type: ignore[method-assign]
    shedder.learn([item])
    assert decided(shedder, 0.2, 0.2, item).counts == pytest.approx(0.02 / 20)
    item.count_budget = float("inf")
    assert decided(shedder, 0.2, 0.2, item).counts == 1


@pytest.mark.parametrize("text", ["PATTERN SEQ(A a, B b) WINDOW OPEN ON D d CLOSE ON C e", SEPARATE])
def test_nothing_is_counted_if_the_drift_is_unknown(text: str) -> None:
    shedder, item = PSpice(fitted(text).stored(), slices=8), view_of(text, slices=8)
    item.plan = make_plan(query(text), store="rows", isolated=text == SEPARATE)
    assert decided(shedder, 0.2, item=item).counts == 0 and not shedder._counted


@pytest.mark.sample(1)
@pytest.mark.parametrize(("text", "size"), [(ABC, 40.0), (OVERLAPPING, 80.0)])
def test_the_size_of_windows_of_a_number_of_events_is_known_at_once(text: str, size: float) -> None:
    """Otherwise the first decision would compute the drop order for windows of another size."""
    assert controlled(shedding(query(text), PSpice(fitted(text).stored()), 0.3)).window_size == size


def test_on_the_wall_clock() -> None:
    live = fc.Engine(query(TIMED), latency_bound="20ns", shedder=PSpice(fitted(TIMED).stored()))
    truth = found(shedding(query(TIMED), None).process(letters(4_000)))
    assert set(found(live.process(letters(4_000)))) <= set(truth)
    assert live.metrics()["shedding"]["dropped_partial_matches"] > 0


def test_the_shedder_of_a_running_engine() -> None:
    truth = found(shedding(query(ABC), None).process(letters()))
    live = fc.Engine(query(ABC), clock="virtual", cost_table=TABLE, latency_bound=100.0, shedder="rs")
    matches = found(live.process(letters().slice(0, 4_000)))
    for first, divides, name in ((4_000, True, "pspice"), (8_000, False, "pspice--")):
        live.set_shedder(PSpice(fitted().stored(), remaining_time=divides))
        assert live.metrics()["shedding"]["shedder"] == name
        matches += found(live.process(letters().slice(first, 4_000)))
    assert set(matches) <= set(truth) and 0 < len(matches) < len(truth)
    assert live.metrics()["shedding"]["processing_latency"]["mean"] < 1.1 * 100


# --------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "message"),
    [({"slices": 65}, "slices=65; expected at most 64"), ({"slices": 0}, "slices=0; expected a whole number"),
     ({"slices": 1.5}, "slices=1.5"), ({"explore": -0.1}, "explore=-0.1"), ({"explore": float("nan")}, "explore=nan"),
     ({"explore": "x"}, "explore='x'"), ({"seed": -1}, "seed=-1"), ({"model": []}, "model=.*; expected at least one"),
     ({"bins": 5}, "has no option 'bins'"), ({"cut": 1}, "cut=1; expected True or False")],
)  # fmt: skip
@pytest.mark.parametrize("name", ["pspice", "pspice--"])
def test_wrong_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=f"shedder '{name}'.*{message}"):
        fc.shedding.by_name(name, **{"model": fitted().stored(), **options})


def test_without_the_remaining_time() -> None:
    """The utility is the completion probability alone, as by the spelling of the paper's variant."""
    utilities = []
    for shedder in (PSpice(fitted().stored(), remaining_time=False), PSpiceProbability(fitted().stored())):
        decided(shedder, 0.2)
        assert shedder.name == "pspice--" and shedder._order is not None
        utilities.append(shedder._order[1].utilities[0].tolist())
    assert utilities[0] == utilities[1]
    with pytest.raises(ValidationError, match="remaining_time=2; expected True or False"):
        PSpice(fitted().stored(), remaining_time=2)  # type: ignore[arg-type]


def test_two_models_for_one_query_are_refused() -> None:
    with pytest.raises(ValidationError, match="two models have the same query name"):
        PSpice([fitted().stored(), fitted(seed=2).stored()])


def test_by_name() -> None:
    shedder = fc.shedding.by_name("pspice--", model=[fitted().stored()], seed=5)
    assert isinstance(shedder, PSpiceProbability) and shedder.slices == 32
    assert repr(shedder) == "PSpiceProbability(q1; seed=5)"
    assert shedder.spec() == {
        "name": "pspice--", "seed": 5, "models": {"q1": fitted().stored().hash}, "slices": 32, "explore": 0.01,
        "cut": True, "history": 50_000, "renew": 1_000_000,
    }  # fmt: skip
    assert shedder.metrics()["queries"] == {"q1": {"window": 40.0, "drift": None}}


def test_a_model_fits_whatever_is_returned() -> None:
    live = fc.Engine(query(ABC), attributes=True, latency_bound="1h", shedder=PSpice(fitted().stored()))
    assert "a.V" in live.process(letters(500)).to_arrow().column_names
    returned = query(f"{ABC} RETURN a.V AS v")
    fc.Engine(returned, latency_bound="1h", shedder=PSpice(fitted().stored()))


@pytest.mark.sample(1)
@pytest.mark.parametrize("costs", ["paper", "measured"])
def test_evaluate_by_demand(costs: str) -> None:
    """A constant demand is a share of the work of the stream, not of the present state at each decision."""
    options = {"cost_table": costs, "index": "key"}
    fitting = fc.fit(CONTRACT, ds1(events=20_000, seed=21), kind="pspice", **options)
    expected = order(PSpiceModel.of(fitting), slices=32).choose(0.3).kept[0]
    strategies = ["rs", lambda seed: PSpice(fitting, seed)]
    report = fc.evaluate(CONTRACT, events().slice(0, 20_000), shedders=strategies, demands="30%", **options)
    random, recall = (row["recall"] for row in report.rows)
    assert recall == pytest.approx(expected, abs=0.1) and recall > random + 0.03
