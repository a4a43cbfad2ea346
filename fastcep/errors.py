"""The exceptions of fastcep: what a user can catch, and nothing else.

Every message says what was found, what was expected and how to mend it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "DataError",
    "FastcepError",
    "MemoryLimitError",
    "ModelError",
    "OrderError",
    "OverLimit",
    "ParseError",
    "QueryError",
    "QueueFullError",
    "SchemaError",
    "SnapshotError",
    "ValidationError",
]


#: How much of a long text, such as a name, a value or an expression, a message shows.
_SHOWN = 80
#: Length of a line of a query from which on a message shows a part of it only.
_LONGEST_LINE = 1000
_LONG = re.compile(r"""(?<!\w)'[^'\n]{500,}'(?!\w)|(?<!\w)"[^"\n]{500,}"(?!\w)|\S{500,}""")


def shortened(text: str) -> str:
    """Cut a text for a message: its first characters, an ellipsis and the length of all of it."""
    return text if len(text) <= _SHOWN + 40 else f"{text[:_SHOWN]}… ({len(text):,} characters)"


def _readable(message: str) -> str:
    """Cut the long words and quoted texts of a message, such as names and values, which would bury what it says."""
    return _LONG.sub(lambda word: shortened(word[0]), message)


class FastcepError(Exception):
    """Base class of every error that fastcep raises on purpose."""

    def __str__(self) -> str:
        return _readable(super().__str__())


class SchemaError(FastcepError):
    """A schema is wrong, or data does not have the shape that its schema declares."""


class ValidationError(FastcepError):
    """A query, an option or a call is well formed but cannot be carried out."""


class DataError(FastcepError):
    """A value of the input is wrong; the message names the file (if any), the row and the column."""


class OrderError(DataError):
    """The input runs backwards in time, and no ``allowed_lateness`` lets it.

    Parameters
    ----------
    what
        What was found and expected.
    mend
        What to do about it.
    """

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(what, mend)
        self.what = what
        self.mend = mend

    def __str__(self) -> str:
        return _readable(f"{self.what}; {self.mend}")


@dataclass(frozen=True, slots=True)
class OverLimit:
    """A query that needed more memory than it may hold.

    Attributes
    ----------
    query
        Its name.
    event
        Number, by order of the stream from 0, of the event for which there was no room. The query took neither it nor
        the rest of its batch; but if it is the first of a batch, it may have given way to what all queries share, and
        have taken the batch.
    dropped
        How many partial matches it lost.
    """

    query: str
    event: int
    dropped: int


class MemoryLimitError(FastcepError):
    """An engine came to its memory limit; it can go on.

    Attributes
    ----------
    what, mend
        The two parts of the message: what happened, and what to do about it.
    matches
        The `fastcep.Matches` that the call found, or None if nothing of its batch was taken.
    over
        The queries concerned, as `OverLimit`; empty if nothing of the batch was taken.
    """

    def __init__(self, what: str, mend: str, matches: Any = None, over: tuple[OverLimit, ...] = ()) -> None:
        super().__init__(what, mend, matches, over)
        self.what = what
        self.mend = mend
        self.matches = matches
        self.over = over

    def __str__(self) -> str:
        return _readable(f"{self.what}. {self.mend}")


class QueryError(FastcepError):
    """A query of an engine failed in a call, for another reason than the memory limit; the others did not.

    Attributes
    ----------
    failed
        What happened, by the name of the query.
    matches
        The `fastcep.Matches` that the call found.
    """

    def __init__(self, failed: Mapping[str, Exception], matches: Any) -> None:
        super().__init__(failed, matches)
        self.failed = failed
        self.matches = matches

    def __str__(self) -> str:
        told = "; ".join(f"{name!r}: {type(error).__name__}: {error}" for name, error in self.failed.items())
        return _readable(
            f"failed: {told}. The other queries took the whole batch, and the matches found are in the error's "
            ".matches; the engine can go on. Query and message are worth a report"
        )


class ModelError(FastcepError):
    """A shedder has no model, or one of another query or schema than it is to shed for."""


class QueueFullError(FastcepError):
    """An input queue has no room, and the time to wait for some is over.

    Attributes
    ----------
    what, mend
        The two parts of the message: what happened, and what to do about it.
    taken
        How many events of the batch are in the queue, from its first one on.
    """

    def __init__(self, what: str, mend: str, taken: int = 0) -> None:
        super().__init__(what, mend, taken)
        self.what = what
        self.mend = mend
        self.taken = taken

    def __str__(self) -> str:
        return _readable(f"{self.what}; {self.mend}")


class SnapshotError(FastcepError):
    """A snapshot is damaged, of another version, or of another engine than it is given to."""


class ParseError(FastcepError):
    """A query text is wrong.

    Parameters
    ----------
    message
        What is wrong, what was expected, a suggestion.
    source
        The whole text.
    line, column
        One-based position of the fault.
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
        self.message = _readable(message)
        self.source = source
        self.line = line
        self.column = column
        self.length = max(1, length)
        self.filename = filename
        super().__init__(self._render())

    def _render(self) -> str:
        if self.source is None or self.line is None or self.column is None:
            return self.message
        place = f"{self.filename or 'query'}:{self.line}:{self.column}"
        lines = self.source.splitlines() or [""]
        text = lines[self.line - 1] if self.line <= len(lines) else ""
        first, last = 0, len(text)
        if len(text) > _LONGEST_LINE:  # show what is around the fault
            first = max(0, self.column - 1 - _SHOWN // 2)
            last = first + _SHOWN
        width = min(self.length, max(1, min(len(text), last) - self.column + 1))
        before, behind = "…" * (first > 0), "…" * (last < len(text))
        marker = " " * (len(before) + self.column - 1 - first) + "^" * width
        return f"{place}: {self.message}\n  {before}{text[first:last]}{behind}\n  {marker}"
