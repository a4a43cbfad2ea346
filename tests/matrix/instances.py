"""A stream that is run by several instances, threads whose number may change, with slices of few events."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from reference.matcher import Event
from support import harness
from support.match_records import check_records
from support.state_transfer import quiet

from fastcep.errors import ValidationError
from fastcep.parallel import ParallelEngine
from fastcep.parallel import engine as engine_module
from fastcep.parallel.adaptation import loop
from fastcep.parallel.adaptation.options import Adaptation
from fastcep.parallel.instances import Instance
from fastcep.parallel.queueing.distributions import Deterministic
from fastcep.parallel.queueing.instance_count import Degree
from fastcep.parallel.queueing.profile import Profile
from fastcep.parallel.scheduler import Scheduler
from fastcep.query import ast
from matrix.execute import Outcome
from matrix.refusals import OF_SLICES, refusal_of

#: Largest number of instances.
_MOST = 4


def longest_window(queries: Sequence[ast.Query], events: Sequence[Event]) -> str | None:
    """Return the length of the stream, if a query has windows that events open and close."""
    windows = [query.window for query in queries if isinstance(query.window, ast.ExplicitWindow)]
    if not any(window.opening.types and window.closing.types for window in windows):
        return None
    return f"{max(1, events[-1].time - events[0].time) if events else 1}ns"


@contextmanager
def adapted(choices: random.Random) -> Iterator[None]:
    """Let adaptation loops decide after any number of events, on a clock of random steps, for a random number."""

    def degree(*_: Any, **__: Any) -> Degree:
        constant = Deterministic(1.0)
        return Degree(choices.randint(1, _MOST), 0.99, 0.9, 0.5, "M/D/c", constant, constant)

    def removed(self: Scheduler, instance: Instance) -> str:
        assert not instance.slices, f"instance {instance.number} ends before its slices {instance.slices}"
        return remove(self, instance)

    now, remove = 0, Scheduler._remove

    def clock() -> int:
        nonlocal now
        now += choices.randint(0, 3)
        return now

    with ExitStack() as stack:
        for module, name, value in (
            (engine_module, "monotonic_ns", clock), (loop, "degree", degree), (loop, "LEAST_SAMPLES", 1),
            (Scheduler, "_remove", removed),
        ):  # fmt: skip
            stack.enter_context(patch.object(module, name, value))
        yield


def adaptation(choices: random.Random, first: int, queue_limit: int) -> Adaptation:
    """Return options with which the number may change with each batch."""
    return Adaptation(
        min(queue_limit, choices.choice([1, 16, 32])), most=_MOST, initial=first, interval="1ns", forecast="naive",
        horizon=choices.choice(["0ns", "2ns", "9ns"]), profile=Profile.of({1: 1}),
    )  # fmt: skip


def parallel_outcome(
    queries: Sequence[ast.Query], events: Sequence[Event], sizes: Sequence[int], wanted: int, outcome: Outcome
) -> None:
    """Run queries in instances that get their slices at random, and compare with the reference matcher.

    In half of the cases, the number of instances changes at random.
    """
    choices = random.Random(outcome.run.choices)
    queue_limit = choices.choice([1, 5, 1000])
    instances = adaptation(choices, wanted, queue_limit) if choices.random() < 0.5 else wanted

    def assign(self: Scheduler, number: int) -> Instance:
        instance = choices.choice([instance for instance in self.instances if not instance.is_leaving])
        instance.slices.add(number)
        return instance

    found: dict[str, list[harness.Row]] = {query.name: [] for query in queries}
    with adapted(choices), patch.object(Scheduler, "_assign", assign):
        try:
            engine = quiet(
                ParallelEngine, list(queries), instances=instances, workers="threads",
                slice_events=choices.choice([1, 2, 4]), queue_limit=queue_limit,
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
                check_records(matches)
                for query in queries:
                    found[query.name] += harness.table_rows(query, matches.query(query.name).to_arrow())
            assert engine.metrics()["kept_events"] == 0
    for query in queries:
        how = f"instances={instances}, batches of {sizes}, choices {outcome.run.choices}"
        harness.assert_same(query, list(events), found[query.name], how)
    outcome.paths.add("instances")
