"""History in pieces, in this process or elsewhere: a piece, and a map-reduce over all pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa

__all__ = ["History", "Piece", "Pieces"]

Item = TypeVar("Item", covariant=True)
Answer = TypeVar("Answer")
Part = TypeVar("Part")
Result = TypeVar("Result")


class Piece(NamedTuple):
    """A piece of a stream.

    Attributes
    ----------
    table
        Events in order: those that the piece owns, and on either side the context that
        `fastcep.plan.slicing.slicing_of` gives under ``time``, usually the length of a window. One more event follows,
        without which a NEG at the end of the pattern is undecided.
    base
        Number of events of the stream before the piece.
    owned
        Positions in the piece of the first owned event, and of the one after the last.
    """

    table: pa.Table
    base: int
    owned: tuple[int, int]


class History(Protocol[Item]):
    """Pieces of a stream that together own every event once, or what was made of them; in this process or elsewhere."""

    def __len__(self) -> int:
        """Return the number of pieces."""
        ...

    def map(self, name: str, function: Callable[[Item], Result]) -> History[Result]:
        """Apply a function to each piece, and keep the results for all later steps. They can be pickled."""
        ...

    def gather(
        self,
        name: str,
        function: Callable[[Item], Answer],
        merge: Callable[[Sequence[Answer]], Answer],
        split: Callable[[Answer], Sequence[Part]],
        each: Callable[[Part], Result],
    ) -> list[Result]:
        """Apply a function to each piece, merge the results, split the merged result, and map ``each`` over the parts.

        ``name`` describes the step. Functions and their results can be pickled. ``merge`` is associative: it may be
        applied to its own results, in the order of the pieces.
        """
        ...


class Pieces(tuple[Item, ...], History[Item]):
    """Pieces in this process, see `History`."""

    def map(self, name: str, function: Callable[[Item], Result]) -> Pieces[Result]:
        """Apply a function to each piece."""
        return type(self)(map(function, self))  # type: ignore[arg-type, return-value]  # of another type of pieces

    def gather(
        self,
        name: str,
        function: Callable[[Item], Answer],
        merge: Callable[[Sequence[Answer]], Answer],
        split: Callable[[Answer], Sequence[Part]],
        each: Callable[[Part], Result],
    ) -> list[Result]:
        """Process the pieces one after the other."""
        return [each(part) for part in split(merge([function(piece) for piece in self]))]
