"""A stream that is run by several instances, which are threads, with slices of few events."""

from __future__ import annotations

import random
from collections.abc import Sequence
from unittest.mock import patch

from reference.matcher import Event
from support import harness
from support.state_transfer import quiet

from fastcep.errors import ValidationError
from fastcep.parallel import ParallelEngine
from fastcep.parallel.instances import Instance
from fastcep.parallel.scheduler import Scheduler
from fastcep.query import ast
from matrix.execute import Outcome
from matrix.refusals import OF_SLICES, refusal_of


def longest_window(queries: Sequence[ast.Query], events: Sequence[Event]) -> str | None:
    """Return the length of the stream, if a query has windows that events open and close."""
    windows = [query.window for query in queries if isinstance(query.window, ast.ExplicitWindow)]
    if not any(window.opening.types and window.closing.types for window in windows):
        return None
    return f"{max(1, events[-1].time - events[0].time) if events else 1}ns"


def parallel_outcome(
    queries: Sequence[ast.Query], events: Sequence[Event], sizes: Sequence[int], wanted: int, outcome: Outcome
) -> None:
    """Run queries in instances that get their slices at random, and compare with the reference matcher."""
    choices = random.Random(outcome.run.choices)

    def assign(self: Scheduler, number: int) -> Instance:
        instance = choices.choice([instance for instance in self.instances if not instance.is_leaving])
        instance.slices.add(number)
        return instance

    found: dict[str, list[harness.Row]] = {query.name: [] for query in queries}
    with patch.object(Scheduler, "_assign", assign):
        try:
            engine = quiet(
                ParallelEngine, list(queries), instances=wanted, workers="threads",
                slice_events=choices.choice([1, 2, 4]), queue_limit=choices.choice([1, 5, 1000]),
                longest_window=longest_window(queries, events),
            )  # fmt: skip
        except ValidationError as error:
            refusal = refusal_of(str(error), OF_SLICES)
            assert refusal is not None, f"not on the list of refusals: {error}"
            outcome.refused.append(refusal)
            return
        with engine:
            parts = [engine.process(batch) for batch in harness.batches(queries[0].schema, events, sizes)]
            for matches in [*parts, engine.flush()]:
                for query in queries:
                    found[query.name] += harness.table_rows(query, matches.query(query.name).to_arrow())
            assert engine.metrics()["kept_events"] == 0
    for query in queries:
        how = f"{wanted} instances, batches of {sizes}, choices {outcome.run.choices}"
        harness.assert_same(query, list(events), found[query.name], how)
    outcome.paths.add("instances")
