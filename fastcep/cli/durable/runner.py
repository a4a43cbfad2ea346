"""A run that can be killed at any moment and goes on when it is started again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fastcep.cli.durable.assemble import check_targets, missing, put_together
from fastcep.cli.durable.commits import Commits
from fastcep.cli.durable.digest import Digest
from fastcep.cli.durable.folder import BAD_ROWS, SCRATCH, Folder
from fastcep.cli.durable.progress import CountingEngine, Rest
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


def run_durably(job: Job, options: CheckpointOptions, shown: Display) -> Summary:
    """Run a job, or go on with it, or only write its outputs: whatever its folder says is left to do.

    Parameters
    ----------
    job
        What to do.
    options
        Where the run keeps its commits, and how often it makes one.
    shown
        Shows the first matches of those that are found now.

    Raises
    ------
    FastcepError
        As by a run without a checkpoint; what was committed stays.
    ValidationError, DataError
        If the options, the queries or the input are others than before. Nothing has changed then.
    SnapshotError
        If something in the folder is damaged, likewise.
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
            run = _Run(job, folder, settings, options.seconds, record, shown)
            try:
                record = run.to_the_end()
            except KeyboardInterrupt:
                run.interrupted()
                raise
        elif not missing(record, job):
            shown.tell(
                f"nothing to do: the run of --checkpoint '{options.folder}' is finished behind row {record.rows:,}; "
                "for more or other input give another folder"
            )
        return Summary(**put_together(folder, record, job).summary)


class _Run:
    """A run from the last commit to the end of the input.

    Parameters
    ----------
    job, folder, settings, shown
        As in `run_durably`; the folder is locked.
    every
        Seconds between two commits.
    before
        The last commit, None at first.
    """

    def __init__(
        self, job: Job, folder: Folder, settings: Mapping[str, Any], every: float, before: Record | None, shown: Display
    ) -> None:
        self._folder, self._before, self._shown = folder, before, shown
        self._start = perf_counter()
        if before is None or before.state is None:
            self._engine, self._summary = Engine(job.queries, **job.engine), job.summary()
        else:
            shown.tell(f"going on behind row {before.rows:,}, from commit {before.number} in '{folder.path}'")
            self._engine = Engine.restore(
                folder.file(before.state.name).read_bytes(), job.queries, memory_limit=job.engine["memory_limit"],
                shedder=job.engine["shedder"], detector=job.engine["detector"],
            )  # fmt: skip
            self._summary = Summary(**before.summary)
            shown.begin(self._summary.events)
        self._earlier = self._summary.seconds
        self._keeps_bad_rows = job.inputs.bad_rows is not None
        scratch = folder.file(SCRATCH) if self._keeps_bad_rows else None
        self._job = replace(job, inputs=replace(job.inputs, bad_rows=scratch))
        self._commits = Commits(folder, settings, every, before, late=job.lateness.output is not None)

    def to_the_end(self) -> Record:
        """Take the rest of the input, committing now and then, and give the last commit."""
        digest = Digest(self._job.schema)
        with self._folder.without(SCRATCH), self._job.open() as source, self._commits as commits:
            rest = Rest(source, digest, self._before)
            self._folder.clear(self._before, keep=SCRATCH if self._keeps_bad_rows else "")
            taker = CountingEngine(self._engine, digest, commits.rows)
            late = LateEvents(self._engine, commits.late)
            sink = Sink(self._engine, self._summary, commits.matches, late, self._shown)
            steps = self._steps(taker, rest)
            while (matches := self._next(steps, taker)) is not None:
                self._summary.bad_rows = source.bad_rows  # at the end those behind the last batch, too
                sink.take(matches)
                if commits.due and not taker.ended:
                    self._commit(taker)
            source.close()
            bad_rows = self._folder.adopt(SCRATCH, BAD_ROWS) if self._keeps_bad_rows else None
            record = self._commit(taker, finished=True, bad_rows=bad_rows)
        self._shown.tell(f"{record.number:,} commits; those of this run took {commits.seconds:.3f} s")
        return record

    def interrupted(self) -> None:
        """Say how far the run has come."""
        events, rows = self._engine.metrics()["events"], self._commits.rows
        self._shown.tell(
            f"interrupted after {events:,} events; committed up to row {rows:,}: start the command again to go on"
        )

    @staticmethod
    def _steps(taker: CountingEngine, rest: Rest) -> Iterator[Matches]:
        yield from each(taker, rest)
        yield taker.flush()

    def _next(self, steps: Iterator[Matches], taker: CountingEngine) -> Matches | None:
        """Give the matches of the next step, None at the end. What was found before an error of the input is kept."""
        try:
            return next(steps, None)
        except FastcepError as error:
            if taker.sound and taker.rows > self._commits.rows:
                self._commit(taker)
            if not self._commits.rows:
                error.add_note("nothing is committed yet")
            else:
                more = "" if taker.sound else ", with a larger --memory-limit if that is what it lacks,"
                error.add_note(f"committed up to row {self._commits.rows:,}; start the command again{more} to go on")
            raise

    def _commit(self, taker: CountingEngine, **end: Any) -> Record:
        self._summary.stop(self._earlier + perf_counter() - self._start)
        return self._commits.commit(taker, self._summary, **end)
