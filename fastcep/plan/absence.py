"""Checks that no event of a negated variable occurred, before they are placed on edges and states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fastcep.plan.automaton import YES, Edge, Negated
from fastcep.plan.conjuncts import Conjunct, guarded
from fastcep.plan.ir import TRUE, Op, equality, key_pair, quantity, transform
from fastcep.plan.placement import ForAll, Placer, of_last_rounds

__all__ = ["Absence", "Absences", "absence_of"]


@dataclass(frozen=True, slots=True)
class Absence:
    """Check that no event of ``negated.variable`` between its neighbours satisfies all of these conditions.

    Attributes
    ----------
    keys
        Pairs of a state view and a value of the event that must be equal.
    conditions
        State views with ``neg`` leaves.
    walks
        State views with ``neg`` and ``elem`` leaves, for all elements; in a group, for the round of the neighbours.
    latest
        In a group: whether the check covers only the latest round, not all rounds.
    guard
        State view that is true if the conditions are decided, so that the check can run.
    """

    negated: Negated
    keys: tuple[tuple[Op, Op], ...]
    conditions: tuple[Op, ...]
    walks: tuple[ForAll, ...]
    latest: bool = False
    guard: Op = TRUE


@dataclass(slots=True)
class Absences:
    """Checks by place: on edges, where a match ends, and at the end of its window."""

    on_edge: dict[Edge, list[Absence]] = field(default_factory=dict)
    on_accept: dict[int, list[Absence]] = field(default_factory=dict)
    at_end: dict[int, list[Absence]] = field(default_factory=dict)
    #: State views of the times at which the silences of a state that ends a match have passed.
    dues: dict[int, list[Op]] = field(default_factory=dict)


def absence_of(placer: Placer, negated: Negated, items: list[Conjunct], crossing: Sequence[Edge] = ()) -> Absence:
    """Return the check of all rounds, or of the latest round if it runs on the edges ``crossing``."""
    keys: list[tuple[Op, Op]] = []
    conditions: list[Op] = []
    walks: list[ForAll] = []
    for name in placer.same:
        dtype = placer.translate.dtype(negated.variable, name)
        keys.append(key_pair(quantity("part", dtype, -1, 0, name), Op("neg", dtype, (), (negated.variable, name))))
    for item in items:
        if item.elements() and not crossing:
            walks.append(ForAll(item.guard, item.expr))
            continue
        condition = of_last_rounds(item, 0) if item.elements() else guarded(item.guard, item.expr)
        condition = _fold_round_tests(condition, crossing)
        pair = equality(condition, "neg")
        if pair is not None:
            keys.append(pair)
        elif condition != TRUE:
            conditions.append(condition)
    return Absence(negated, tuple(dict.fromkeys(keys)), tuple(conditions), tuple(walks), bool(crossing))


def _fold_round_tests(expr: Op, crossing: Sequence[Edge]) -> Op:
    """Replace ``has_last`` tests of variables that the current round binds on all of the edges."""

    def leaf(node: Op) -> Op | None:
        tests_last_round = node.name == "q" and node.data[0] == "has_last" and node.data[2] == 0
        return TRUE if tests_last_round and all(edge.now[node.data[1]] == YES for edge in crossing) else None

    return transform(expr, leaf) if crossing else expr
