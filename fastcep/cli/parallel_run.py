"""``fastcep run --instances``: the matches of `ParallelEngine`, in the order of a single engine."""

from __future__ import annotations

from contextlib import ExitStack
from time import perf_counter
from typing import TYPE_CHECKING

from fastcep.cli.inputs import each
from fastcep.engine.signals import Signals
from fastcep.errors import InstanceError
from fastcep.parallel import ParallelEngine

if TYPE_CHECKING:
    from fastcep.cli.display import Display
    from fastcep.cli.job import Job
    from fastcep.cli.summary import Summary
    from fastcep.engine import Matches

__all__ = ["run_in_parallel"]


def run_in_parallel(
    job: Job, instances: int, attributes: bool, display: Display
) -> tuple[Summary, BaseException | None]:
    """Run a job in processes; of the engine's options it supports ``index``.

    After an error of the input, or an interrupt, the output has the matches of the events before it.

    Returns
    -------
    summary, error
        The summary, and the error or interrupt that ended the run early; None without one.
    """
    summary = job.summary()
    with ExitStack() as stack:
        engine = stack.enter_context(
            ParallelEngine(job.queries, instances=instances, attributes=attributes, index=job.engine["index"])
        )
        writer = job.outputs.open()
        if writer is not None:
            stack.enter_context(writer)
        start, signals, ended = perf_counter(), Signals(), None
        source = stack.enter_context(job.open())

        def take(matches: Matches) -> None:
            with signals:  # no interrupt inside a write
                summary.matches += len(matches)
                for name, count in matches.counts().items():
                    summary.matches_by_query[name] += count
                metrics = engine.metrics()
                summary.events, summary.bad_rows = metrics["events"], source.bad_rows
                summary.peak_partial_matches = metrics["peak_partial_matches"]
                summary.memory_bytes = max(summary.memory_bytes, metrics["kept_bytes"])
                show = display.wants(len(matches))
                if show or writer is not None:
                    table = matches.to_arrow()
                    if writer is not None:
                        writer.write(table)
                    if show:
                        display.print(table)
                display.update(summary)

        try:
            for matches in each(engine, source):
                take(matches)
        except (Exception, KeyboardInterrupt) as error:
            ended = error
        if not isinstance(ended, InstanceError):
            take(engine.flush(complete=ended is None))
        else:
            take(ended.matches)
        summary.stop(perf_counter() - start)
    return summary, ended
