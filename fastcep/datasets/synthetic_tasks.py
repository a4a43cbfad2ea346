"""Generate task life cycles fitted to the Google cluster trace of 2011, with more evictions than the trace.

All constants are counted over the 172,825 events of ``google_2011`` (priorities in its source, which has more columns).
Times are drawn from evenly spaced quantiles (every 5 %; the ends are the quantiles 0.1 and 99.5 %). In the trace,
9,073 of the 56,320 tasks (16 %) have priority 0, and so have 3,799 of the 3,924 evicted tasks. A task that was evicted
is evicted again with probability 0.70; each time it fails with probability 0.011. The defaults are 0.5 for the share of
priority 0 and 0.1 for failing.

The generator draws only integers and uniform floats, and computes only with the four operations, which all machines
round equally. A seed therefore gives the same events on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.datasets.generate import CHUNK, by_quantiles, check_share, check_size, rechunk
from fastcep.datasets.synthetic_traffic import logarithm
from fastcep.errors import ValidationError

__all__ = ["TASKS", "task_lives", "task_lives_batches"]

Ints = npt.NDArray[np.int64]

TASKS = pa.schema(
    {"time": pa.int64(), "job": pa.int64(), "task": pa.int64(), "machine": pa.int64(), "kind": pa.int8(),
     "priority": pa.int8()}
)  # fmt: skip
_SUBMIT, _SCHEDULE, _EVICT, _FAIL, _FINISH, _KILL = range(6)  # kinds
_JOBS = 256  # generated at a time; their tasks arrive mixed
_MACHINES = 10_544  # machines that occur in the events
_FIRST, _AGAIN = 0.42, 0.70  # probability that a task of priority 0 is evicted: first (3,799 of 9,073), and again
_KILLED, _FAILED = 0.10, 0.003  # 9,740 of 57,012; 125 of 42,363 with priority 2
_STAYS = 0.057  # 359 of 6,290 rescheduled tasks get the same machine
_BACK = 0.53  # 5,523 of 10,505 killed tasks are submitted again
#: Tasks per job, over 1,199 jobs; at most 400 (1,200 in the trace), so that no single job dominates a stream.
_SIZES = np.array([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 9, 30, 177, 400])
#: Milliseconds from submit to schedule, and from schedule to each kind of end.
_DELAYS = {
    _SCHEDULE: [720, 850, 1450, 1480, 1500, 1550, 1600, 1650, 1710, 1820, 1970, 2170, 2330, 2410, 2890, 3080, 3520,
                4770, 5150, 6040, 574270],
    _EVICT: [20300, 82200, 88100, 97200, 206300, 216200, 222400, 234700, 350500, 449700, 654200, 884000, 1003100,
             1119500, 1126900, 1134200, 1348000, 1567800, 2252900, 2990300, 3682100],
    _FAIL: [14900, 20300, 23600, 25800, 28400, 30200, 33900, 43400, 60800, 92100, 125500, 150600, 187400, 343600,
            390600, 419100, 446300, 498400, 709600, 849400, 2447100],
    _FINISH: [21400, 124000, 141200, 158100, 173800, 195400, 213000, 238200, 275300, 344500, 366600, 395900, 442100,
              480300, 525700, 604000, 671000, 791200, 1603400, 2015000, 2989600],
    _KILL: [800, 17400, 20500, 22400, 24200, 25700, 27200, 28800, 30400, 33600, 45700, 107000, 167800, 204800, 394400,
            420200, 543700, 636300, 981900, 1705300, 3155400],
}  # fmt: skip


def task_lives_batches(
    events: int = 1_000_000,
    seed: int = 7,
    chunk: int = CHUNK,
    *,
    low: float = 0.5,
    failing: float = 0.1,
    rate: float = 0.1,
) -> Iterator[pa.RecordBatch]:
    """Generate events of tasks, in memory bounded by the chunk size and the number of live tasks.

    A task is submitted, scheduled on a machine, and then evicted, failed, finished or killed. After an eviction or a
    failure it is submitted again immediately, and so are half of the killed tasks. Tasks arrive as a Poisson process,
    job by job; all tasks of a job have the priority of the job. Only tasks of priority 0 are evicted. A shorter stream
    with the same seed is a prefix of a longer one.

    Parameters
    ----------
    events
        Number of events, at least 1.
    seed
        Seed of ``numpy.random.default_rng``.
    chunk
        Number of events of a batch, at least 1; the last batch can have fewer.
    low
        Share of the jobs with priority 0, whose tasks are evicted repeatedly. In the trace 0.16.
    failing
        Probability that a task of priority 0 fails after it was scheduled, at most 0.2. In the trace 0.011.
    rate
        Mean number of tasks that arrive in a second, at most 1,000,000. In the trace 11.2, which gives more than
        200,000 events in an hour; 0.1 gives about 2,500.

    Yields
    ------
    pyarrow.RecordBatch
        Columns of `google_2011`: ``time`` (int64, microseconds from 0, ascending), ``job`` and ``task`` (int64, from
        0), ``machine`` (int64, from 0; null for submit), ``kind`` (int8: 0 submit, 1 schedule, 2 evict, 3 fail,
        4 finish, 5 kill); and ``priority`` (int8: 0 or 2).

    Raises
    ------
    ValidationError
        If a parameter is out of its range.
    """
    check_size(events=events, chunk=chunk)
    check_share(low=low)
    if not 0 <= failing <= 0.2:
        raise ValidationError(f"failing={failing}: expected a probability from 0 to 0.2")
    if not 0 < rate <= 1_000_000:
        raise ValidationError(f"rate={rate}: expected a positive number of tasks a second, at most 1,000,000")
    return rechunk(_blocks(seed, low, failing, rate), events, chunk)


def task_lives(events: int = 1_000_000, seed: int = 7, **options: Any) -> pa.Table:
    """Generate events of tasks as one table.

    Parameters
    ----------
    events, seed, **options
        See `task_lives_batches`.

    Returns
    -------
    pyarrow.Table
        ``events`` rows with the columns of `task_lives_batches`.

    Raises
    ------
    ValidationError
        If a parameter is out of its range.
    """
    return pa.Table.from_batches(task_lives_batches(events, seed, **options), TASKS).combine_chunks()


class _LifeCycles:
    """Draws the events of tasks."""

    def __init__(self, streams: list[np.random.Generator], failing: float) -> None:
        self._ends, self._again, self._machines, self._times = streams
        self._failing = failing

    def events(self, begin: Ints, priority: Ints) -> Ints:
        """Return all events of tasks that are submitted at these times: rows of time, task, step, machine, kind."""
        task = np.arange(len(begin))
        now, machine = begin.copy(), np.full(len(begin), -1)
        evicted = np.zeros(len(begin), np.bool_)
        rows, step = [], 0
        while len(task):
            rows.append(self._rows(now, task, step, np.full(len(task), -1), _SUBMIT))
            now = now + self._delays(_SCHEDULE, len(task))
            new_machine = self._machines.integers(0, _MACHINES, len(task))
            stays = (self._machines.random(len(task)) < _STAYS) & (machine >= 0)
            machine = np.where(stays, machine, new_machine)
            rows.append(self._rows(now, task, step + 1, machine, _SCHEDULE))
            kind = self._end_kinds(priority[task], evicted)
            now = now + np.choose(kind - _EVICT, [self._delays(k, len(task)) for k in range(_EVICT, _KILL + 1)])
            rows.append(self._rows(now, task, step + 2, machine, kind))
            again = (kind <= _FAIL) | ((kind == _KILL) & (self._again.random(len(task)) < _BACK))
            evicted = (evicted | (kind == _EVICT))[again]
            task, now, machine, step = task[again], now[again], machine[again], step + 3
        return np.concatenate(rows, axis=1)

    def _end_kinds(self, priority: Ints, evicted: npt.NDArray[np.bool_]) -> Ints:
        """Draw the kind of event that ends the time on a machine."""
        low = priority == 0
        evict = np.where(low, np.where(evicted, _AGAIN, _FIRST), 0.0)
        fail = evict + np.where(low, self._failing, _FAILED)
        u = self._ends.random(len(priority))
        return np.select([u < evict, u < fail, u < fail + _KILLED], [_EVICT, _FAIL, _KILL], _FINISH).astype(np.int64)

    def _delays(self, kind: int, size: int) -> Ints:
        """Draw the times, in microseconds, until an event of this kind."""
        return by_quantiles(self._times, np.array(_DELAYS[kind]) * 1_000, size)

    def _rows(self, time: Ints, task: Ints, step: int, machine: Ints, kind: Any) -> Ints:
        return np.stack([time, task, np.full(len(task), step), machine, np.broadcast_to(kind, len(task))])


def _blocks(seed: int, low: float, failing: float, rate: float) -> Iterator[pa.RecordBatch]:
    gaps, sizes, priorities, *streams = np.random.default_rng(seed).spawn(7)
    life_cycles = _LifeCycles(streams, failing)
    waiting = np.empty((7, 0), np.int64)  # time, job, task, step, machine, kind, priority
    last = jobs = 0  # microseconds of the last arrival; jobs so far
    while True:
        job_sizes = by_quantiles(sizes, _SIZES, _JOBS)
        mixed = priorities.permutation(int(job_sizes.sum()))
        job = np.repeat(np.arange(jobs, jobs + _JOBS), job_sizes)[mixed]
        task = mixed - (np.cumsum(job_sizes) - job_sizes)[job - jobs]
        priority = np.where(priorities.random(_JOBS) < low, 0, 2)[job - jobs]
        gap = np.maximum(-logarithm(1.0 - gaps.random(len(job))), 0.0) / rate  # log 1 can round to nonzero
        begin = last + np.cumsum(np.floor(gap * 1e6).astype(np.int64))
        time, index, step, machine, kind = life_cycles.events(begin, priority)
        new = np.stack([time, job[index], task[index], step, machine, kind, priority[index]])
        waiting = np.concatenate([waiting, new], axis=1)
        waiting = waiting[:, np.lexsort(waiting[3::-1])]
        last, jobs = int(begin[-1]), jobs + _JOBS
        final = int(np.searchsorted(waiting[0], last))  # rows before which no later event can come
        if final:
            yield _batch(waiting[:, :final])
        waiting = waiting[:, final:]


def _batch(rows: Ints) -> pa.RecordBatch:
    time, job, task, _, machine, kind, priority = rows
    columns = [
        time, job, task, pa.array(machine, mask=machine < 0), kind.astype(np.int8), priority.astype(np.int8),
    ]  # fmt: skip
    return pa.record_batch([pa.array(column) for column in columns], schema=TASKS)
