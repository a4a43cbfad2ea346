"""What a conjunct asks: its expression, when it applies, and when it can be decided."""

from __future__ import annotations

from dataclasses import dataclass

from fastcep.plan.automaton import START, YES, Automaton, Edge, State
from fastcep.plan.ir import FALSE, TRUE, Op, all_of, const, count, leaves, quantity
from fastcep.plan.rewrite import any_bound, is_bound
from fastcep.plan.translate import Translator
from fastcep.query import ast

__all__ = ["Conjunct", "guarded", "read_conjunct"]


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A top-level conjunct of WHERE.

    Attributes
    ----------
    expr, guard
        State views; the conjunct must hold if the guard does, else it does not apply.
    mentioned
        Its members.
    bound, closed
        Variables that must be bound, or that nothing may be bound to any more, before it can be decided.
    branches
        Branches of an OR of which it must be known whether they are taken.
    """

    expr: Op
    guard: Op
    mentioned: tuple[int, ...] = ()
    bound: frozenset[int] = frozenset()
    closed: frozenset[int] = frozenset()
    branches: tuple[tuple[int, ...], ...] = ()

    def decided(self, state: State) -> bool:
        """Whether nothing that may still come changes it."""
        return (
            all(state.bound[v] == YES or v not in state.open for v in self.bound)
            and not self.closed & state.open
            and all(
                any(state.bound[v] == YES for v in branch) or not state.open.intersection(branch)
                for branch in self.branches
            )
        )

    def decided_by(self, edge: Edge, states: tuple[State, ...]) -> bool:
        """Whether it is decided behind the edge and not before it."""
        return self.decided(states[edge.target]) and (edge.source == START or not self.decided(states[edge.source]))

    def elements(self) -> set[int]:
        """Members whose elements it goes through by ``[i]``."""
        return {leaf.data[0] for leaf in leaves(self.expr) if leaf.name == "elem"}


def read_conjunct(conjunct: ast.Expr, translate: Translator, places: Automaton) -> Conjunct:
    """Translate a conjunct and find out on what it depends."""
    expr = translate(conjunct)
    named = sorted(translate.variables[name] for name in ast.variables(conjunct))
    counted = {v for v in named if _only_counted(conjunct, v, translate)}
    guards: list[Op] = []
    branches: list[tuple[int, ...]] = []
    for variable in named:
        whole = _whole(variable, places)
        if variable in counted:
            if variable in places.branches:
                guards.append(any_bound(places.branches[variable]))
                branches.append(places.branches[variable])
        elif not places.mandatory(whole) and not _negated(variable, places):
            guards.append(is_bound(whole))
    bound, closed = set[int](), set[int]()
    for leaf in leaves(expr):
        guards += _guards(leaf, places)
        if leaf.name == "elem":
            closed.add(_whole(leaf.data[0], places))
        elif leaf.name == "q":
            kind, variable = leaf.data[:2]
            whole = _whole(variable, places)
            single = variable < len(places.leaves) and (not places.leaves[variable].repeated or kind == "first")
            (bound if single and whole == variable else closed).add(whole)
    return Conjunct(
        expr,
        all_of(list(dict.fromkeys(guards))),
        tuple(v for v in named if v < len(places.leaves)),
        frozenset(bound),
        frozenset(closed),
        tuple(branches),
    )


def guarded(guard: Op, expr: Op) -> Op:
    """``expr`` if ``guard`` holds, else true."""
    if guard == TRUE:
        return expr
    return TRUE if guard == FALSE else Op("guard", "b", (guard, expr))


def _whole(variable: int, places: Automaton) -> int:
    """The group of a member, or the variable itself."""
    if variable < len(places.leaves) and places.chain[variable] >= 0:
        return places.chain[variable]
    return variable


def _negated(variable: int, places: Automaton) -> bool:
    return variable < len(places.leaves) and places.leaves[variable].negated


def _guards(leaf: Op, places: Automaton) -> list[Op]:
    """What must be there for one mention to mean anything: the element, or a round that binds the variable."""
    if leaf.name != "q" or leaf.data[0] == "count":
        return []
    kind, member, extra, _ = leaf.data
    group = places.chain[member]
    if group >= 0 and places.leaves[member].optional:
        named = kind in ("first", "last", "at")
        return [quantity(f"has_{kind}", "b", member, extra) if named else is_bound(member)]
    if kind != "at":
        return []
    return [Op("lt_i", "b", (const(extra, "i"), count(member if group < 0 else group)))]


def _only_counted(conjunct: ast.Expr, variable: int, translate: Translator) -> bool:
    return all(
        isinstance(part, ast.Aggregate) and part.name is None
        for part in ast.walk(conjunct)
        if isinstance(part, ast.Attribute | ast.Aggregate) and translate.variables[part.leaf] == variable
    )
