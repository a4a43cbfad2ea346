"""By whatever equalities rows are found: the matches, their order and what times out are the same."""

from __future__ import annotations

import harness
import pyarrow as pa
import store_strategies
import strategies
from hypothesis import assume, event, given
from hypothesis import strategies as st
from moving import assert_unmoved, quiet
from policy_strategies import is_planned, policy_cases
from strategies import Case

import fastcep as fc
from fastcep.plan import INDEXES, make_plan
from fastcep.plan.ir import PREVIOUS

indexes = st.sampled_from(INDEXES[1:])
#: Any query, many with equalities, and those whose rows end early.
queries = st.one_of(strategies.cases(), store_strategies.cases(), policy_cases())


def tables(case: Case, index: str, timed_out: bool = False) -> tuple[pa.Table, list[str], dict[str, object]]:
    """All matches, the partial matches that have timed out, and the metrics at the end of the input."""
    engine = quiet(fc.Engine, case.query, index=index, timed_out=timed_out)
    found, late = [], []
    for data in harness.batches(case.query.schema, case.events, case.batch_sizes):
        found.append(engine.process(data).to_arrow())
        late += engine.timed_out().to_pylist() if timed_out else []
    metrics = engine.metrics()
    found.append(engine.flush().to_arrow())
    late += engine.timed_out().to_pylist() if timed_out else []
    return pa.concat_tables(found), list(map(repr, late)), metrics


def note(case: Case, index: str) -> None:
    """For --hypothesis-show-statistics whether it makes a difference."""
    same = make_plan(case.query, index=index).indexes == make_plan(case.query, store="rows").indexes
    event(f"{index}: {'the same' if same else 'fewer'} keys")


@given(queries, indexes)
def test_matches(case: Case, index: str) -> None:
    """As the reference matcher and all keys have it."""
    note(case, index)
    (table, _, own), (other, _, full) = tables(case, index), tables(case, "full")
    harness.assert_same(case.query, case.events, harness.table_rows(case.query, table), f"index={index!r}")
    assert repr(table.to_pylist()) == repr(other.to_pylist()), repr(case)
    names = ["events", "relevant_events", "matches", "watermark", "waiting_matches", "open_windows"]
    assert [own[name] for name in names] == [full[name] for name in names], repr(case)


@given(queries, indexes)
def test_timed_out(case: Case, index: str) -> None:
    """What times out with all keys does; others may too: those never store what has a null in a key."""
    assume(is_planned(case.query, timed_out=True))
    assume(all(column.column != PREVIOUS for column in make_plan(case.query).columns))
    (table, late, _), (other, too, _) = tables(case, index, True), tables(case, "full", True)
    assert repr(table.to_pylist()) == repr(other.to_pylist()), repr(case)
    rest = iter(late)
    assert all(row in rest for row in too), f"in this order: {case!r}"


@given(queries, indexes, st.data())
def test_moves(case: Case, index: str, data: st.DataObject) -> None:
    """Snapshots, and key groups taken out and put back, change nothing; a restored engine has the option."""
    engines = [quiet(fc.Engine, case.query, index=index) for _ in range(2)]
    random = data.draw(st.randoms(use_true_random=False), "moves")
    batches = harness.batches(case.query.schema, case.events, case.batch_sizes)
    assert_unmoved(*engines, batches, random.randrange, repr(case))
