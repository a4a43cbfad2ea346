"""History in pieces, wherever these are: a piece, and how something is asked of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa

__all__ = ["History", "Piece", "Pieces"]

Found = TypeVar("Found")
Part = TypeVar("Part")
Result = TypeVar("Result")


class Piece(NamedTuple):
    """A piece of a stream.

    Attributes
    ----------
    table
        Its events, in order: those that it owns, and around them what is needed to know all of these: on either side
        what `fastcep.plan.slicing.slicing_of` says under ``time``, as a rule as long as a window, and one event more
        behind (as long as it has not come, a NEG at the end is not decided).
    base
        How many events of the stream come before it.
    owned
        The place in the piece of the first event that it owns, and that behind the last one.
    """

    table: pa.Table
    base: int
    owned: tuple[int, int]


class History(Protocol):
    """The pieces of a stream, wherever they are, that together own every event once."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def gather(
        self,
        name: str,
        function: Callable[[Piece], Found],
        merge: Callable[[Sequence[Found]], Found],
        split: Callable[[Found], Sequence[Part]],
        each: Callable[[Part], Result],
    ) -> list[Result]:
        """Apply a function to each piece, merge what comes of it, split that, and give what comes of each part.

        ``name`` is for people. Functions, and what they give, can be pickled; ``merge`` may be applied to what it has
        given, in the order of the pieces.
        """
        ...


class Pieces(tuple[Piece, ...]):
    """Pieces in this process."""

    def gather(
        self,
        name: str,
        function: Callable[[Piece], Found],
        merge: Callable[[Sequence[Found]], Found],
        split: Callable[[Found], Sequence[Part]],
        each: Callable[[Part], Result],
    ) -> list[Result]:
        """One after the other, see `History`."""
        return [each(part) for part in split(merge([function(piece) for piece in self]))]
