"""``fastcep run --instances``: the matches of `ParallelEngine`, in the order of a single engine."""

from __future__ import annotations

from contextlib import ExitStack
from time import perf_counter
from typing import TYPE_CHECKING

from fastcep._core.matcher.signals import Signals
from fastcep.cli.inputs import each
from fastcep.errors import InstanceError
from fastcep.io import Live
from fastcep.parallel import ParallelEngine

if TYPE_CHECKING:
    from fastcep.cli.display import Display
    from fastcep.cli.job import Job
    from fastcep.cli.sink import TableWriter
    from fastcep.cli.summary import Summary
    from fastcep.engine import Matches
    from fastcep.parallel import Adaptation

__all__ = ["run_in_parallel"]

#: Time in seconds after which matches are taken while standard input is silent.
_QUIET = 0.1


class _Sink:
    """Receiver of the matches."""

    def __init__(self, engine: ParallelEngine, summary: Summary, writer: TableWriter | None, display: Display) -> None:
        self._engine, self._summary, self._writer, self._display = engine, summary, writer, display
        self._signals = Signals()

    def take(self, matches: Matches) -> None:
        """Count, write and print the matches of one call; no interrupt is raised meanwhile."""
        with self._signals:
            summary, metrics = self._summary, self._engine.metrics()
            summary.matches += len(matches)
            for name, count in matches.counts().items():
                summary.matches_by_query[name] += count
            summary.events, summary.peak_partial_matches = metrics["events"], metrics["peak_partial_matches"]
            summary.memory_bytes = max(summary.memory_bytes, metrics["kept_bytes"])
            show = self._display.wants(len(matches))
            if show or self._writer is not None:
                table = matches.to_arrow()
                if self._writer is not None:
                    self._writer.write(table)
                if show:
                    self._display.print(table)
            self._display.update(summary)


def run_in_parallel(
    job: Job, instances: int | Adaptation, attributes: bool, display: Display
) -> tuple[Summary, BaseException | None]:
    """Run a job in processes; of the engine's options it supports ``index``.

    After an error of the input, or an interrupt, the output has the matches of the events before it.

    Returns
    -------
    summary, error
        The summary, and the error or interrupt that ended the run early; None without one.
    """
    summary, ended = job.summary(), None
    matches: Matches | None = None
    with ExitStack() as stack:
        engine = stack.enter_context(
            ParallelEngine(job.queries, instances=instances, attributes=attributes, index=job.engine["index"])
        )
        writer = job.outputs.open()
        if writer is not None:
            stack.enter_context(writer)
        sink, signals, start = _Sink(engine, summary, writer, display), Signals(), perf_counter()
        live = Live(_QUIET, lambda: sink.take(engine.poll()))
        try:
            source = stack.enter_context(job.open(live))
            for matches in each(engine, source):
                with signals:
                    summary.bad_rows = source.bad_rows
                    sink.take(matches)
                    matches = None
            summary.bad_rows = source.bad_rows
        except (Exception, KeyboardInterrupt) as error:
            ended = error
        if matches is not None:  # an interrupt came before they were written
            sink.take(matches)
        sink.take(ended.matches if isinstance(ended, InstanceError) else engine.flush(complete=ended is None))
        summary.stop(perf_counter() - start)
    return summary, ended
