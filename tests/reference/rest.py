"""The remaining pattern of a partial match: what it may still bind, event by event.

Each part of a pattern is in one of these nodes, which hold only what can still come: a part of a SEQ is removed when
a later one is bound, the branches of an OR when another is taken. `ways` lists how one event can be bound, with the
pattern that then remains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fastcep.query import ast
from reference.chosen import numbered

ShedderFit = Callable[[int], bool]  # whether the event may be bound to the variable of this number
Adjacent = Callable[[int], bool]  # whether nothing lies between this position and the event


@dataclass(frozen=True)
class Variable:
    """A variable: at least ``minimum`` and at most ``maximum`` more events; ``latest`` is the position of the last."""

    variable: int
    minimum: int
    maximum: int | None
    consecutive: bool = False
    latest: int | None = None


@dataclass(frozen=True)
class Negated:
    """A negated variable."""


@dataclass(frozen=True)
class InOrder:
    """SEQ. ``adjacent``: which parts have NEXT before them and are not started; ``latest``: its last event so far."""

    parts: tuple[Rest, ...]
    adjacent: tuple[bool, ...]
    latest: int | None = None


@dataclass(frozen=True)
class AnyOrder:
    """AND."""

    parts: tuple[Rest, ...]


@dataclass(frozen=True)
class Either:
    """OR, no branch taken."""

    parts: tuple[Rest, ...]


@dataclass(frozen=True)
class AnyOf:
    """ANY: ``count`` more of the parts."""

    count: int
    parts: tuple[Rest, ...]


@dataclass(frozen=True)
class Rounds:
    """A group: ``begun`` remains of round number ``turn`` (None: none has started); ``whole`` is a complete round."""

    whole: Rest
    minimum: int
    maximum: int | None
    consecutive: bool
    begun: Rest | None = None
    turn: int = 0
    latest: int | None = None

    @property
    def another(self) -> bool:
        """Return True if one more round may start."""
        begun = 0 if self.begun is None else self.turn + 1
        return self.maximum is None or begun < self.maximum


Rest = Variable | Negated | InOrder | AnyOrder | Either | AnyOf | Rounds


@dataclass(frozen=True)
class Way:
    """A way to bind an event.

    Attributes
    ----------
    variable, round
        The variable, and the round if it is in a group.
    rest
        The remaining pattern.
    enters
        True if it enters an optional group.
    """

    variable: int
    round: int
    rest: Rest
    enters: bool = False


def rest_of(pattern: ast.Pattern, number: int) -> Rest:
    """Return the remaining pattern if nothing is bound; ``number`` is that of its first variable."""
    parts = tuple(rest_of(*part) for part in numbered(pattern, number))
    match pattern:
        case ast.Variable():
            return Variable(number, pattern.minimum, pattern.maximum, pattern.consecutive)
        case ast.Negation():
            return Negated()
        case ast.Sequence():
            return InOrder(parts, tuple(place in pattern.adjacent for place in range(len(parts))))
        case ast.Aperiodic():
            return InOrder(parts[:2], (False, False))
        case ast.Periodic():
            return parts[0]
        case ast.Until():
            return parts[0]
        case ast.Conjunction():
            return AnyOrder(parts)
        case ast.Disjunction():
            return Either(parts)
        case ast.AnyOf():
            return parts[0] if pattern.variables[0].repeated else AnyOf(pattern.count, parts)
    assert isinstance(pattern, ast.Group), pattern
    return Rounds(parts[0], pattern.minimum, pattern.maximum, pattern.consecutive)


def may_end(rest: Rest) -> bool:
    """Return True if no more events need be bound."""
    match rest:
        case Variable():
            return rest.minimum == 0
        case Negated():
            return True
        case InOrder() | AnyOrder():
            return all(map(may_end, rest.parts))
        case Either():
            return any(map(may_end, rest.parts))
        case AnyOf():
            return rest.count == 0
        case Rounds(begun=None):
            return rest.minimum == 0
    assert rest.begun is not None
    return may_end(rest.begun) and rest.turn + 1 >= rest.minimum


def open_variables(rest: Rest) -> set[int]:
    """Return the variables to which an event may still be bound, now or later."""
    match rest:
        case Variable():
            return set() if rest.maximum == 0 else {rest.variable}
        case Negated() | AnyOf(count=0):
            return set()
        case Rounds():
            begun = set() if rest.begun is None else open_variables(rest.begun)
            return begun | (open_variables(rest.whole) if rest.another else set())
    return set().union(*map(open_variables, rest.parts))


def ways(rest: Rest, position: int, fits: ShedderFit, adjacent: Adjacent, turn: int = 0) -> Iterator[Way]:
    """Yield every way to bind the event at a position; ``turn`` is the round, in a group."""
    match rest:
        case Variable():
            follows = not rest.consecutive or rest.latest is None or adjacent(rest.latest)
            if rest.maximum != 0 and follows and fits(rest.variable):
                most = None if rest.maximum is None else rest.maximum - 1
                yield Way(
                    rest.variable, turn, replace(rest, minimum=max(0, rest.minimum - 1), maximum=most, latest=position)
                )
        case InOrder():
            yield from ways_in_order(rest, position, fits, adjacent, turn)
        case AnyOrder(parts):
            for k, part in enumerate(parts):
                for way in ways(part, position, fits, adjacent, turn):
                    yield replace(way, rest=AnyOrder((*parts[:k], way.rest, *parts[k + 1 :])))
        case Either(parts):
            for part in parts:
                yield from ways(part, position, fits, adjacent, turn)
        case AnyOf(count, parts) if count > 0:
            for k, part in enumerate(parts):
                for way in ways(part, position, fits, adjacent, turn):
                    yield replace(way, rest=AnyOf(count - 1, (*parts[:k], *parts[k + 1 :])))
        case Rounds():
            yield from ways_in_rounds(rest, position, fits, adjacent)


def ways_in_order(rest: InOrder, position: int, fits: ShedderFit, adjacent: Adjacent, turn: int) -> Iterator[Way]:
    """Yield ways in the first part, or in a later one if all parts before it may end; skipped parts are removed."""
    for k, part in enumerate(rest.parts):
        if not rest.adjacent[k] or rest.latest is None or adjacent(rest.latest):
            for way in ways(part, position, fits, adjacent, turn):
                behind = rest.parts[k + 1 :], rest.adjacent[k + 1 :]
                yield replace(way, rest=InOrder((way.rest, *behind[0]), (False, *behind[1]), position))
        if not may_end(part):
            return


def ways_in_rounds(rest: Rounds, position: int, fits: ShedderFit, adjacent: Adjacent) -> Iterator[Way]:
    """Yield ways in the current round, or in a new one if the current round may end."""
    if rest.begun is not None:
        for way in ways(rest.begun, position, fits, adjacent, rest.turn):
            yield replace(way, rest=replace(rest, begun=way.rest, latest=position))
        follows = not rest.consecutive or rest.latest is None or adjacent(rest.latest)
        if not may_end(rest.begun) or not rest.another or not follows:
            return
    turn = 0 if rest.begun is None else rest.turn + 1
    for way in ways(rest.whole, position, fits, adjacent, turn):
        enters = rest.begun is None and rest.minimum == 0
        yield replace(way, rest=replace(rest, begun=way.rest, turn=turn, latest=position), enters=enters)
