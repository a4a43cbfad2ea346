"""Queries matched by several threads: a keyed query in parts, each a matcher of its own with some of the keys.

Every part sees the whole stream and binds only the events whose key is its own, so parts share nothing but the plan and
the events, and what comes of a batch does not depend on which thread is when where. `PartitionedMatcher` is to the rest
of the engine one matcher: it puts the matches of the parts in the order of one, adds up what they count, and its dumped
state is that of one matcher. Queries that are not keyed are matched whole, each by one thread at a time.
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
from fastcep.engine.state.key_group_split import choose, groups_of, join
from fastcep.engine.state.keygroups import GROUPS
from fastcep.engine.state.word_layout import State, WordLayout
from fastcep.engine.thread_pool import ThreadPool
from fastcep.errors import ValidationError
from fastcep.plan import Plan
from fastcep.plan.plan import KeyPlan

__all__ = ["Matching", "PartitionedMatcher", "check_parted", "make_matcher", "parts_of_query", "run"]

Ints = npt.NDArray[np.int64]
Arrays = tuple[list[Ints], list[Ints | None], Ints, Ints, Ints, Ints | None]  #: of an `Output`

#: Matches from which on several threads put columns together.
PARALLEL_MATCHES = 1 << 14

#: What the first part of several gets of what has been counted so far.
_COUNTERS = ("relevant", "rows_visited", "rows_created", "matches", "lost", "arithmetic_nulls", "function_errors")

#: What is added up over the parts, by name of `Matcher`. A peak is the sum of the parts', at least that of one matcher.
_SUMS = {
    *_COUNTERS, "live", "peak", "rows_stored", "negated_events", "waiting", "keys", "nbytes", "key_bytes", "row_bytes",
}  # fmt: skip


class PartitionedMatcher:
    """The matchers of one keyed query, as one.

    Parameters
    ----------
    plan, link
        As for `Matcher`.
    pool
        Its threads are as many as there are parts.
    """

    def __init__(self, plan: Plan, link: Any, pool: ThreadPool) -> None:
        assert isinstance(plan.key, KeyPlan)
        self.plan = plan
        self.parts = tuple(Matcher(plan, link) for _ in range(pool.threads))
        self._key = plan.key
        self._pool = pool
        self._births = 0
        columns = _key_columns(plan, plan.key)
        for number, part in enumerate(self.parts):
            part.take_part(number, len(self.parts), columns, plan.key.dtype == "f")

    # ----------------------------------------------------------------- all parts do the same

    def share(self, filters: Sequence[Filter] | None) -> None:
        """As `Matcher.share`."""
        for number, part in enumerate(self.parts):
            part.share(filters, number == 0)

    def use_bounds(self, opens: Ints, ids: Ints, closes: Ints, closed: Ints) -> None:
        """As `Matcher.use_bounds`."""
        for part in self.parts:
            part.use_bounds(opens, ids, closes, closed)

    def set_limit(self, limit: int) -> None:
        """Hold at most so many bytes: each part an equal share, so that no part depends on another's timing."""
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
        """As `Matcher.advance`; False if any part had no memory."""
        done = [part.advance(time, position, ring) for part in self.parts]
        return all(done)

    def finish(self, ring: object) -> bool:
        """As `Matcher.finish`, likewise."""
        done = [part.finish(ring) for part in self.parts]
        return all(done)

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
        """As `Matcher.take_output`, in the order of one matcher; arrays, if they are of several parts."""
        places = [part.take_places() for part in self.parts]
        found = [part.take_output() for part in self.parts]
        some = [number for number, output in enumerate(found) if output.n]
        if len(some) < 2:
            return found[some[0] if some else 0]
        outputs: list[Arrays] = [found[number].arrays() for number in some]
        found.clear()
        deciding = [bool((output[2] < 0).any()) for output in outputs]
        sides = []
        for number, (values, lengths, detected, times, counts, _), decides in zip(some, outputs, deciding, strict=True):
            made = made_at(values, lengths, int(counts.sum())) if decides and sum(deciding) > 1 else None
            sides.append((detected, times, counts, places[number].reshape(-1) if len(places[number]) else None, made))
        detected, times, counts, segments = merge_runs(sides)
        windows = [output[5] for output in outputs]
        more = [] if windows[0] is None else [windows]
        values, lengths, rest = self._put_together(
            [output[0] for output in outputs], [output[1] for output in outputs], more, segments
        )
        return values, lengths, detected, times, counts, rest[0] if rest else None

    def take_timed_out(self) -> tuple[list[Ints], list[Ints | None], Ints]:
        """As `Matcher.take_timed_out`, in the order of one matcher."""
        places = [part.take_places(timed=True) for part in self.parts]
        outputs = [part.take_timed_out() for part in self.parts]
        some = [number for number, output in enumerate(outputs) if len(output[2])]
        if len(some) < 2:
            return outputs[some[0] if some else 0]
        facts = np.concatenate([outputs[number][2] for number in some])
        owner = np.repeat(np.arange(len(some)), [len(outputs[number][2]) for number in some])
        made = np.concatenate([made_at(outputs[n][0], outputs[n][1], len(outputs[n][2])) for n in some])
        if self.plan.window_kind == 3:
            order = np.lexsort((made, *np.concatenate([places[number] for number in some]).T[::-1], facts[:, 1]))
        elif self.plan.window_kind == 1:
            begun = np.concatenate([_begun_at(outputs[n][0], outputs[n][1], len(outputs[n][2])) for n in some])
            order = np.lexsort((made, begun))
        else:
            order = np.lexsort((made, facts[:, 1]))
        segments = np.stack([owner[order], np.ones(len(order), np.int64)], axis=1)
        values, lengths, _ = self._put_together(
            [outputs[n][0] for n in some], [outputs[n][1] for n in some], [], segments
        )
        return values, lengths, facts[order]

    def _put_together(
        self, values: list[list[Ints]], lengths: list[list[Ints | None]], more: list[list[Any]], segments: Ints
    ) -> tuple[list[Ints], list[Ints | None], list[Ints]]:
        """Put columns together: per part the values and lengths of each variable; ``more`` has per column all parts."""
        calls: list[Callable[[], Ints]] = []
        listed: list[bool] = []
        for member in range(len(values[0])):
            own = [columns[member] for columns in values]
            sizes: Any = [columns[member] for columns in lengths]
            listed.append(sizes[0] is not None)
            calls.append(partial(_merged, own, segments, sizes if listed[-1] else None))
            if listed[-1]:
                calls.append(partial(_merged, list(sizes), segments))
        calls += [partial(_merged, columns, segments) for columns in more]
        for columns in values:
            columns.clear()  # the calls have them, and free them one by one
        for all_sizes in lengths:
            all_sizes.clear()
        merged = iter(run(self._pool, calls, int(segments[:, 1].sum()) >= PARALLEL_MATCHES))
        pairs = [(next(merged), next(merged) if own else None) for own in listed]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs], list(merged)

    # ----------------------------------------------------------------- state

    def dump(self) -> State:
        """As `Matcher.dump`: the state that one matcher would have."""
        words = WordLayout(self.plan, self.parts[0])
        state = self.parts[0].dump()
        for part in self.parts[1:]:
            state, self._births = join(words, state, part.dump())
        return state

    @property
    def numbers(self) -> dict[str, int]:
        """As `Matcher.numbers`; of a state that has been dumped, that state's."""
        all_numbers = [part.numbers for part in self.parts]
        numbers = {name: max(own[name] for own in all_numbers) for name in all_numbers[0]}
        for name in (*_COUNTERS, "peak"):
            numbers[name] = sum(own[name] for own in all_numbers)
        numbers["next_birth"] = max(numbers["next_birth"], self._births)
        return numbers

    def load(self, state: State, numbers: Mapping[str, int]) -> None:
        """As `Matcher.load`."""
        words = WordLayout(self.plan, self.parts[0])
        groups = groups_of(words, state, self._key, partial(self._parts_of, len(self.parts)))
        for number, part in list(enumerate(self.parts))[::-1]:
            wanted = np.zeros(GROUPS, np.bool_)
            wanted[number] = True
            own = {name: table.copy() for name, table in choose(words, state, groups, wanted).items()}
            counted = dict(numbers)
            if number:
                counted |= dict.fromkeys((*_COUNTERS, "peak"), 0)
            else:
                counted["peak"] -= sum(other.live for other in self.parts[1:])
            part.load(own, counted)

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

    # ----------------------------------------------------------------- what is held and counted

    @property
    def limit(self) -> int:
        """As `Matcher.limit`."""
        return sum(part.limit for part in self.parts)

    @property
    def refused(self) -> bool:
        """Whether a part's last want of memory was the limit's doing."""
        return any(part.refused for part in self.parts)

    @property
    def first_needed(self) -> int | None:
        """As `Matcher.first_needed`."""
        needed = [at for part in self.parts if (at := part.first_needed) is not None]
        return min(needed, default=None)

    @property
    def open_windows(self) -> int:
        """As `Matcher.open_windows`: every part has all of them, unless it had no memory for some."""
        return max(part.open_windows for part in self.parts)

    def __getattr__(self, name: str) -> int:
        """Give another counter or gauge of `Matcher`: the sum over the parts."""
        if name not in _SUMS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return sum(getattr(part, name) for part in self.parts)


