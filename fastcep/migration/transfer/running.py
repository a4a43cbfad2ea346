"""A migration that runs in a thread beside the stream of its operator."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress
from typing import Any, Self

import pyarrow as pa

from fastcep.errors import DataError, FastcepError, MigrationError, SchemaError, ValidationError
from fastcep.events.batch import as_table
from fastcep.migration.partial_states.protocol import PartialStates
from fastcep.migration.transfer.frames import ProtocolError
from fastcep.migration.transfer.kinds import suspend
from fastcep.migration.transfer.old_host import OldHost, Refused, SendOptions
from fastcep.migration.transfer.options import sentence
from fastcep.migration.transfer.outbox import Held, Outbox
from fastcep.migration.transfer.report import Report, report_of
from fastcep.option_checks import check_whole

__all__ = ["Migration"]

_SUSPENDED = (
    "the state of this operator moves, or has moved, to another host: call the methods of its Migration, or use the "
    "operator of the new host"
)


class Migration:
    """A migration that runs in a thread; made by `start`. Its methods may be called by one thread at a time.

    Leaving a ``with`` block aborts a migration that has not been finished.
    """

    def __init__(self, operator: Any, parts: PartialStates, options: SendOptions, limit: int, begin: float) -> None:
        self._operator, self._parts, self._options = operator, parts, options
        #: The operator of which the states are, also if only these were given.
        self._source = getattr(parts, "operator", None) if operator is None else operator
        self._is_parallel = options.track == "parallel"
        self._outbox = Outbox(limit, keep=not self._is_parallel)
        self._host = OldHost(parts, self._outbox, options, begin)
        self._error: BaseException | None = None
        self._problem: ProtocolError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._started = threading.Event()
        self._ended = threading.Event()
        self._results: list[Any] = []
        self._taken_back = False
        if not self._is_parallel:
            suspend(self._source, _SUSPENDED)
        self._thread = threading.Thread(target=self._run, name="fastcep-migration", daemon=True)
        self._thread.start()
        self._started.wait()

    @property
    def is_ready(self) -> bool:
        """True if `finish` only has to send the last events: the states have been sent, or the migration has ended."""
        return self._host.states_are_sent or self._ended.is_set()

    @property
    def owner(self) -> str:
        """The host that owns the state: ``"old"``, ``"new"`` or ``"unknown"``.

        The old host owns it until the new one confirms, or with ``"hand_over"`` until the first states are sent.
        """
        host = self._host
        if host.done:
            return "new"
        if self._taken_back or isinstance(self._error, Refused):
            return "old"
        if host.stopped:
            return "new" if host.confirmed_states else "unknown"
        return "unknown" if host.committed else "old"

    def process(self, data: Any, **options: Any) -> list[Any]:
        """Process a batch of events as the operator does, as far as it is to be processed here.

        Parameters
        ----------
        data
            The events, as for the operator's ``process``.
        **options
            Further options of the operator's ``process``, of types that JSON can express.

        Returns
        -------
        list
            Results of the operator: one with ``track="parallel"``, none while events are held back, and one for each
            of the batches that were held back once the migration has failed.

        Raises
        ------
        MigrationError
            If the new host owns the state, or the outcome is unknown; the batch is not accepted.
        ValidationError
            If there is only `PartialStates`, no operator; or an option is no JSON.
        """
        if self._operator is None:
            raise ValidationError("operator: only its partial states were given; call start(operator, …)")
        batch = Held(as_table(data, "batch"), _json_options(options))
        if not self._ended.is_set() and not self._outbox.fits(batch):
            self._stop("the events held back exceed buffer_limit", "raise buffer_limit=, or use track='parallel'")
        if self._ended.is_set() or self._outbox.closed:
            return self._process_here(batch)
        if self._is_parallel:
            result = self._process_in_parallel(batch)
            self._outbox.put(batch)
            return [result]
        self._outbox.put(batch)
        return []

    def finish(self) -> Report:
        """Send the remaining states and events, and wait until the new host owns the state.

        Returns
        -------
        Report

        Raises
        ------
        MigrationError
            If that fails. If the old host keeps the state, its operator has processed the events that were held back;
            the error's ``matches`` are their results.
        """
        suspend(self._source, _SUSPENDED)
        self._outbox.close()
        self._ended.wait()
        self._thread.join()
        if self._error is None or self._host.done:
            return self.report()
        error = self._migration_error()
        if self.owner == "old":
            try:
                error.matches = tuple(self._catch_up())
            except FastcepError as problem:
                results, self._results = self._results, []
                if (found := getattr(problem, "matches", None)) is not None:  # the batch was processed in part
                    results.append(found)
                raise MigrationError(
                    f"{error.problem}; the old operator rejected a batch that was held back: {problem}", "old",
                    "Call finish again for the batches after it", report=error.report,
                    matches=tuple(results),
                ) from problem  # fmt: skip
        raise error from self._cause()

    def _cause(self) -> BaseException | None:
        """Return an error that is not of the protocol, for the traceback."""
        return None if isinstance(self._error, (ProtocolError, asyncio.CancelledError)) else self._error

    def abort(self) -> list[Any]:
        """End the migration; the old operator keeps the state and processes the events that were held back.

        Returns
        -------
        list
            The results for these events, one per batch.

        Raises
        ------
        MigrationError
            If the new host owns the state already, or that is unknown.
        """
        self._stop("the migration was aborted", "call start again")
        if self.owner != "old":
            raise self._migration_error()
        return self._catch_up()

    def take_back(self) -> list[Any]:
        """Let the old operator continue after an unknown outcome, or a hand-over that was not confirmed.

        Call it only if you know that the new host has not resumed: if both operators run, matches are reported twice.

        Returns
        -------
        list
            The results of the operator for the events that were held back, one per batch.

        Raises
        ------
        MigrationError
            If the migration goes on, or the new host has confirmed that it owns the state.
        """
        if not self._ended.is_set() or self._host.done:
            raise self._migration_error()
        self._taken_back = True
        return self._catch_up()

    def unprocessed(self, position: int | None = None) -> list[pa.Table]:
        """Return the events that were held back and that the new operator has not processed.

        With ``"hand_over"`` a lost link, or the deadline, may come before they are forwarded. Send them to the new
        operator.

        Parameters
        ----------
        position
            `Received.position` at the new host; None: as it has reported, in `Report.position`.

        Returns
        -------
        list of pyarrow.Table
            The events after this position, in their batches.

        Raises
        ------
        MigrationError
            If the migration goes on, or the old host keeps the state.
        ValidationError
            If the new host has not reported its position, and none is given.
        """
        if not self._ended.is_set() or self.owner == "old":
            raise self._migration_error()
        if position is None and not self._host.done:
            raise ValidationError("position: the new host has not reported it; give Received.position of the new host")
        reached = self.report().position if position is None else position
        check_whole("position", reached, self._parts.position)
        return self._outbox.after(reached - self._parts.position)

    def report(self) -> Report:
        """Return the report of the migration until now."""
        parts, outbox = self._parts, self._outbox
        return report_of(self._host, parts.states, parts.position, outbox.forwarded_events, outbox.waiting)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ended.is_set():
            with suppress(MigrationError):
                self._results = self.abort()
        elif self.owner == "old":
            self._results = self._catch_up()  # `abort` returns them

    def _run(self) -> None:
        try:
            asyncio.run(self._run_task())
        except BaseException as error:  # of asyncio itself
            self._error = self._error or error
        finally:
            self._ended.set()
            self._started.set()

    async def _run_task(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._started.set()
        try:
            await self._host.run()
        except BaseException as error:
            self._error = error

    def _stop(self, problem: str, remedy: str) -> None:
        """End the thread, unless the new host has been asked to take over; then wait for its answer."""
        if not self._ended.is_set():
            self._problem = ProtocolError(problem, remedy)

            def cancel() -> None:
                if self._task is not None and not self._host.committed:
                    self._task.cancel()

            assert self._loop is not None
            with suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(cancel)
        self._ended.wait()
        self._thread.join()

    def _process_in_parallel(self, batch: Held) -> Any:
        try:
            return self._operator.process(batch.table, **batch.options)
        except (SchemaError, DataError, ValidationError):
            raise  # the whole batch is rejected
        except BaseException:
            self._stop("the old operator failed in a batch of events", "see the error of the operator")
            raise

    def _process_here(self, batch: Held) -> list[Any]:
        """Process a batch after the migration has ended without success."""
        if self._error is None or self.owner != "old":
            raise self._migration_error()
        results = self._catch_up()
        self._results = results  # not lost if the operator rejects the batch
        results = [*results, self._operator.process(batch.table, **batch.options)]
        self._results = []
        return results

    def _catch_up(self) -> list[Any]:
        """Let the old operator process the events that were held back."""
        suspend(self._source, "")
        while not self._is_parallel and (batch := self._outbox.take_back()) is not None:
            self._results.append(self._operator.process(batch.table, **batch.options))
        results, self._results = self._results, []
        return results

    def _migration_error(self) -> MigrationError:
        """Return the error that describes the state of the migration."""
        error: Any = self._error
        if isinstance(error, asyncio.CancelledError) and self._problem is not None:
            error = self._problem
        if self._host.done:
            problem, remedy = "the new host has taken over", "Send the events to the new host"
        elif error is None:
            problem, remedy = "the migration goes on", "Call finish or abort first"
        elif isinstance(error, ProtocolError):
            problem, remedy = error.problem, sentence(error.remedy)
        elif isinstance(error, FastcepError):
            problem, remedy = str(error), "Fix that, and call it again"
        else:
            problem, remedy = repr(error), "See the error above"
        if self.owner == "unknown" or (self.owner == "new" and not self._host.done):
            report = self.report()
            remedy = (
                f"Not confirmed: {len(report.unconfirmed):,} of {report.sent_states:,} states that were sent, and "
                f"{report.forwarded_events + report.unforwarded_events:,} events. Check the new host; only if it has "
                "not resumed, call take_back"
            )
        return MigrationError(problem, self.owner, remedy, report=self.report())


def _json_options(options: dict[str, Any]) -> dict[str, Any]:
    try:
        text = json.dumps(options, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValidationError(f"options of process: {error}; expected values that JSON can express") from None
    same: dict[str, Any] = json.loads(text)
    if same != options:
        raise ValidationError("options of process: expected values that JSON can express, such as texts and numbers")
    return same
