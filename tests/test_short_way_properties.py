"""On random queries, streams and inputs the short way reports what the long way does: matches, order, counters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import harness
import pyarrow as pa
import strategies
from harness import Data
from hypothesis import given
from hypothesis import strategies as st
from naive import Event
from policy_strategies import policy_cases
from strategies import Case
from ways import ALWAYS, SAME, counters, engine, go, joined

import fastcep as fc
from fastcep.query import ast


def form(data: Data, number: int) -> Any:
    """A batch as one of the inputs that go the short way, and some that do not."""
    table = pa.table(data)
    batch = table.to_batches()[0]
    numpy = {
        name: values.to_numpy() if values.type in (pa.int64(), pa.float64()) and not values.null_count else values
        for name, values in data.items()
    }
    listed = {name: values.to_pylist() if values.type == pa.string() else values for name, values in data.items()}
    coded = {
        name: values.dictionary_encode() if values.type == pa.string() else values for name, values in data.items()
    }
    again = pa.concat_tables([table, table]).combine_chunks().to_batches()[0].slice(len(table))
    chunks = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    return (batch, data, numpy, table, pa.record_batch(coded), coded, again, listed, chunks)[number % 9]


def sends(schema: fc.Schema, events: Sequence[Event]) -> list[Callable[[fc.Engine], fc.Matches]]:
    return [partial(harness.send, schema=schema, event=event) for event in events]


def check(queries: Sequence[ast.Query], case: Case, numbers: Sequence[int]) -> None:
    """All ways give the same."""
    schema = queries[0].schema
    data = [batch for batch in harness.batches(schema, case.events, case.batch_sizes) if len(batch[str(schema.time)])]
    process = fc.Engine.process
    long, told = go(engine(queries, short=False), [partial(process, data=batch) for batch in data])
    shaped = [form(batch, numbers[at % len(numbers)]) for at, batch in enumerate(data)]
    short, by_batch = go(engine(queries), [partial(process, data=batch) for batch in shaped])
    assert short == long
    assert counters(by_batch, SAME) == counters(told, SAME)
    sent, by_send = go(engine(queries), sends(schema, case.events))
    slow, by_slow = go(engine(queries, short=False), sends(schema, case.events))
    assert sent == slow
    assert counters(by_send, SAME) == counters(by_slow, SAME)
    assert joined(sent) == joined(long)
    assert counters(by_send, ALWAYS) == counters(told, ALWAYS)


numbers = st.lists(st.integers(0, 8), min_size=1, max_size=6)


@given(strategies.cases(), numbers)
def test_any_query(case: Case, numbers: list[int]) -> None:
    check([case.query], case, numbers)


@given(policy_cases(), numbers)
def test_policies_and_windows(case: Case, numbers: list[int]) -> None:
    check([case.query], case, numbers)


@given(st.data(), numbers)
def test_several_queries(data: st.DataObject, numbers: list[int]) -> None:
    case = data.draw(strategies.cases())
    others = data.draw(st.lists(strategies.queries(case.query.schema), min_size=1, max_size=2))
    named = [dataclasses.replace(query, name=f"q{at}") for at, query in enumerate([case.query, *others])]
    check(named, case, numbers)
