"""On random queries, streams and inputs the fast path reports the same as the slow path: matches, order, counters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from matrix.forms import formed
from matrix.runs import FORMS
from reference.matcher import Event
from strategies import queries as strategies
from strategies.queries import Case
from strategies.whole_cases import query_cases
from support import harness
from support.fast_and_slow import ALWAYS, SAME, counters, engine, joined, run_calls

import fastcep as fc
from fastcep.query import ast


def sends(schema: fc.Schema, events: Sequence[Event]) -> list[Callable[[fc.Engine], fc.Matches]]:
    return [partial(harness.send, schema=schema, event=event) for event in events]


def check(queries: Sequence[ast.Query], case: Case, forms: Sequence[str]) -> None:
    """All ways give the same."""
    schema = queries[0].schema
    data = [batch for batch in harness.batches(schema, case.events, case.batch_sizes) if len(batch[str(schema.time)])]
    process = fc.Engine.process
    slow, metrics = run_calls(engine(queries, fast=False), [partial(process, data=batch) for batch in data])
    shaped = [formed(batch, forms[at % len(forms)]) for at, batch in enumerate(data)]
    fast, by_batch = run_calls(engine(queries), [partial(process, data=batch) for batch in shaped])
    assert fast == slow
    assert counters(by_batch, SAME) == counters(metrics, SAME)
    sent, by_send = run_calls(engine(queries), sends(schema, case.events))
    slow_sent, by_slow_send = run_calls(engine(queries, fast=False), sends(schema, case.events))
    assert sent == slow_sent
    assert counters(by_send, SAME) == counters(by_slow_send, SAME)
    assert joined(sent) == joined(slow)
    assert counters(by_send, ALWAYS) == counters(metrics, ALWAYS)


forms = st.lists(st.sampled_from([form for form in FORMS if form != "send"]), min_size=1, max_size=6)


@given(strategies.cases(), forms)
def test_any_query(case: Case, forms: list[str]) -> None:
    check([case.query], case, forms)


@given(query_cases(), forms)
def test_policies_and_windows(case: Case, forms: list[str]) -> None:
    check([case.query], case, forms)


@given(st.data(), forms)
def test_several_queries(data: st.DataObject, forms: list[str]) -> None:
    case = data.draw(strategies.cases())
    others = data.draw(st.lists(strategies.queries(case.query.schema), min_size=1, max_size=2))
    named = [dataclasses.replace(query, name=f"q{at}") for at, query in enumerate([case.query, *others])]
    check(named, case, forms)
