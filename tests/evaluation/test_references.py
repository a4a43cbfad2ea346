"""The references: no strategy finds more than the oracle at equal cost, and informed beats fitted shedders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.shedding.shed_runs import BASELINES, Q1, SCHEMA, query

import fastcep as fc
from fastcep.datasets import ds1, ds2
from fastcep.evaluation.generators import generator_of
from fastcep.evaluation.informed import Informed
from fastcep.evaluation.oracle import Oracle

pytestmark = pytest.mark.thorough

PAPERS = Path(__file__).parents[2] / "examples" / "papers"
EVENTS = 20_000


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return ds1(events=EVENTS, seed=5)


def rows(report: Any, name: str) -> list[dict[str, Any]]:
    return [row for row in report.rows if row["shedder"] == name]


class RecordingOracle(Oracle):
    """Oracle that keeps the trial for the test."""

    name = "oracle"

    def outcome(self, trial: Any, target: Any, seed: int) -> Any:
        self.trial = trial
        return super().outcome(trial, target, seed)


CASES = [
    ("q1", "paper", "key"), ("q1", "measured", "full"), ("q1", "paper", "full"),
    ("hybrid_q2", "paper", "key"), ("hybrid_q3", "paper", "key"), ("hybrid_q3", "measured", "full"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "table", "index"), CASES)
def test_no_strategy_finds_more_at_equal_cost(name: str, table: str, index: str) -> None:
    the_query = query() if name == "q1" else fc.parse_file(PAPERS / f"{name}.cep").queries[0]
    stream = ds2(events=EVENTS, seed=5) if name == "hybrid_q3" else ds1(events=EVENTS, seed=5)
    oracle = RecordingOracle()
    report = fc.evaluate(
        the_query, stream, shedders=[*BASELINES[:6], "informed", oracle], bounds=["80%", "60%", "45%"],
        cost_table=table, index=index,
    )  # fmt: skip
    hindsight, truth = oracle.hindsight(oracle.trial), report.document["truth"]["matches"]
    for row in report.rows:
        cost = EVENTS / row["throughput"] * 1e9 * (1 - row["overhead"])
        recall = row["recall"] if row["recall"] is not None else 0.0
        assert truth < 1000 or recall <= hindsight.recall_at(cost) + 0.01, row
        assert row["precision"] in (1.0, None)
    assert all(row["held"] for row in rows(report, "oracle"))


def test_the_costs_of_the_oracle_are_exact(events: pa.Table) -> None:
    """At the lowest cost without loss, the cost equals the prediction; a slightly lower cost loses matches."""
    oracle = RecordingOracle()
    fc.evaluate(query(), events, shedders=[oracle], bounds=["50%"], cost_table="paper", index="key")
    hindsight = oracle.hindsight(oracle.trial)
    free = float(hindsight.totals[0]) / 1000
    assert hindsight.clairvoyant.costs(hindsight.kept(0)).sum() / 1000 == free
    assert hindsight.recall_at(free) == 1 and hindsight.recall_at(0.99 * free) < 1 and hindsight.recall_at(0) == 0


@pytest.mark.parametrize("mode", [{"rates": ["120%", "200%"], "latency_bound": "20us"}, {"demands": ["30%", "80%"]}])
def test_the_oracle_at_rates_and_demands(events: pa.Table, mode: dict[str, Any]) -> None:
    report = fc.evaluate(query(), events, shedders=["ri", "oracle"], cost_table="paper", index="key", **mode)
    for row, other in zip(rows(report, "oracle"), rows(report, "ri"), strict=True):
        assert row["counts"] and row["recall"] > other["recall"] and row["overhead"] == 0
        assert row["held"] in (True, None)


def test_the_oracle_drops_more_where_the_queue_is() -> None:
    """Four fifths of the stream are sparse and lose nothing: drops are needed only in the dense fifth."""
    plain = ds1(events=EVENTS, seed=5)
    gaps = np.diff(plain["ts"].to_numpy(), prepend=0) * np.where(np.arange(EVENTS) % 5_000 < 4_000, 4, 1)
    stream = plain.set_column(3, "ts", pa.array(np.cumsum(gaps)))
    oracle = RecordingOracle()
    report = fc.evaluate(
        query(Q1.replace("2ms", "6ms")), stream, shedders=["ri", "ss", oracle], rates=["400%"], latency_bound="200us",
        cost_table=fc.CostTable("paper, in us", visited=1000, created=1000), index="key",
    )  # fmt: skip
    (row,) = rows(report, "oracle")
    hindsight = oracle.hindsight(oracle.trial)
    assert row["held"] and row["recall"] > max(other["recall"] for other in report.rows[:2])
    everywhere = hindsight.recall_at(EVENTS / row["throughput"] * 1e9)  # with the same work
    assert row["recall"] <= everywhere + 0.01
    assert row["recall"] > _even(oracle.trial, hindsight)


def _even(trial: Any, hindsight: Any) -> float:
    """Return the recall if the same step holds the bound in all parts of the stream."""
    from fastcep.evaluation import oracle as module

    (target,) = trial.targets
    for step in range(0, len(hindsight.totals), 10):
        run = module._Run.of(trial, target, hindsight, hindsight.kept(step))
        if module._reached(trial, target, run):
            return float(hindsight.left[step] / hindsight.left[0])
    raise AssertionError


@pytest.mark.parametrize("strategy", ["skip_till_any", "skip_till_next"])
def test_no_strategy_finds_more_in_windows_that_overlap(strategy: str) -> None:
    text = (
        "PATTERN SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V WINDOW OPEN EVERY 50 EVENTS CLOSE AFTER 200 EVENTS "
        f"STRATEGY {strategy}"
    )
    history, stream, oracle = ds1(events=EVENTS, seed=6), ds1(events=EVENTS, seed=5), RecordingOracle()
    the_query = query(text)
    report = fc.evaluate(
        the_query, stream, shedders=["pm-bl", "rs", "pspice", oracle], bounds=["80%", "60%", "45%"], history=history,
        cost_table="paper",
    )  # fmt: skip
    hindsight, truth = oracle.hindsight(oracle.trial), report.document["truth"]["matches"]
    assert hindsight.matched.max() > 1 and hindsight.matched.sum() == truth > 1_000
    for row in report.rows:
        cost = EVENTS / row["throughput"] * 1e9 * (1 - row["overhead"])
        assert row["recall"] <= hindsight.recall_at(cost) + 0.01, row
    assert all(row["held"] for row in rows(report, "oracle"))
    assert min(row["recall"] for row in rows(report, "oracle")) > 0.5


def test_by_percentile(events: pa.Table) -> None:
    report = fc.evaluate(
        query(), events, shedders=["rs", "oracle"], bounds=["40%"], statistic="p95", cost_table="paper", index="key"
    )
    (row,) = rows(report, "oracle")
    assert row["p95_latency"] <= row["bound"] and row["recall"] > rows(report, "rs")[0]["recall"]


def test_what_the_oracle_is_not_for(events: pa.Table) -> None:
    options: dict[str, Any] = {"shedders": ["oracle"], "bounds": ["50%"], "cost_table": "paper"}
    with pytest.raises(fc.ValidationError, match="'oracle' supports only one query"):
        fc.evaluate([query(), query(Q1, "other")], events, **options)
    negation = query("PATTERN SEQ(A a, NEG B b, C c) WHERE [ID] WITHIN 1ms")
    with pytest.raises(fc.ValidationError, match="changes no other partial match"):
        fc.evaluate(negation, events, **options)
    with pytest.raises(fc.ValidationError, match="clock='virtual'"):
        fc.evaluate(query(), events, **options, clock="wall")


# ----------------------------------------------------------------------------------------------------------- informed


def test_informed_at_demands(events: pa.Table) -> None:
    """Event classes also work with a constant demand."""
    report = fc.evaluate(
        query(), events, shedders=["rs", "informed"], demands=["30%", "80%"], cost_table="paper", index="key"
    )
    for row, other in zip(rows(report, "informed"), rows(report, "rs"), strict=True):
        assert row["recall"] > other["recall"] and row["shed_events"] > 0


def test_informed_loses_nothing_as_long_as_it_need_not(events: pa.Table) -> None:
    """Half of the work is for partial matches whose values cannot lead to a match."""
    report = fc.evaluate(
        query(), events, shedders=["ss", "informed"], bounds=["80%", "60%", "55%", "30%"], cost_table="paper",
        index="key", skip=0.1,
    )  # fmt: skip
    recalls = [row["recall"] for row in rows(report, "informed")]
    assert min(recalls[:3]) > 0.99 and recalls[3] > 0.65
    assert all(row["held"] for row in rows(report, "informed"))
    assert all(a > b["recall"] + 0.1 for a, b in zip(recalls, rows(report, "ss"), strict=True))
    estimates = [row["estimated_recall"] for row in rows(report, "informed")]
    assert estimates == pytest.approx(recalls, abs=0.08)


def test_informed_never_sees_the_events(events: pa.Table) -> None:
    """Its models are the same for another stream of the same generator."""
    factories = [Informed().prepare((query(),), _stream(ds1(EVENTS, seed)), _setting()) for seed in (1, 2)]
    first, second = (factory.args[0][0].parts for factory in factories)
    assert first == second and first["children"].num_rows > 100


def _stream(table: pa.Table) -> Any:
    from fastcep.evaluation.stream import Stream

    return Stream.of(table, SCHEMA)


def _setting() -> Any:
    from fastcep.evaluation.setting import Setting

    return Setting("bounds", costs=fc.CostTable.named("paper"), index="key")


def test_generators_are_recognised_by_columns_and_values() -> None:
    assert generator_of(ds1(2000, 3), SCHEMA).c_values == (1, 10)
    assert generator_of(ds1(2000, 3, c_values=(2, 6)), SCHEMA).c_values == (2, 6)
    other = ds1(2000, 3)
    wrong = other.set_column(2, "V", pa.array(np.arange(2000)))
    with pytest.raises(fc.ValidationError, match="'V' ranges from 1 to 10"):
        generator_of(wrong, SCHEMA)
    with pytest.raises(fc.ValidationError, match="knows the generators ds1"):
        generator_of(other.rename_columns(["type", "ID", "W", "ts"]), SCHEMA)


def test_informed_is_for_windows_of_time_or_events(events: pa.Table) -> None:
    explicit = query("PATTERN SEQ(A a, B b) WHERE [ID] WINDOW EVERY 100 EVENTS CLOSE AFTER 200 EVENTS")
    with pytest.raises(fc.ValidationError, match="WITHIN a time or number"):
        fc.evaluate(explicit, events, shedders=["informed"], bounds=["50%"])


def test_informed_and_its_rows_are_the_same_again(events: pa.Table) -> None:
    documents = [
        fc.evaluate(
            query(), events, shedders=["informed", "oracle"], bounds=["40%"], cost_table="paper", index="key"
        ).to_json()
        for _ in range(2)
    ]  # fmt: skip
    assert documents[0] == documents[1]
