"""Run that can be killed at any moment and resumes when it is started again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fastcep.cli.durable.assemble import assemble, check_targets, outdated_outputs
from fastcep.cli.durable.commits import Commits
from fastcep.cli.durable.digest import Digest
from fastcep.cli.durable.folder import BAD_ROWS, SCRATCH, Folder
from fastcep.cli.durable.progress import CountingEngine, RemainingRows
from fastcep.cli.durable.settings import check_settings, make_settings
from fastcep.cli.inputs import each
from fastcep.cli.sink import LateEvents, Sink
from fastcep.cli.summary import Summary
from fastcep.engine import Engine
from fastcep.errors import FastcepError

if TYPE_CHECKING:
    from fastcep.cli.display import Display
    from fastcep.cli.durable.options import CheckpointOptions
    from fastcep.cli.durable.record import Record
    from fastcep.cli.job import Job
    from fastcep.engine import Matches

__all__ = ["run_durably"]


def run_durably(job: Job, options: CheckpointOptions, display: Display) -> Summary:
    """Start a job, resume it, or only write its outputs, depending on the record in its folder.

    Parameters
    ----------
    job
        Job to run.
    options
        Folder and frequency of the commits.
    display
        Printer of the first matches of this run, and of messages.

    Raises
    ------
    FastcepError
        As for a run without a checkpoint; commits made before stay valid.
    ValidationError, DataError
        If the options, the queries or the input differ from before. The folder is unchanged then.
    SnapshotError
        If a file of the folder is damaged. The folder is unchanged then.
    """
    check_targets(job)
    settings = make_settings(job)
    with Folder(options.folder) as folder:
        record = folder.read()
        if record is not None:
            check_settings(record.settings, settings, options.folder)
            if record.finished:
                folder.clear(record)
        if record is None or not record.finished:
            run = _Run(job, folder, settings, options.seconds, record, display)
            try:
                record = run.finish()
            except KeyboardInterrupt:
                run.interrupted()
                raise
        elif not outdated_outputs(record, job):
            display.message(
                f"nothing to do: the run of --checkpoint '{options.folder}' is finished after row {record.rows:,}; "
                "for more or other input give another folder"
            )
        return Summary(**assemble(folder, record, job).summary)


class _Run:
    """Run from the last commit to the end of the input.

    Parameters
    ----------
    job, display
        As in `run_durably`.
    folder
        Folder of the run, locked.
    settings
        Settings to store in each record.
    every
        Seconds between two commits.
    before
        Last commit, None for the first run.
    """

    def __init__(
        self, job: Job, folder: Folder, settings: Mapping[str, Any], every: float, before: Record | None,
        display: Display,
    ) -> None:  # fmt: skip
        self._folder, self._before, self._display = folder, before, display
        self._start = perf_counter()
        if before is None or before.state is None:
            self._engine, self._summary = Engine(job.queries, **job.engine), job.summary()
        else:
            display.message(f"resuming after row {before.rows:,}, from commit {before.number} in '{folder.path}'")
            self._engine = Engine.restore(
                folder.file(before.state.name).read_bytes(), job.queries, memory_limit=job.engine["memory_limit"],
                shedder=job.engine["shedder"], detector=job.engine["detector"],
            )  # fmt: skip
            self._summary = Summary(**before.summary)
            display.begin(self._summary.events)
        self._earlier_seconds = self._summary.seconds
        self._keeps_bad_rows = job.inputs.bad_rows is not None
        scratch = folder.file(SCRATCH) if self._keeps_bad_rows else None
        self._job = replace(job, inputs=replace(job.inputs, bad_rows=scratch))
        self._commits = Commits(folder, settings, every, before, late=job.lateness.output is not None)

    def finish(self) -> Record:
        """Process the remaining input with a commit at each interval, and return the last commit."""
        digest = Digest(self._job.schema)
        with self._folder.without(SCRATCH), self._job.open() as source, self._commits as commits:
            remaining = RemainingRows(source, digest, self._before)
            self._folder.clear(self._before, keep=SCRATCH if self._keeps_bad_rows else "")
            engine = CountingEngine(self._engine, digest, commits.rows)
            late = LateEvents(self._engine, commits.late)
            sink = Sink(self._engine, self._summary, commits.matches, late, self._display)
            steps = self._steps(engine, remaining)
            while (matches := self._next(steps, engine)) is not None:
                self._summary.bad_rows = source.bad_rows  # the last step includes those after the last batch
                sink.take(matches)
                if commits.due and not engine.ended:
                    self._commit(engine)
            source.close()
            bad_rows = self._folder.adopt(SCRATCH, BAD_ROWS) if self._keeps_bad_rows else None
            record = self._commit(engine, finished=True, bad_rows=bad_rows)
        self._display.message(f"{record.number:,} commits; those of this run took {commits.seconds:.3f} s")
        return record

    def interrupted(self) -> None:
        """Report the progress of the interrupted run."""
        events, rows = self._engine.metrics()["events"], self._commits.rows
        self._display.message(
            f"interrupted after {events:,} events; committed up to row {rows:,}: start the command again to resume"
        )

    @staticmethod
    def _steps(engine: CountingEngine, remaining: RemainingRows) -> Iterator[Matches]:
        yield from each(engine, remaining)
        yield engine.flush()

    def _next(self, steps: Iterator[Matches], engine: CountingEngine) -> Matches | None:
        """Return the matches of the next step, None at the end; on an error, commit what was found before it."""
        try:
            return next(steps, None)
        except FastcepError as error:
            if engine.consistent and engine.rows > self._commits.rows:
                self._commit(engine)
            if not self._commits.rows:
                error.add_note("nothing is committed yet")
            else:
                advice = "" if engine.consistent else ", with a larger --memory-limit if it ran out of memory,"
                error.add_note(f"committed up to row {self._commits.rows:,}; start the command again{advice} to resume")
            raise

    def _commit(self, engine: CountingEngine, **last: Any) -> Record:
        self._summary.stop(self._earlier_seconds + perf_counter() - self._start)
        return self._commits.commit(engine, self._summary, **last)
