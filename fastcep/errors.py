"""The exceptions that fastcep raises.

Every message says what was found, what was expected and how to fix it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "CapacityError",
    "DataError",
    "FastcepError",
    "InstanceError",
    "MemoryLimitError",
    "MigrationError",
    "ModelError",
    "OrderError",
    "OverLimit",
    "ParseError",
    "QueryError",
    "QueryWarning",
    "QueueFullError",
    "SchemaError",
    "SnapshotError",
    "ValidationError",
]


#: Characters that a message shows of a long text, such as a name, a value or an expression.
_SHOWN = 80
#: A message shows only a part of a query line that is longer than this.
_LONGEST_LINE = 1000
_LONG = re.compile(r"""(?<!\w)'[^'\n]{500,}'(?!\w)|(?<!\w)"[^"\n]{500,}"(?!\w)|\S{500,}""")


def shortened(text: str) -> str:
    """Shorten a text for a message: its first characters, an ellipsis and the full length."""
    return text if len(text) <= _SHOWN + 40 else f"{text[:_SHOWN]}… ({len(text):,} characters)"


def _readable(message: str) -> str:
    """Shorten long words and quoted texts of a message, such as names and values, to keep the message readable."""
    return _LONG.sub(lambda match: shortened(match[0]), message)


class FastcepError(Exception):
    """Base class of all errors that fastcep raises on purpose."""

    def __str__(self) -> str:
        return _readable(super().__str__())


class SchemaError(FastcepError):
    """A schema is wrong, or data does not have the shape that its schema declares."""


class ValidationError(FastcepError):
    """A query, an option or a call is well formed but cannot be carried out."""


class DataError(FastcepError):
    """A value of the input is wrong; the message names the file (if any), the row and the column."""


