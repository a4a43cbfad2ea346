"""``NEG N n FOR t`` in the reference matcher: where each silence begins, and what is bound after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fastcep.query import ast
from fastcep.query.patterns import is_nullable
from reference.chosen import Chosen, bound_in, numbered


@dataclass(frozen=True)
class Silence:
    """No event of a negated variable may come after position ``low``, up to so many nanoseconds after its event.

    ``high`` is the position of the first event that is bound after the silence, and must come later than that; None if
    nothing is.
    """

    variable: int
    low: int
    high: int | None
    nanoseconds: int


def silences_of(
    pattern: ast.Pattern, number: int, chosen: Chosen, low: int | None = None, high: int | None = None
) -> Iterator[Silence]:
    """Yield the silences that apply, given the last position bound before the pattern and the first one after it."""
    parts = numbered(pattern, number)
    match pattern:
        case ast.Negation():
            if pattern.nanoseconds is not None and low is not None:
                yield Silence(number, low, high, pattern.nanoseconds)
        case ast.Sequence():
            for place, part in enumerate(parts):
                before = [pair.position for other in parts[:place] for pair in bound_in(*other, chosen)]
                behind = [pair.position for other in parts[place + 1 :] for pair in bound_in(*other, chosen)]
                yield from silences_of(*part, chosen, max(before, default=low), min(behind, default=high))
        case ast.Conjunction():
            for part in parts:
                yield from silences_of(*part, chosen, low, high)
        case ast.Disjunction():
            taken = [part for part in parts if bound_in(*part, chosen)]
            for part in taken or [part for part in parts if is_nullable(part[0])]:
                yield from silences_of(*part, chosen, low, high)
