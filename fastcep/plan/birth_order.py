"""Decide for each state if its rows need birth numbers."""

from __future__ import annotations

from fastcep.plan.automaton import Automaton
from fastcep.plan.placement import removes_rows
from fastcep.query import ast

__all__ = ["needs_birth"]


def needs_birth(query: ast.Query, automaton: Automaton, state: int) -> bool:
    """Return whether rows of a state need birth numbers, to merge several states or to skip rows of the same event."""
    if removes_rows(query):
        return True
    variables = automaton.variables
    into = {edge.variable for edge in automaton.edges if edge.target == state}
    types_into = {name for variable in into for name in variables[variable].declaration.types}
    for edge in automaton.edges:
        if edge.source != state:
            continue
        others = [other for other in automaton.edges if other.variable == edge.variable]
        later = any(edge.variable > variable for variable in into)
        if len(others) > 1 or (later and types_into & set(variables[edge.variable].declaration.types)):
            return True
    return False