Matching = Matcher | PartitionedMatcher


def make_matcher(plan: Plan, link: Any, pool: ThreadPool | None) -> Matching:
    """The matcher of a query: in parts, if there are threads for them and it is keyed."""
    if pool is None or not isinstance(plan.key, KeyPlan):
        return Matcher(plan, link)
    return PartitionedMatcher(plan, link, pool)


def parts_of_query(matcher: Matching) -> tuple[Matcher, ...]:
    """The matchers behind one."""
    return matcher.parts if isinstance(matcher, PartitionedMatcher) else (matcher,)


def check_parted(plans: Sequence[Plan], pool: ThreadPool | None) -> None:
    """Refuse threads that no query could use; ValidationError says why."""
    if pool is None or len(plans) > 1 or not isinstance(plans[0].key, str):
        return
    raise ValidationError(
        f"threads={pool.threads}: nothing for a second thread to do, because query {plans[0].query.name!r} cannot "
        f"be divided by a key: {plans[0].key}. Let all of its variables agree in an attribute, WHERE [attribute], or "
        "leave threads out"
    )


def run(pool: ThreadPool, calls: Sequence[Callable[[], Any]], at_once: bool) -> list[Any]:
    """Make the calls, by all threads or by this one."""
    return pool.run(calls) if at_once else [call() for call in calls]


