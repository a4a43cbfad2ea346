"""Match a keyed query in several threads: it is divided into parts, each a matcher with some of the keys.

Every part sees the whole stream and binds only the events whose key belongs to it. Parts share only the plan and the
events, so the result of a batch does not depend on the timing of the threads. To the rest of the engine,
`PartitionedMatcher` is one matcher: it merges the matches of the parts into the order of a single matcher, adds up
their counters, and its dumped state is that of a single matcher. Queries that are not keyed are not divided; each is
matched by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep._core.input.filters import Filter
from fastcep._core.matcher.matcher import Matcher
from fastcep._core.matches.output import Output
from fastcep._core.state.key_partition import merge_column, merge_runs, parts_of
from fastcep.engine.state.key_group_split import groups_of, join_states, select_groups
from fastcep.engine.state.keygroups import GROUPS
from fastcep.engine.state.word_layout import State, WordLayout
from fastcep.engine.thread_pool import ThreadPool
from fastcep.errors import ValidationError
from fastcep.plan import Plan
from fastcep.plan.partition_key import key_columns
from fastcep.plan.plan import KeyPlan

__all__ = ["AnyMatcher", "PartitionedMatcher", "check_threads", "make_matcher", "parts_of_query", "run"]

Ints = npt.NDArray[np.int64]
Arrays = tuple[list[Ints], list[Ints | None], Ints, Ints, Ints, Ints | None]  #: of an `Output`

#: With at least this many matches, several threads merge the columns.
PARALLEL_MATCHES = 1 << 14

#: Counters that are loaded into the first part only.
_COUNTERS = ("relevant", "rows_visited", "rows_created", "matches", "lost", "arithmetic_nulls", "function_errors")

#: Attributes of `Matcher` that are summed over the parts. The sum of the peaks is at least the peak of one matcher.
_SUMS = {
    *_COUNTERS, "live", "peak", "rows_stored", "negated_events", "waiting", "keys", "nbytes", "key_bytes", "row_bytes",
}  # fmt: skip


class PartitionedMatcher:
    """The matchers of one keyed query, with the interface of a single matcher.

    Parameters
    ----------
    plan, link
        As for `Matcher`.
    pool
        The threads; there is one part for each.
    """

    def __init__(self, plan: Plan, link: Any, pool: ThreadPool) -> None:
        assert isinstance(plan.key, KeyPlan)
        self.plan = plan
        self.parts = tuple(Matcher(plan, link) for _ in range(pool.threads))
        self._key = plan.key
        self._pool = pool
        self._births = 0
        columns = np.array(key_columns(plan, plan.key), np.int32)
        for number, part in enumerate(self.parts):
            part.take_part(number, len(self.parts), columns, plan.key.dtype == "f")

    # ----------------------------------------------------------------- calls passed on to all parts

    def share(self, filters: Sequence[Filter] | None) -> None:
        """As `Matcher.share`."""
        for number, part in enumerate(self.parts):
            part.share(filters, number == 0)

    def use_bounds(self, opens: Ints, ids: Ints, closes: Ints, closed: Ints) -> None:
        """As `Matcher.use_bounds`."""
        for part in self.parts:
            part.use_bounds(opens, ids, closes, closed)

    def set_limit(self, limit: int) -> None:
        """Limit the bytes of all parts to ``limit``, in equal shares: no part depends on the timing of another."""
        for part in self.parts:
            part.set_limit(limit // len(self.parts))

    def drop(self, blind: int | None = None) -> None:
        """As `Matcher.drop`."""
        for part in self.parts:
            part.drop(blind)

    def forget_windows(self) -> None:
        """As `Matcher.forget_windows`."""
        for part in self.parts:
            part.forget_windows()

    def advance(self, time: int, position: int, ring: object) -> bool:
        """As `Matcher.advance`; False if any part ran out of memory."""
        succeeded = [part.advance(time, position, ring) for part in self.parts]
        return all(succeeded)

    def finish(self, ring: object) -> bool:
        """As `Matcher.finish`; False if any part ran out of memory."""
        succeeded = [part.finish(ring) for part in self.parts]
        return all(succeeded)

    def clear(self) -> None:
        """As `Matcher.clear`."""
        for part in self.parts:
            part.clear()

    def ignore(self, foreign: npt.NDArray[np.uint8] | None) -> None:
        """As `Matcher.ignore`."""
        for part in self.parts:
            part.ignore(foreign)

    def mark_codes(self, marks: npt.NDArray[np.uint8]) -> None:
        """As `Matcher.mark_codes`."""
        for part in self.parts:
            part.mark_codes(marks)

    @property
    def tasks(self) -> list[Any]:
        """As `Matcher.tasks`."""
        return self.parts[0].tasks

    def use_kernels(self, kernels: Mapping[Any, int]) -> None:
        """As `Matcher.use_kernels`."""
        for part in self.parts:
            part.use_kernels(kernels)

    # ----------------------------------------------------------------- output

    @property
    def output_pending(self) -> bool:
        """As `Matcher.output_pending`."""
        return any(part.output_pending for part in self.parts)

    def take_output(self) -> Output | Arrays:
        """As `Matcher.take_output`, in the order of one matcher; arrays if several parts have matches."""
        places = [part.take_places() for part in self.parts]
        outputs = [part.take_output() for part in self.parts]
        nonempty = [number for number, output in enumerate(outputs) if output.n]
        if len(nonempty) < 2:
            return outputs[nonempty[0] if nonempty else 0]
        arrays: list[Arrays] = [outputs[number].arrays() for number in nonempty]
        outputs.clear()
        deciding = [bool((detected < 0).any()) for _, _, detected, _, _, _ in arrays]
        sides = []
        for number, (values, lengths, detected, times, counts, _), decides in zip(
            nonempty, arrays, deciding, strict=True
        ):
            created = created_at(values, lengths, int(counts.sum())) if decides and sum(deciding) > 1 else None
            of_part = places[number].reshape(-1) if len(places[number]) else None
            sides.append((detected, times, counts, of_part, created))
        detected, times, counts, segments = merge_runs(sides)
        window_ids = [part[5] for part in arrays]
        other_columns = [] if window_ids[0] is None else [window_ids]
        values, lengths, merged = self._merge_columns(
            [part[0] for part in arrays], [part[1] for part in arrays], other_columns, segments
        )
        return values, lengths, detected, times, counts, merged[0] if merged else None

    def take_timed_out(self) -> tuple[list[Ints], list[Ints | None], Ints]:
        """As `Matcher.take_timed_out`, in the order of one matcher."""
        places = [part.take_places(timed=True) for part in self.parts]
        outputs = [part.take_timed_out() for part in self.parts]
        outputs = [output for output in outputs if len(output[2])] or outputs[:1]
        if len(outputs) < 2:
            return outputs[0]
        facts = np.concatenate([output[2] for output in outputs])
        part_of = np.repeat(np.arange(len(outputs)), [len(output[2]) for output in outputs])
        created = np.concatenate([created_at(values, lengths, len(rows)) for values, lengths, rows in outputs])
        if self.plan.window_kind == 3:
            order = np.lexsort((created, *np.concatenate(places).T[::-1], facts[:, 1]))
        elif self.plan.window_kind == 1:
            started = np.concatenate([_started_at(values, lengths, len(rows)) for values, lengths, rows in outputs])
            order = np.lexsort((created, started))
        else:
            order = np.lexsort((created, facts[:, 1]))
        segments = np.stack([part_of[order], np.ones(len(order), np.int64)], axis=1)
        values, lengths, _ = self._merge_columns(
            [output[0] for output in outputs], [output[1] for output in outputs], [], segments
        )
        return values, lengths, facts[order]

    def _merge_columns(
        self, values: list[list[Ints]], lengths: list[list[Ints | None]], others: list[list[Any]], segments: Ints
    ) -> tuple[list[Ints], list[Ints | None], list[Ints]]:
        """Merge the columns of the parts; this empties the lists.

        Parameters
        ----------
        values, lengths
            For each part, the values and the lengths of each variable.
        others
            For each other column, the arrays of all parts.
        segments
            int64[n, 2]: part and number of matches of each run, in order.
        """
        calls: list[Callable[[], Ints]] = []
        listed: list[bool] = []
        for variable in range(len(values[0])):
            of_parts = [columns[variable] for columns in values]
            sizes: Any = [columns[variable] for columns in lengths]
            listed.append(sizes[0] is not None)
            calls.append(partial(_merge_column, of_parts, segments, sizes if listed[-1] else None))
            if listed[-1]:
                calls.append(partial(_merge_column, list(sizes), segments))
        calls += [partial(_merge_column, columns, segments) for columns in others]
        for columns in values:
            columns.clear()  # the calls hold the arrays, and free them one by one
        for all_sizes in lengths:
            all_sizes.clear()
        merged = iter(run(self._pool, calls, int(segments[:, 1].sum()) >= PARALLEL_MATCHES))
        pairs = [(next(merged), next(merged) if has_lengths else None) for has_lengths in listed]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs], list(merged)

    # ----------------------------------------------------------------- state

    def dump(self) -> State:
        """As `Matcher.dump`: the state that a single matcher would have."""
        layout = WordLayout(self.plan, self.parts[0])
        state = self.parts[0].dump()
        for part in self.parts[1:]:
            state, self._births = join_states(layout, state, part.dump())
        return state

    @property
    def numbers(self) -> dict[str, int]:
        """As `Matcher.numbers`; after `dump`, they belong to the dumped state."""
        of_parts = [part.numbers for part in self.parts]
        numbers = {name: max(of_part[name] for of_part in of_parts) for name in of_parts[0]}
        for name in (*_COUNTERS, "peak"):
            numbers[name] = sum(of_part[name] for of_part in of_parts)
        numbers["next_birth"] = max(numbers["next_birth"], self._births)
        return numbers

    def load(self, state: State, numbers: Mapping[str, int]) -> None:
        """As `Matcher.load`."""
        layout = WordLayout(self.plan, self.parts[0])
        groups = groups_of(layout, state, self._key, partial(self._parts_of, len(self.parts)))
        for number, part in list(enumerate(self.parts))[::-1]:
            selected = np.zeros(GROUPS, np.bool_)
            selected[number] = True
            part_state = {name: table.copy() for name, table in select_groups(layout, state, groups, selected).items()}
            part_numbers = dict(numbers)
            if number:
                part_numbers |= dict.fromkeys((*_COUNTERS, "peak"), 0)
            else:
                part_numbers["peak"] -= sum(other.live for other in self.parts[1:])
            part.load(part_state, part_numbers)

    def _parts_of(self, parts: int, words: Ints) -> npt.NDArray[np.uint8]:
        return parts_of(np.ascontiguousarray(words), parts, self._key.dtype == "f")

    @property
    def layout(self) -> tuple[list[bool], list[tuple[int, int, int, int, dict[int, int]]]]:
        """As `Matcher.layout`."""
        return self.parts[0].layout

    @property
    def is_empty(self) -> bool:
        """As `Matcher.is_empty`."""
        return all(part.is_empty for part in self.parts)

    # ----------------------------------------------------------------- memory and counters

    @property
    def limit(self) -> int:
        """As `Matcher.limit`."""
        return sum(part.limit for part in self.parts)

    @property
    def refused(self) -> bool:
        """True if the limit, not the machine, refused the last request for memory of a part."""
        return any(part.refused for part in self.parts)

    @property
    def first_needed(self) -> int | None:
        """As `Matcher.first_needed`."""
        needed = [position for part in self.parts if (position := part.first_needed) is not None]
        return min(needed, default=None)

    @property
    def open_windows(self) -> int:
        """As `Matcher.open_windows`: every part has all of them, unless it ran out of memory."""
        return max(part.open_windows for part in self.parts)

    def __getattr__(self, name: str) -> int:
        """Return another counter or gauge of `Matcher`: the sum over the parts."""
        if name not in _SUMS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return sum(getattr(part, name) for part in self.parts)


AnyMatcher = Matcher | PartitionedMatcher


def make_matcher(plan: Plan, link: Any, pool: ThreadPool | None) -> AnyMatcher:
    """Make the matcher of a query: in parts if there are several threads and the query is keyed."""
    if pool is None or not isinstance(plan.key, KeyPlan):
        return Matcher(plan, link)
    return PartitionedMatcher(plan, link, pool)


def parts_of_query(matcher: AnyMatcher) -> tuple[Matcher, ...]:
    """Return the parts of a matcher; one that is not divided is its only part."""
    return matcher.parts if isinstance(matcher, PartitionedMatcher) else (matcher,)


def check_threads(plans: Sequence[Plan], pool: ThreadPool | None) -> None:
    """Raise `ValidationError` if there are several threads, and no query can use more than one."""
    if pool is None or len(plans) > 1 or not isinstance(plans[0].key, str):
        return
    raise ValidationError(
        f"threads={pool.threads}: there is no work for a second thread, because query {plans[0].query.name!r} cannot "
        f"be divided by a key: {plans[0].key}. Let all of its variables agree in an attribute, WHERE [attribute], or "
        "leave threads out"
    )


def run(pool: ThreadPool, calls: Sequence[Callable[[], Any]], at_once: bool) -> list[Any]:
    """Make the calls in all threads (``at_once``), or one after the other in the calling thread."""
    return pool.run(calls) if at_once else [call() for call in calls]


def _merge_column(columns: list[Ints], segments: Ints, lengths: list[Ints] | None = None) -> Ints:
    """Merge a column, as `merge_column`, and free the arrays of the parts."""
    merged = merge_column(columns, segments, lengths)
    columns.clear()
    return merged


def created_at(values: Sequence[Ints], lengths: Sequence[Ints | None], count: int) -> Ints:
    """Return the position of the event that created each of ``count`` matches: the last one that it binds.

    Parameters
    ----------
    values, lengths
        Bound events of each variable, as in `Bindings`.
    count
        Number of matches.
    """
    created = np.full(count, -1, np.int64)
    for positions, sizes in zip(values, lengths, strict=True):
        if sizes is None and len(positions):
            np.maximum(created, positions, out=created)
        elif sizes is not None and len(positions):
            nonempty = np.flatnonzero(sizes)
            starts = (np.cumsum(sizes) - sizes)[nonempty]
            created[nonempty] = np.maximum(created[nonempty], np.maximum.reduceat(positions, starts))
    return created


def _started_at(values: Sequence[Ints], lengths: Sequence[Ints | None], count: int) -> Ints:
    """Return the position of the first event that each match binds; parameters as for `created_at`."""
    largest = np.iinfo(np.int64).max
    reversed_positions = [np.where(positions < 0, -1, largest - positions) for positions in values]
    return largest - created_at(reversed_positions, lengths, count)
