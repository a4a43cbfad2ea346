"""Work limit for single events, for a bound on a percentile."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from strategies import queries as strategies
from strategies.queries import Case
from strategies.whole_cases import is_planned, query_cases
from support import harness
from support.shedding.chaos import Always, Chaos
from support.shedding.drop_plans import Quiet, controlled
from support.shedding.shed_runs import SCHEMA, assert_within, found
from support.state_transfer import quiet

import fastcep as fc
from fastcep.overload.costs import CostTable
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.work_limit import WorkLimit, expected
from fastcep.plan import INDEXES, make_plan
from fastcep.query.patterns import finds_matches_separately, is_monotonic
from fastcep.shedding import SmoothedLatency

queries = st.one_of(strategies.cases(), query_cases("stores"))
SEQUENCE = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID WITHIN 2ms"
KLEENE = "PATTERN SEQ(A+ a[], B b) WHERE a[i].ID = b.ID WITHIN 400us"


pytestmark = pytest.mark.usefixtures("decide_often")


class OfPercentile(Always):
    """Detector for a bound on the 95th percentile, without a demand."""

    allowed = 0.05


class Cutting(Chaos):
    """Limits the work, and returns random drop plans."""

    cuts = True


class Only(Quiet):
    """Limits the work, and drops nothing."""

    cuts = True


def engine(query: Any, shedder: Any, bound: float, amount: float = 0.0, **options: Any) -> fc.Engine:
    own = {"clock": "virtual", "cost_table": "paper"} | options
    return quiet(fc.Engine, query, latency_bound=bound, shedder=shedder, detector=OfPercentile(amount), **own)


def costs(live: fc.Engine) -> list[float]:
    """Return a list that collects the cost of each event from now on."""
    latencies: list[float] = []
    live.listen(lambda processing, _: latencies.extend(processing.tolist()))
    return latencies


def events(number: int, seed: int = 0, keys: int = 2) -> Any:
    random = np.random.default_rng(seed)
    return {
        "type": random.choice(list("ABC"), number), "ID": random.integers(0, keys, number),
        "V": random.integers(0, 3, number), "ts": np.arange(number) * 20,
    }  # fmt: skip


@given(queries, st.integers(1, 9), st.sampled_from(INDEXES), st.booleans())
def test_no_event_is_dearer(case: Case, bound: int, index: str, chaos: bool) -> None:
    """Matches are true and in order, and at most the allowed share of events costs more than the bound."""
    assume(is_planned(case.query) and (is_monotonic if chaos else finds_matches_separately)(case.query))
    shedder = Cutting(bound, classes=True) if chaos else Only()
    live = engine(case.query, shedder, bound, 0.5 if chaos else 0.0, index=index)
    latencies = costs(live)
    rows = []
    for data in harness.batches(case.query.schema, case.events, case.batch_sizes):
        rows += harness.table_rows(case.query, live.process(data).to_arrow())
    rows += harness.table_rows(case.query, live.flush().to_arrow())
    truth = harness.rows(case.query, None, case.events)
    event("all" if len(rows) == len(truth) else "fewer")
    if not any(live._stream.queries.control.queries[0].plan.sets):
        rest = iter([repr(row) for row in truth])
        assert all(repr(row) in rest for row in rows), f"{case!r}\n{rows}\n{truth}"
    if not chaos and live._stream.queries.control._work_limit.on:  # not if a negation ends the pattern
        assert (np.array(latencies) > bound).sum() <= 0.045 * len(latencies) + 1e-9


def test_no_event_is_dearer_in_isolated_windows() -> None:
    """The cost of the partial matches that an event begins is counted in each of its windows."""
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WINDOW EVERY 20us CLOSE AFTER 600us", SCHEMA)
    live = engine(query, Only(), 40, timed_out=True)
    latencies = costs(live)
    live.process(events(4_000))
    assert (np.array(latencies) > 40).mean() <= 0.046


def test_some_events_run_on_whatever_else_exceeds_the_bound() -> None:
    """Here the cost of many matches is not part of the limit. What is lost must still be represented."""
    query = fc.parse(
        "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID WINDOW EVERY 100us CLOSE AFTER 500us", SCHEMA, name="q"
    )
    table = CostTable("dear matches", visited=1.0, created=1.0, match=3.0)
    live, stream = engine(query, Only(), 12, cost_table=table), events(8_000)
    found, truth = len(live.process(stream)), len(fc.Engine(query).process(stream))
    assert live.metrics()["shedding"]["estimated_recall"] == pytest.approx(found / truth, abs=0.15)


def test_matches_of_one_event_stay_in_order() -> None:
    """Although edges that complete matches are tried first if nothing else reports matches."""
    schema = fc.Schema({"A": {"k": "int64"}}, time="ts", type="type", time_unit="ns")
    live = engine(fc.parse("PATTERN SEQ(A a, A? b) WITHIN 5ns", schema), Only(), 2)
    rows = live.process({"type": ["A", "A"], "ts": [0, 0], "k": [1, 1]}).to_arrow().select(["a", "b"]).to_pylist()
    assert rows == [{"a": 0, "b": None}, {"a": 1, "b": None}, {"a": 0, "b": 1}]


@given(queries, st.integers(1, 9), st.integers(0, 9))
def test_batches_and_snapshots(case: Case, bound: int, cut: int) -> None:
    """The same work is skipped for any batches, and if the engine is restored in between."""
    assume(finds_matches_separately(case.query) and is_planned(case.query))
    whole, live = (engine(case.query, Cutting(3, classes=True), bound, 0.5) for _ in range(2))
    at_once, in_parts = [], []
    for data in harness.batches(case.query.schema, case.events, [max(1, len(case.events))]):
        at_once += whole.process(data).to_arrow().to_pylist()
    for number, data in enumerate(harness.batches(case.query.schema, case.events, case.batch_sizes)):
        if number == cut:
            live = fc.Engine.restore(live.snapshot(), shedder=Cutting(3, classes=True), detector=OfPercentile(0.5))
        in_parts += live.process(data).to_arrow().to_pylist()
    assert repr(in_parts) == repr(at_once), repr(case)
    own, theirs = whole.metrics()["shedding"], live.metrics()["shedding"]
    for name in ("decisions", "passed_over", "dropped_events", "processing_latency", "estimated_recall"):
        assert own[name] == theirs[name], name


@pytest.mark.parametrize("classes", [False, True])
def test_a_partial_match_that_fell_in_one_of_its_indexes(classes: bool) -> None:
    """It is dropped from the index that an event probes; the snapshot still has it in the other index."""
    schema = fc.Schema({"A": {"k": "int64"}}, time="ts", type="type", time_unit="ns")
    query = fc.parse("PATTERN SEQ(A a, A+ b[], A c) WHERE a.k = c.k WITHIN 5ns", schema)
    live = engine(query, Cutting(3, classes=classes), 3, 0.5)
    for ks in [1, 0], [0, 1]:
        live.process({"type": ["A", "A"], "ts": [0, 0], "k": ks})
    moved = fc.Engine.restore(live.snapshot(), shedder=Cutting(3, classes=classes), detector=OfPercentile(0.5))
    moved.process({"type": ["A", "A"], "ts": [0, 0], "k": [0, 1]})
    fc.Engine.restore(moved.snapshot(), shedder=Cutting(3, classes=classes), detector=OfPercentile(0.5))
    what = "whose shedder distinguishes partial matches" if classes else "with a shedder and this one has none"
    with pytest.raises(fc.SnapshotError, match=what):
        fc.Engine.restore(moved.snapshot())


@pytest.mark.thorough
@pytest.mark.parametrize("text", [SEQUENCE, KLEENE])
def test_what_is_cut_off(text: str) -> None:
    """A bound that costs half of the matches: the estimate agrees, an episode has the reason, and costs hold."""
    query = fc.parse(text, SCHEMA, name="q")
    stream = events(20_000)
    truth = found(fc.Engine(query).process(stream))
    live = engine(query, Only(), 12)
    latencies = costs(live)
    got = found(live.process(stream))
    assert_within(got, truth)
    shed = live.metrics()["shedding"]
    assert 0.1 < len(got) / len(truth) < 0.9
    assert shed["estimated_recall"] == pytest.approx(len(got) / len(truth), abs=0.1 if text == SEQUENCE else 0.2)
    assert shed["passed_over"] > 1000 and shed["episodes"] == 1 and "would cost more" in shed["why"]
    over = (np.array(latencies) > 12).mean()
    assert 0.03 < over <= 0.045  # the allowed share runs without a limit


@pytest.mark.parametrize("text", [
    SEQUENCE, KLEENE, "PATTERN SEQ(A a, A b, B c) WHERE a.V + b.V < 4 WITHIN 1ms",
    "PATTERN SEQ(A+ a[], B b, B c) WHERE a[i+1].V > a[i].V AND a[i].V < c.V + 2 WITHIN 800us",
    "PATTERN ANY(2, A a, B b, C c) WITHIN 600us",
])  # fmt: skip
@pytest.mark.parametrize("bound", [8, pytest.param(25, marks=pytest.mark.thorough)])
def test_weights_show_what_is_lost(text: str, bound: int) -> None:
    """Their mean over several seeds is the number of matches without a limit."""
    query, stream, seeds = fc.parse(text, SCHEMA), events(5_000), 16
    truth = len(fc.Engine(query).process(stream))
    weights = []
    for seed in range(seeds):
        shedder = Only()
        shedder.seed = seed
        live = engine(query, shedder, bound)
        assert len(live.process(stream)) < truth
        weights.append(controlled(live).shedding.weighed[1] / truth)
    assert abs(np.mean(weights) - 1) < 3 * np.std(weights) / np.sqrt(seeds) + 0.02, weights


def test_completing_comes_first() -> None:
    """An event that can be the last one, or an earlier one, completes matches up to its limit first."""
    query = fc.parse("PATTERN SEQ(A+ a[], A b) WHERE a[i].ID = b.ID WITHIN 2ms", SCHEMA, name="q")
    live = engine(query, Only(), 2)
    stream = {"type": ["A"] * 3, "ID": [1] * 3, "V": [0] * 3, "ts": [0, 1, 2]}
    assert found(live.process(stream)) == [(None, (0,), 1), (None, (0,), 2), (None, (1,), 2)]
    plan, tried = controlled(live).plan, controlled(live).shedding.tried
    made = {(edge.source < 0, edge.variable): own[:3].tolist() for edge, own in zip(plan.edges, tried, strict=True)}
    assert made == {(True, 0): [2, 2, 1], (False, 0): [0, 0, 3], (False, 1): [3, 3, 0]}


@pytest.mark.thorough
def test_several_queries() -> None:
    """Each query has its part of the bound; an added one is limited, too; a removed one takes its counters along."""
    one, other = (fc.parse(SEQUENCE, SCHEMA, name=name) for name in ("one", "other"))
    live = engine([one], Only(), 12)
    live.process(events(4_000))
    live.add(other)
    latencies = costs(live)
    rest = {name: values[4_000:] for name, values in events(20_000).items()}
    live.process({name: values[:8_000] for name, values in rest.items()})
    assert 0 < (np.array(latencies) > 12).mean() <= 0.053  # earlier events had not used all of the allowed share
    before = live.metrics()["shedding"]["passed_over"]
    live.remove("one")
    assert 0 < live.metrics()["shedding"]["passed_over"] < before
    live.process({name: values[8_000:] for name, values in rest.items()})
    assert live.metrics()["shedding"]["active"]


def test_expected() -> None:
    """A tenth of the visits that create children, and half of those that complete matches, were skipped."""
    live = engine(fc.parse(SEQUENCE, SCHEMA, name="q"), Only(), 1e6)
    plan = controlled(live).plan
    tried = np.zeros((len(plan.edges), 4))
    for number, edge in enumerate(plan.edges):
        tried[number] = (100, 100, 0, 0) if edge.source < 0 else (
            (50, 20, 50, 20) if plan.states[edge.target].accepting else (90, 90, 10, 10)
        )  # fmt: skip
    got, there = expected(plan, tried)
    assert got == 20
    assert there == pytest.approx(20 * 2 / 0.9)


PAIR = "SEQ(A a, B b) WHERE a.ID = b.ID"


@pytest.mark.parametrize(
    ("text", "statistic"),
    [
        (f"{PAIR} WITHIN 2ms", "mean"), (f"{PAIR} WITHIN 2ms SELECT first", "p95"),
        (f"{PAIR} WITHIN 2ms CONSUME consumed", "p95"), (f"{PAIR} WITHIN 2ms STRATEGY skip_till_next", "p95"),
        (f"{PAIR} WITHIN 2ms AFTER MATCH SKIP TO NEXT", "p95"),
        (f"{PAIR} WINDOW OPEN ON C o CLOSE AFTER 2ms LIMIT 1 PER WINDOW", "p95"),
        ("SEQ(A a, B b, NEG C n) WHERE a.ID = b.ID WITHIN 2ms", "p95"),
    ],
)  # fmt: skip
def test_only_for_percentiles_and_if_each_match_is_found_separately(text: str, statistic: Any) -> None:
    """With another bound or query there is no limit, and nothing is passed over."""
    query = fc.parse(f"PATTERN {text}", SCHEMA, name="q")
    own = {"clock": "virtual", "cost_table": "paper", "latency_bound": 12, "shedder": Only()}
    live = quiet(fc.Engine, query, detector=SmoothedLatency(statistic), **own)
    live.process(events(4_000))
    assert live.metrics()["shedding"]["passed_over"] == 0
    assert SmoothedLatency("p99").allowed == 0.01 and SmoothedLatency().allowed == 0


@pytest.mark.parametrize("pattern", [
    "SEQ(A a, NEG C n, B b) WHERE a.ID = b.ID AND n.V = 2 AND n.ID = a.ID",
    "SEQ(NEG C n, A a, B b) WHERE a.ID = b.ID AND n.V = 2 AND n.ID = a.ID",
    "SEQ(A+ a[] UNTIL C n, B b) WHERE a[i].ID = b.ID AND a[i+1].V > a[i].V",
])  # fmt: skip
def test_negated_events_are_stored_whatever_they_cost(pattern: str) -> None:
    """Every match is true, in order, and the estimated recall is right."""
    query, stream, errors = fc.parse(f"PATTERN {pattern} WITHIN 1ms", SCHEMA, name="q"), events(4_000), []
    truth = found_with_end(fc.Engine(query), stream)
    for seed in range(4):
        shedder = Only()
        shedder.seed = seed
        live = engine(query, shedder, 9)
        latencies = costs(live)
        got = found_with_end(live, stream)
        assert_within(got, truth)
        assert 0.2 * len(truth) < len(got) < len(truth)
        assert live.metrics()["shedding"]["passed_over"] > 100
        assert (np.array(latencies) > 9).mean() <= 0.046
        assert live.metrics()["shedding"]["processing_latency"]["mean_while_shedding"] > 0  # without a demand
        estimate = live.metrics()["shedding"]["estimated_recall"]
        errors.append(estimate - len(got) / len(truth))
    assert abs(np.mean(errors)) < 0.1


def test_matches_that_a_negation_seldom_rules_out_come_first() -> None:
    """An A is followed by a C after a few events, so only the youngest partial matches lead to matches."""
    text = "PATTERN SEQ(A a, NEG C n, B b) WHERE a.ID = b.ID AND n.ID = a.ID AND a.V <= b.V WITHIN 2ms"
    query, stream = fc.parse(text, SCHEMA, name="q"), events(4_000)
    live, truth = engine(query, Only(), 8), len(fc.Engine(query).process(stream))
    assert len(live.process(stream)) > 0.99 * truth
    assert live.metrics()["shedding"]["passed_over"] > 1_000


def found_with_end(live: fc.Engine, stream: Any) -> list[tuple[Any, ...]]:
    """Return the events of each match, also of those that the end of the stream decides."""
    return [*found(live.process(stream)), *found(live.flush())]


def test_auto_limits_events_from_the_start() -> None:
    """``auto`` knows only when the engine begins whether it may limit them, and a snapshot continues the limit."""
    live = engine(fc.parse(KLEENE, SCHEMA, name="q"), "auto", 300.0)
    live.process(events(400))
    passed_over = live.metrics()["shedding"]["passed_over"]
    assert passed_over > 0
    restored = fc.Engine.restore(live.snapshot(), shedder=fc.shedding.by_name("auto"), detector=OfPercentile(0.0))
    assert restored.metrics()["shedding"]["passed_over"] == passed_over


def test_in_a_burst_those_run_on_that_would_lose_most() -> None:
    """Earlier events left a part of what the burst needs, and it stays available through several decisions."""
    burst, number = 1_200, 9_200
    place = np.arange(4 * number) % number
    dear = place < burst  # each second one completes matches, of two keys in turn; one of them is rarely begun
    rare, completes = place // 2 % 5 == 0, place % 2 == 1
    key = np.where(dear, np.where(completes, 1 + place // 2 % 2, np.where(rare, 2, 1)), 100 + np.arange(4 * number))
    table = {
        "type": np.where(dear & completes, "C", np.where(completes, "B", "A")), "ID": key,
        "V": np.zeros(4 * number, np.int64), "ts": np.arange(4 * number) * 20,
    }  # fmt: skip
    query = fc.parse("PATTERN SEQ(A a, C c) WHERE a.ID = c.ID WITHIN 1200us", SCHEMA)
    live = engine(query, Only(), 3.0)
    latencies = costs(live)
    live.process(table)
    over = np.array(latencies) > 3
    assert 0.03 < over.mean() <= 0.05
    ran_on = key[: len(over)][over][over[:number].sum() :]  # without the first period
    assert (ran_on == 2).sum() < 0.7 * (ran_on == 1).sum()


class QueryLike(SimpleNamespace):
    """Query with the attributes that a work limit reads."""

    __hash__ = object.__hash__


class Limited:
    """A work limit of some queries, with events above the bound that ran on or could not be stopped."""

    def __init__(self, drop_plan: DropPlan | None = None, queries: int = 1) -> None:
        plan = make_plan(fc.parse("PATTERN SEQ(A a, C c) WITHIN 1us", SCHEMA), store="rows")
        shedding = SimpleNamespace(
            tried=np.zeros((2, 4)), reached=(0, 0, [0.0] * 33), cut_off=lambda *_: None, weighed=(0, 0.0, 0.0)
        )
        self.query: Any = QueryLike(
            plan=plan, shedding=shedding, weigh_always=lambda _: None, drop_plan=drop_plan or DropPlan(),
            matcher=SimpleNamespace(matches=1_000), received=0, window_size=1_000.0,
        )  # fmt: skip
        self.queries = [self.query] + [
            QueryLike(**vars(self.query) | {"shedding": SimpleNamespace(**vars(shedding))})
            for _ in range(queries - 1)
        ]
        self.limit = WorkLimit(3.0, [OfPercentile(0.0)])
        self.limit.use(self.queries, True)
        self.limit.update(self.queries, 100, 1.0)  # does not count: these events came in part before the limit

    def unlimited(self, events: int, ran_on: float, unstoppable: float = 0.0) -> float:
        """Return the share that may run on from now on."""
        before = self.query.shedding.reached
        self.query.shedding.reached = before[0] + round(events * ran_on), *before[1:]
        self.limit.update(self.queries, events, ran_on + unstoppable)
        return float(self.limit.state()["unlimited"])

    def find(self, made: int, weight: float, events: int = 1_000) -> None:
        """Find matches with these weights; 10 of 100 visits are skipped."""
        shedding = self.query.shedding
        begins = next(number for number, edge in enumerate(self.query.plan.edges) if edge.source < 0)
        shedding.tried = shedding.tried.copy()
        shedding.tried[begins] += (100, 100, 0, 0)
        shedding.tried[1 - begins] += (90, 40, 10, 4)
        shedding.weighed = (shedding.weighed[0] + made, shedding.weighed[1] + weight, 0.0)
        self.query.received += events
        assert self.limit.update(self.queries, events, 0.0)


@pytest.mark.parametrize(
    ("made", "weight", "plan", "lost"),
    [
        (0, 0.0, DropPlan(), 1 / 11),  # 4 of 44 children, as nothing was weighed
        (40, 41.0, DropPlan(), 1 / 11),  # no event that ran on has found much yet
        (40, 80.0, DropPlan(), 0.5), (80, 160.0, DropPlan(), 0.5),
        (40, 80.0, DropPlan(kept=0.625), 0.2),  # some of it is lost by the drop plan,
        (40, 80.0, DropPlan(kept=0.625, error=0.5), 1 / 11),  # perhaps all of it
        (40, 80.0, DropPlan(events=np.array([0.1, 0.0, 0.0])), 1 / 11),  # nobody knows how much
    ],
)  # fmt: skip
def test_the_larger_of_two_estimates_of_the_loss_counts(made: int, weight: float, plan: DropPlan, lost: float) -> None:
    one, again, older, unlimited = (Limited(plan) for _ in range(4))
    one.find(made, weight)
    assert one.limit.share == pytest.approx(lost)
    state = json.loads(json.dumps(one.limit.state()))
    for other in (again, older, unlimited):
        other.query.shedding.tried, other.query.shedding.weighed = one.query.shedding.tried, one.query.shedding.weighed
        other.query.received = one.query.received
        other.limit.use(other.queries, True)
    again.limit.restore(state, again.queries)
    older.limit.restore({name: value for name, value in state.items() if name != "weighed"}, older.queries)
    # An older version did not limit the work for queries with negation.
    unlimited.limit.restore(state | {"before": [], "lately": [], "ran_on": []}, unlimited.queries)
    for other in (one, again, older, unlimited):
        other.find(made, weight)
    assert one.limit.share == again.limit.share == pytest.approx(lost)
    assert older.limit.share == pytest.approx(lost) and unlimited.limit.share == pytest.approx(lost)


def test_what_a_drop_plan_loses_is_not_due_to_the_limit() -> None:
    """Matches that end up to a window after it owe some of their weight to it."""
    limited = Limited(DropPlan(kept=0.25))
    for _ in range(3):
        limited.find(40, 160.0)
        assert limited.limit.share == pytest.approx(1 / 11)
    limited.query.drop_plan = DropPlan()
    limited.find(40, 160.0, events=500)
    assert limited.limit.share == pytest.approx(1 / 11)
    for _ in range(3):
        limited.find(40, 40.0)
        assert limited.limit.share == pytest.approx(1 / 11)


def test_a_burst_that_used_too_much_is_made_up_for() -> None:
    """As long as the mean share above the bound is too large."""
    one, again = Limited(), Limited()
    assert one.unlimited(20_000, 0.0) == one.unlimited(500, 0.3) == one.unlimited(500, 0.3) == pytest.approx(0.045)
    least = one.unlimited(20_000, 0.3)
    assert least == pytest.approx(0.005) and one.unlimited(1_000, 0.0) == least
    again.query.shedding.reached = one.query.shedding.reached
    again.limit.restore(json.loads(json.dumps(one.limit.state())), again.queries)
    assert one.unlimited(100_000, 0.0) == pytest.approx(0.045) and again.unlimited(1_000, 0.0) == least
    assert again.limit.state()["unstoppable"] == 0.0


def test_what_cannot_be_stopped_is_reserved() -> None:
    """A burst of such events needs its share again, also long after the last one."""
    limited = Limited()
    assert limited.unlimited(40_000, 0.0, 0.03) == pytest.approx(0.018, abs=1e-3)
    assert 0.018 < limited.unlimited(80_000, 0.0) < 0.025
    assert limited.unlimited(4_000_000, 0.0) == pytest.approx(0.045)


def test_the_first_events_do_not_count_for_much() -> None:
    """One that is interrupted is above the bound, but shows nothing of the share that is."""
    limited = Limited()
    limited.unlimited(32, 0.0, 1.0)
    assert limited.unlimited(10_000, 0.0) > 0.044
    for _ in range(400):  # the share above the bound may be that of a sample of the events
        limited.unlimited(100, 0.02, -0.02)
        limited.unlimited(100, 0.02, 0.02)
    assert limited.limit.state()["reserved"] < 0.002


def test_late_events_of_another_shedder_do_not_count() -> None:
    live = engine(fc.parse(SEQUENCE, SCHEMA, name="q"), Quiet(), 60.0)
    live.process(events(6_000))
    live.set_shedder(Only())
    live.process({name: column[6_000:] for name, column in events(12_000).items()})
    state = live._stream.queries.control.state()["cut"]
    assert state["events"] > 5_000 and state["reserved"] == 0


def test_a_snapshot_while_nothing_is_limited() -> None:
    """One query cannot be limited, so none is. Older snapshots lack the number of events that ran on."""
    live = engine(fc.parse(SEQUENCE, SCHEMA, name="q"), Only(), 60.0)
    live.process(events(1_000))
    older = live._stream.queries.control.state()
    for query in older["queries"]:
        query["cut"] = query["cut"][:6]
    for name in ("reaching", "suspended", "demand"):
        del older["cut"][name]
    live._stream.queries.control.restore(older)
    live.add(fc.parse("PATTERN SEQ(A a, C c) WITHIN 2ms SELECT first", SCHEMA, name="other"))
    restored = fc.Engine.restore(live.snapshot(), shedder=Only(), detector=OfPercentile(0.0))
    assert restored.metrics()["shedding"]["passed_over"] == live.metrics()["shedding"]["passed_over"]


def test_an_older_snapshot_of_a_query_with_negation() -> None:
    """The version that took it did not limit the work for such queries."""
    query = fc.parse("PATTERN SEQ(A a, NEG C n, B b) WHERE a.ID = b.ID AND n.V = 2 WITHIN 2ms", SCHEMA, name="q")
    stream = events(8_000)
    live = fc.Engine(
        query, clock="virtual", cost_table="paper", latency_bound=8, shedder=Quiet(), detector=OfPercentile(0.0)
    )
    live.process({name: values[:4_000] for name, values in stream.items()})
    older = live._stream.queries.control.state()
    older["cut"] = {"quiet": 1000, "share": 0.0, "unlimited": 0.045, "part": 1.0, "before": [], "lately": []}
    limited = engine(query, Only(), 8)
    limited.process({name: values[:4_000] for name, values in stream.items()})
    control = limited._stream.queries.control
    control.restore(older | {"learned": control.state()["learned"]})
    before = limited.metrics()["shedding"]["passed_over"]
    limited.process({name: values[4_000:] for name, values in stream.items()})
    assert limited.metrics()["shedding"]["passed_over"] > before
    assert controlled(limited).weighs


def test_nothing_is_reserved_while_queries_exceed_the_bound_together() -> None:
    """Each query may use more than an equal part of the bound, until too many events are above it."""
    limited = Limited(queries=2)
    limited.unlimited(100_000, 0.0)
    limited.unlimited(1_000, 0.0, 0.04)
    state = limited.limit.state()
    assert state["part"] > 0.5 and state["reserved"] == 0.0 < state["over"]
    limited.unlimited(20_000, 0.0, 0.2)
    limited.unlimited(1_000, 0.0, 0.2)
    state = limited.limit.state()
    assert state["part"] == 0.5 and state["reserved"] > 0.0


@pytest.mark.parametrize("share", [0.05, 0.01])
def test_a_burst_uses_what_the_events_before_it_did_not(share: float) -> None:
    """Without it, only as many as fit into a short stretch would run on, however cheap the others are."""
    burst, rest = round(share * 8_000), 8_000
    number = burst + rest
    place = np.arange(5 * number) % number
    dear = place < burst  # each finds the partial matches of its window; the others are of another key
    table = {
        "type": np.where(dear & (place % 2 == 1), "C", np.where(place % 2 == 0, "A", "B")),
        "ID": np.where(dear, 1, 100 + np.arange(5 * number)), "V": np.zeros(5 * number, np.int64),
        "ts": np.arange(5 * number) * 20,
    }  # fmt: skip
    query = fc.parse("PATTERN SEQ(A a, C c) WHERE a.ID = c.ID WITHIN 400us", SCHEMA)

    class Percentile(OfPercentile):
        allowed = share

    live = fc.Engine(query, latency_bound=3, shedder=Only(), detector=Percentile(0.0), clock="virtual",
                     cost_table="paper")  # fmt: skip
    latencies = costs(live)
    live.process(table)
    over = np.array(latencies) > 3
    assert over.mean() <= share
    expensive = dear[: len(over)] & (place % 2 == 1)
    assert over[number:].sum() > 0.9 * expensive[number:].sum()