class OrderError(DataError):
    """The input is out of time order, and ``allowed_lateness`` is not set.

    Parameters
    ----------
    problem, remedy
        Parts of the message: what was found and expected, and how to fix it.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return _readable(f"{self.problem}; {self.remedy}")


@dataclass(frozen=True, slots=True)
class OverLimit:
    """A query that ran out of memory.

    Attributes
    ----------
    query
        Name of the query.
    event
        Position in the stream, from 0, of the event for which there was no memory. The query skipped this event and
        the rest of its batch. If the event is the first of its batch, the query may instead have freed memory that all
        queries share, and have processed the batch.
    dropped
        Number of partial matches that the query lost.
    """

    query: str
    event: int
    dropped: int


class MemoryLimitError(FastcepError):
    """An engine reached its memory limit. It can continue.

    Attributes
    ----------
    problem, remedy
        Parts of the message: what happened, and how to fix it.
    matches
        The `fastcep.Matches` that the call found, or None if the whole batch was rejected.
    over
        The queries that ran out of memory, as `OverLimit`; empty if the whole batch was rejected.
    """

    def __init__(self, problem: str, remedy: str, matches: Any = None, over: tuple[OverLimit, ...] = ()) -> None:
        super().__init__(problem, remedy, matches, over)
        self.problem = problem
        self.remedy = remedy
        self.matches = matches
        self.over = over

    def __str__(self) -> str:
        return _readable(f"{self.problem}. {self.remedy}")


class QueryError(FastcepError):
    """Some queries of an engine failed in a call, for a reason other than the memory limit.

    Attributes
    ----------
    failed
        The exception of each failed query, by name of the query.
    matches
        The `fastcep.Matches` that the call found.
    """

    def __init__(self, failed: Mapping[str, Exception], matches: Any) -> None:
        super().__init__(failed, matches)
        self.failed = failed
        self.matches = matches

    def __str__(self) -> str:
        reasons = "; ".join(f"{name!r}: {type(error).__name__}: {error}" for name, error in self.failed.items())
        return _readable(
            f"failed: {reasons}. The other queries processed the whole batch; the matches are in the error's .matches, "
            "and the engine can continue. Please report the query and this message"
        )


class InstanceError(FastcepError):
    """An instance of a `ParallelEngine` failed, or instances died repeatedly; the engine is closed.

    Attributes
    ----------
    matches
        The `fastcep.Matches` that were found until then, and that no call has returned.
    """

    def __init__(self, message: str, matches: Any) -> None:
        super().__init__(message, matches)
        self.matches = matches

    def __str__(self) -> str:
        return _readable(f"{self.args[0]}; the engine is closed, and the error's .matches are those until then")


class CapacityError(FastcepError):
    """No allowed number of instances keeps a queue below its limit with the required probability.

    Attributes
    ----------
    probability
        The highest probability that can be reached; 0 if the queue would grow without limit.
    """

    def __init__(self, message: str, probability: float) -> None:
        super().__init__(message, probability)
        self.probability = probability

    def __str__(self) -> str:
        return _readable(str(self.args[0]))


class MigrationError(FastcepError):
    """The state of an operator was not moved, or it is not known whether it was.

    Attributes
    ----------
    problem, remedy
        Parts of the message: what happened, and how to fix it.
    owner
        The host that has the state now: ``"old"``, ``"new"``, ``"unknown"``, or ``"none"`` if it is lost.
    report
        The `Report` of the old host until then; None at the new host, and if nothing was begun.
    matches
        Results of the old operator for the batches that were held back during the migration and that no other call
        returns, one per batch.
    """

    def __init__(
        self, problem: str, owner: str, remedy: str, *, report: Any = None, matches: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(problem, owner, remedy)
        self.problem = problem
        self.owner = owner
        self.remedy = remedy
        self.report = report
        self.matches = matches

    def __str__(self) -> str:
        state = {
            "old": "The old host keeps the state, and its operator can continue",
            "new": "The new host owns the state, and the old operator has stopped",
            "none": "No host owns the state",
        }.get(self.owner, "It is not known which host owns the state, so the old operator has stopped")
        return _readable(f"{self.problem}. {state}. {self.remedy}")


class ModelError(FastcepError):
    """A shedder has no model, or its model was fitted for another query or schema."""


class QueueFullError(FastcepError):
    """An input queue stayed full for the whole time-out.

    Attributes
    ----------
    problem, remedy
        Parts of the message: what happened, and how to fix it.
    taken
        Number of events, from the first of the batch, that are in the queue.
    """

    def __init__(self, problem: str, remedy: str, taken: int = 0) -> None:
        super().__init__(problem, remedy, taken)
        self.problem = problem
        self.remedy = remedy
        self.taken = taken

    def __str__(self) -> str:
        return _readable(f"{self.problem}; {self.remedy}")


class SnapshotError(FastcepError):
    """A snapshot is damaged, has an unsupported version, or was written by a different engine."""


class ParseError(FastcepError):
    """A query text is wrong.

    Parameters
    ----------
    message
        What is wrong, what was expected, and a suggestion.
    source
        The full query text.
    line, column
        One-based position of the error.
    length
        Number of characters to underline (at least 1).
    filename
        Name of the file, or None for text given in a call.
    """

    def __init__(
        self,
        message: str,
        source: str | None = None,
        line: int | None = None,
        column: int | None = None,
        length: int = 1,
        filename: str | None = None,
    ) -> None:
        self.message: str = _readable(message)
        self.source = source
        self.line = line
        self.column = column
        self.length: int = max(1, length)
        self.filename = filename
        super().__init__(self._render())

    def _render(self) -> str:
        if self.source is None or self.line is None or self.column is None:
            return self.message
        place = f"{self.filename or 'query'}:{self.line}:{self.column}"
        lines = self.source.splitlines() or [""]
        text = lines[self.line - 1] if self.line <= len(lines) else ""
        first, last = 0, len(text)
        if len(text) > _LONGEST_LINE:  # show the text around the error
            first = max(0, self.column - 1 - _SHOWN // 2)
            last = first + _SHOWN
        width = min(self.length, max(1, min(len(text), last) - self.column + 1))
        prefix, suffix = "…" * (first > 0), "…" * (last < len(text))
        marker = " " * (len(prefix) + self.column - 1 - first) + "^" * width
        return f"{place}: {self.message}\n  {prefix}{text[first:last]}{suffix}\n  {marker}"


class QueryWarning(UserWarning):
    """A query is valid but hardly means what it says; the message has the place and the remedy."""