def _merged(columns: list[Ints], segments: Ints, lengths: list[Ints] | None = None) -> Ints:
    """Put a column together, as `merge_column`, and free what it was."""
    whole = merge_column(columns, segments, lengths)
    columns.clear()
    return whole


def made_at(values: Sequence[Ints], lengths: Sequence[Ints | None], count: int) -> Ints:
    """Position of the last event that each of ``count`` matches binds: the one that made it."""
    made = np.full(count, -1, np.int64)
    for own, sizes in zip(values, lengths, strict=True):
        if sizes is None and len(own):
            np.maximum(made, own, out=made)
        elif sizes is not None and len(own):
            some = np.flatnonzero(sizes)
            made[some] = np.maximum(made[some], np.maximum.reduceat(own, (np.cumsum(sizes) - sizes)[some]))
    return made


def _begun_at(values: Sequence[Ints], lengths: Sequence[Ints | None], count: int) -> Ints:
    """Position of the first event that each of them binds."""
    last = np.iinfo(np.int64).max
    turned = [np.where(own < 0, -1, last - own) for own in values]
    return last - made_at(turned, lengths, count)


def _key_columns(plan: Plan, key: KeyPlan) -> npt.NDArray[np.int32]:
    """Per type id the column of the key, -1 for none; that of a partition also where no variable has the type."""
    columns = np.array(key.columns, np.int32)
    if plan.partition is not None:
        for kind, own in enumerate(plan.partition.columns):
            if own and columns[kind] < 0:
                columns[kind] = own[0]
    return columns
