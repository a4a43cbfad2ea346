"""States of the Markov chain of a query: those of its plan, divided by the number of events that a variable has bound.

In pSPICE, the state of a partial match is the number of pattern elements that it has matched (section III-C). The plan
has one state for a variable with ``[]``, however many events it has bound. If their number is limited, as in
``ANY(12, B b[])`` or ``B{2,5} b[]``, it says how much is missing for a match, so the chain has a state for each number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from fastcep.overload.protocols import Classes
from fastcep.plan import Plan
from fastcep.plan.explain.facts import facts
from fastcep.plan.explain.text_helpers import place
from fastcep.query import ast
from fastcep.query.patterns import pattern_variables, sub_patterns
from fastcep.shedding.lineage import Lineage

__all__ = ["MOST_NUMBERS", "ChainStates", "classes_by_number"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_NUMBERS = 16  #: largest number of states of a variable; if it can bind more events, a state has several numbers


def classes_by_number(query: ast.Query) -> dict[str, Classes]:
    """Return the classes of partial matches by the number of events that the variable bound last has bound.

    They are those of variables that bind several events, with a smallest or largest number other than 1. Variables in
    ``AND`` and in groups are left out: other variables can be bound between two of their events.
    """
    found = {}
    for variable in _counted(query.pattern):
        number = variable.minimum if variable.maximum is None else variable.maximum
        states = min(number, MOST_NUMBERS)
        if states > 1:
            table = (np.arange(number) * states // number).astype(np.uint8)
            found[variable.name] = Classes((f"COUNT({variable.name}[])",), (1,), table, other=states - 1)
    return found


def _counted(pattern: ast.Pattern) -> Iterator[ast.Variable]:
    if isinstance(pattern, ast.Variable):
        if pattern.repeated:
            yield pattern
    elif isinstance(pattern, ast.Sequence | ast.Disjunction | ast.AnyOf | ast.Until):
        for part in sub_patterns(pattern):
            yield from _counted(part)


class ChainStates:
    """States of the chain, for the states of a plan in their order.

    Parameters
    ----------
    query
        Query of the plan.
    plan_states
        Name of each of the plan's states, and of the variable that is bound last in it.

    Attributes
    ----------
    plan_states
        As given.
    names
        Names of the states of the chain.
    first
        Number of the first state of the chain of each state of the plan, and the number of all: int64[states + 1].
    """

    def __init__(self, query: ast.Query, plan_states: Sequence[tuple[str, str]]) -> None:
        classes = classes_by_number(query)
        self.plan_states = [(name, variable) for name, variable in plan_states]
        self._tables = [classes.get(variable) for _, variable in self.plan_states]
        sizes = [1 if table is None else table.count for table in self._tables]
        self.first: Ints = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.names: list[str] = []
        for (name, variable), table in zip(self.plan_states, self._tables, strict=True):
            self.names += [name] if table is None else _labels(name, variable, table)

    @classmethod
    def of(cls, plan: Plan) -> ChainStates:
        """Return the states for a plan; the names of its states are those of `explain`."""
        names, plan_facts = [one.name for one in pattern_variables(plan.query.pattern)], facts(plan)
        pairs = [(place(plan_facts, number), names[state.variable]) for number, state in enumerate(plan.states)]
        return cls(plan.query, pairs)

    def of_records(self, record: Lineage) -> Ints:
        """Return the state of each partial match of a lineage: int64[records]."""
        states, variables, parents = record.states, record.variables, record.parents
        found = self.first[states]
        tables = np.array([table is not None for table in self._tables], bool)
        if not tables.any():
            return found
        bound = np.ones(len(states), np.int64)
        records = np.flatnonzero(tables[states])
        ancestors = records
        while len(records):  # step by step to the first event of the variable
            before = parents[ancestors]
            same = (before >= 0) & (variables[before] == variables[ancestors])
            records, ancestors = records[same], before[same]
            bound[records] += 1
        for number, table in enumerate(self._tables):
            if table is not None:
                rows = np.flatnonzero(states == number)
                found[rows] += table.classify(bound[rows, None].astype(np.float64), np.zeros((len(rows), 1), bool))
        return found

    def by_class(self, values: Floats, classes: int) -> Floats:
        """Return a table over states of the chain as one over states of the plan and classes.

        Parameters
        ----------
        values
            float64[chain states, slices].
        classes
            Largest number of classes of a state.

        Returns
        -------
        numpy.ndarray
            float64[states, classes, slices]. A state without classes has the same values for each of them.
        """
        return np.ascontiguousarray(values[self.of_class(classes)])

    def of_class(self, classes: int) -> Ints:
        """Return the state of the chain of each state of the plan and class: int64[states, classes]."""
        sizes = np.diff(self.first)
        return np.asarray(self.first[:-1, None] + np.minimum(np.arange(classes)[None, :], sizes[:, None] - 1))

    def summed(self, values: npt.NDArray[np.int64]) -> Ints:
        """Return the sums over the states of the plan and classes of each state of the chain.

        Parameters
        ----------
        values
            int64[states, classes, slices].

        Returns
        -------
        numpy.ndarray
            int64[chain states, slices].
        """
        sums = np.zeros((len(self.names), values.shape[2]), np.int64)
        np.add.at(sums, self.of_class(values.shape[1]), values)
        return sums


def _labels(name: str, variable: str, table: Classes) -> list[str]:
    """Return a name for each number of events, such as ``b (3 of 12 b)``."""
    numbers = len(table.table)
    labels = []
    for state in range(table.count):
        of_state = np.flatnonzero(table.table == state) + 1
        label = f"{of_state[0]}" if len(of_state) == 1 else f"{of_state[0]} to {of_state[-1]}"
        labels.append(f"{name} ({label} of {numbers} {variable})")
    return labels
