"""On random queries, streams and inputs the short way reports what the long way does: matches, order, counters."""

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
from support.fast_and_slow import ALWAYS, SAME, counters, engine, go, joined

import fastcep as fc
from fastcep.query import ast


def sends(schema: fc.Schema, events: Sequence[Event]) -> list[Callable[[fc.Engine], fc.Matches]]:
    return [partial(harness.send, schema=schema, event=event) for event in events]


def check(queries: Sequence[ast.Query], case: Case, forms: Sequence[str]) -> None:
    """All ways give the same."""
    schema = queries[0].schema
    data = [batch for batch in harness.batches(schema, case.events, case.batch_sizes) if len(batch[str(schema.time)])]
    process = fc.Engine.process
    long, told = go(engine(queries, short=False), [partial(process, data=batch) for batch in data])
    shaped = [formed(batch, forms[at % len(forms)]) for at, batch in enumerate(data)]
    short, by_batch = go(engine(queries), [partial(process, data=batch) for batch in shaped])
    assert short == long
    assert counters(by_batch, SAME) == counters(told, SAME)
    sent, by_send = go(engine(queries), sends(schema, case.events))
    slow, by_slow = go(engine(queries, short=False), sends(schema, case.events))
    assert sent == slow
    assert counters(by_send, SAME) == counters(by_slow, SAME)
    assert joined(sent) == joined(long)
    assert counters(by_send, ALWAYS) == counters(told, ALWAYS)


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
