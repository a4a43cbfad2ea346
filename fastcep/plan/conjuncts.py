"""Conjuncts of WHERE: the expression, when it applies, and when it can be decided."""

from __future__ import annotations

from dataclasses import dataclass

from fastcep.plan.automaton import START, YES, Automaton, Edge, State
from fastcep.plan.ir import FALSE, TRUE, Op, all_of, const, count, leaves, quantity
from fastcep.plan.rewrite import any_bound, is_bound
from fastcep.plan.translate import Translator
from fastcep.query import ast, traversal

__all__ = ["Conjunct", "guarded", "read_conjunct"]


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A top-level conjunct of WHERE.

    Attributes
    ----------
    expr, guard
        State views; the conjunct must hold if the guard holds, and does not apply otherwise.
    mentioned
        Variables that it mentions.
    bound, closed
        Variables that must be bound, or closed (no further event can be bound to them), before it can be decided.
    branches
        Branches of an OR for which it must be known whether they are taken.
    """

    expr: Op
    guard: Op
    mentioned: tuple[int, ...] = ()
    bound: frozenset[int] = frozenset()
    closed: frozenset[int] = frozenset()
    branches: tuple[tuple[int, ...], ...] = ()

    def decided(self, state: State) -> bool:
        """Return whether no later event can change the conjunct's value."""
        return (
            all(state.bound[v] == YES or v not in state.open for v in self.bound)
            and not self.closed & state.open
            and all(
                any(state.bound[v] == YES for v in branch) or not state.open.intersection(branch)
                for branch in self.branches
            )
        )

    def decided_by(self, edge: Edge, states: tuple[State, ...]) -> bool:
        """Return whether it is decided after the edge but not before it."""
        return self.decided(states[edge.target]) and (edge.source == START or not self.decided(states[edge.source]))

    def elements(self) -> set[int]:
        """Return the variables over whose elements it iterates with ``[i]``."""
        return {leaf.data[0] for leaf in leaves(self.expr) if leaf.name == "elem"}


def read_conjunct(conjunct: ast.Expr, translate: Translator, automaton: Automaton) -> Conjunct:
    """Translate a conjunct and determine what it depends on."""
    expr = translate(conjunct)
    variables_mentioned = sorted(translate.numbers[name] for name in traversal.variables(conjunct))
    counted = {v for v in variables_mentioned if _only_counted(conjunct, v, translate)}
    guards: list[Op] = []
    branches: list[tuple[int, ...]] = []
    for variable in variables_mentioned:
        unit = _group_or_variable(variable, automaton)
        if variable in counted:
            if variable in automaton.branches:
                guards.append(any_bound(automaton.branches[variable]))
                branches.append(automaton.branches[variable])
        elif not automaton.mandatory(unit) and not _negated(variable, automaton):
            guards.append(is_bound(unit))
    bound, closed = set[int](), set[int]()
    for leaf in leaves(expr):
        guards += _guards(leaf, automaton)
        if leaf.name == "elem":
            closed.add(_group_or_variable(leaf.data[0], automaton))
        elif leaf.name == "q":
            kind, variable = leaf.data[:2]
            unit = _group_or_variable(variable, automaton)
            is_group = variable >= len(automaton.variables)
            single = not is_group and (not automaton.variables[variable].repeated or kind == "first")
            (bound if single and unit == variable else closed).add(unit)
    return Conjunct(
        expr,
        all_of(list(dict.fromkeys(guards))),
        tuple(v for v in variables_mentioned if v < len(automaton.variables)),
        frozenset(bound),
        frozenset(closed),
        tuple(branches),
    )


def guarded(guard: Op, expr: Op) -> Op:
    """Return ``guard IMPLIES expr``, simplified for constant guards."""
    if guard == TRUE:
        return expr
    return TRUE if guard == FALSE else Op("guard", "b", (guard, expr))


def _group_or_variable(variable: int, automaton: Automaton) -> int:
    """Return the group of a variable, or the variable itself outside groups."""
    if variable < len(automaton.variables) and automaton.chain[variable] >= 0:
        return automaton.chain[variable]
    return variable


def _negated(variable: int, automaton: Automaton) -> bool:
    return variable < len(automaton.variables) and automaton.variables[variable].negated


def _guards(leaf: Op, automaton: Automaton) -> list[Op]:
    """Return the conditions for a reference to be valid: its element exists, or its round binds the variable."""
    if leaf.name != "q" or leaf.data[0] == "count":
        return []
    kind, variable, extra, _ = leaf.data
    group = automaton.chain[variable]
    if group >= 0 and automaton.variables[variable].optional:
        has_index = kind in ("first", "last", "at")
        return [quantity(f"has_{kind}", "b", variable, extra) if has_index else is_bound(variable)]
    if kind != "at":
        return []
    return [Op("lt_i", "b", (const(extra, "i"), count(variable if group < 0 else group)))]


def _only_counted(conjunct: ast.Expr, variable: int, translate: Translator) -> bool:
    return all(
        isinstance(part, ast.Aggregate) and part.name is None
        for part in traversal.walk(conjunct)
        if isinstance(part, ast.Attribute | ast.Aggregate) and translate.numbers[part.qualified_name] == variable
    )
