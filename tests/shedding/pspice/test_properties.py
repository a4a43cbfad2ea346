"""Any query with a model of pSPICE: no false match at any demand, and the same drops for any batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from matrix.refusals import OF_MODELS, refusal_of
from strategies import queries as strategies
from strategies.queries import Case
from strategies.whole_cases import is_planned, query_cases
from support import harness
from support.state_transfer import quiet

import fastcep as fc
from fastcep.errors import ValidationError
from fastcep.evaluation.constant import ConstantDemand, SameDemand
from fastcep.query.patterns import pattern_variables
from fastcep.shedding import Model


def repeated(case: Case) -> Case:
    """Return the same query over a short stream twice, so that more is shed."""
    if not 0 < len(case.events) <= 8 or any(variable.repeated for variable in pattern_variables(case.query.pattern)):
        return case
    first, last = case.events[0], case.events[-1]
    span, count = last.time - first.time + 1, last.seq - first.seq + 1
    events = [
        replace(one, time=one.time + turn * span, seq=one.seq + turn * count)
        for turn in range(2) for one in case.events
    ]  # fmt: skip
    return replace(case, events=events)


queries = st.one_of(strategies.cases(), query_cases("stores"), query_cases()).map(repeated)

pytestmark = pytest.mark.usefixtures("decide_often")


def model_of(case: Case) -> Model:
    """Fit a model on the stream itself; skip queries that are refused by name."""
    assume(is_planned(case.query))
    try:
        model: Model = quiet(
            fc.fit, case.query, harness.batch(case.query.schema, case.events), kind="pspice", cost_table="paper"
        )
    except ValidationError as error:
        assert refusal_of(str(error), OF_MODELS) is not None, error
        event("refused")
        assume(False)
    return model


def engine(case: Case, model: Model, name: str, demand: float) -> fc.Engine:
    shedder = ConstantDemand(fc.shedding.by_name(name, model=model, slices=3), demand)
    live: fc.Engine = quiet(
        fc.Engine, case.query, clock="virtual", cost_table="paper", latency_bound=1e9, shedder=shedder,
        detector=SameDemand(demand),
    )  # fmt: skip
    return live


def process(live: fc.Engine, case: Case, sizes: list[int]) -> pa.Table:
    found = [live.process(data).to_arrow() for data in harness.batches(case.query.schema, case.events, sizes)]
    for query in live._stream.queries.control.queries:
        assert query.shedding.count_rows(3).sum() == query.matcher.live - query.matcher.waiting
    return pa.concat_tables([*found, live.flush().to_arrow()])


filtered = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


@filtered
@given(queries, st.sampled_from(["pspice", "pspice--"]), st.sampled_from([0.0, 0.3, 0.7, 0.999]))
def test_precision(case: Case, name: str, demand: float) -> None:
    """Every match of a monotonic query is also found without shedding; without a demand, all are."""
    model = model_of(case)
    table = process(engine(case, model, name, demand), case, case.batch_sizes)
    rows = harness.table_rows(case.query, table)
    if demand == 0:
        harness.assert_same(case.query, case.events, rows, "without a demand")
        return
    negated = any(variable.negated for variable in pattern_variables(case.query.pattern))
    truth = harness.rows(case.query, None, case.events)
    event(f"{'all' if len(rows) == len(truth) else 'fewer'} matches")
    if case.query.strategy == "skip_till_any" and not negated and "ANY" not in repr(harness.describe(case.query, ())):
        rest: Any = iter([repr(row) for row in truth])
        assert all(repr(row) in rest for row in rows), f"{case!r}\n{rows}\n{truth}"


@filtered
@given(queries, st.sampled_from([0.3, 0.7]), st.integers(0, 9))
def test_batches_and_snapshots(case: Case, demand: float, cut: int) -> None:
    model = model_of(case)
    whole = process(engine(case, model, "pspice", demand), case, [max(1, len(case.events))])
    live, found = engine(case, model, "pspice", demand), []
    for number, data in enumerate(harness.batches(case.query.schema, case.events, case.batch_sizes)):
        if number == cut:
            other = engine(case, model, "pspice", demand)._stream.queries.control
            live = fc.Engine.restore(live.snapshot(), shedder=other.shedder, detector=other._demand.detectors[0])
        found.append(live.process(data).to_arrow())
    found.append(live.flush().to_arrow())
    assert repr(pa.concat_tables(found).to_pylist()) == repr(whole.to_pylist()), repr(case)
