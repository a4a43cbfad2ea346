"""Evaluate RETURN over the matches of one batch, vectorised; attributes come from the event ring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep._core.program.evaluate import Evaluator
from fastcep.engine.constant_binding import ConstantBinder
from fastcep.events import EventRing, StringTable
from fastcep.events.convert import from_lengths, from_numpy
from fastcep.events.types import TIMESTAMP
from fastcep.kernels import Task
from fastcep.plan.automaton import repeat
from fastcep.plan.bytecode import Compiler
from fastcep.plan.ir import Op, leaves
from fastcep.plan.rewrite import step
from fastcep.plan.translate import Translator
from fastcep.query import ast
from fastcep.query.types import Scope, type_of

Ints = npt.NDArray[np.int64]
Nulls = npt.NDArray[np.uint8]
Values = tuple[Ints, Nulls]


_AGGREGATES = ("known", "sum", "min", "max", "mean", "m2")


@dataclass(frozen=True, slots=True)
class _Expression:
    """A compiled expression: its leaves in the order of the inputs, its program, and the evaluator that runs it."""

    inputs: tuple[Op, ...]
    task: Task
    evaluator: Evaluator


@dataclass(frozen=True, slots=True)
class Bindings:
    """Bound events of ``n`` matches, by variable.

    Attributes
    ----------
    n
        Number of matches.
    values
        Positions of the events of each variable: int64[n], -1 for an optional variable that is not bound. For a Kleene
        variable int64[sum(lengths[m])], the elements of one match after the other.
    lengths
        Number of elements of each match, int64[n], for a Kleene variable; None for other variables.
    """

    n: int
    values: list[Ints]
    lengths: list[Ints | None]


class Returns:
    """The RETURN columns of one query.

    Parameters
    ----------
    query
        The query.
    ring
        Holds the attributes of events.
    strings
        The string table of the engine.
    link
        Maps constants to words.
    """

    def __init__(self, query: ast.Query, ring: EventRing, strings: StringTable, link: ConstantBinder) -> None:
        self.query = query
        self.ring = ring
        self.strings = strings
        self.type_codes = np.array([link(name) for name in query.schema.type_names], np.int64)
        self.link = link
        self.translate = Translator(query)
        scope = Scope.of(query)
        self._dtypes = [type_of(item.expression, scope) for item in query.returns]
        self._compiled: dict[Op, _Expression] = {}
        for expr in self._expressions():
            self._compile(expr)

    def columns(self, bindings: Bindings) -> dict[str, Any]:
        """Return Arrow arrays by column name."""
        arrays: dict[str, Any] = {}
        for item, dtype in zip(self.query.returns, self._dtypes, strict=True):
            if isinstance(item.expression, ast.AttributeList):
                arrays[item.name] = self._list(item.expression, dtype, bindings)
                continue
            expr = self.translate(item.expression)
            values, nulls = self._evaluate(expr, lambda leaf: self._leaf_values(leaf, bindings), bindings.n)
            arrays[item.name] = self._arrow(dtype, values, nulls)
        return arrays

    def _arrow(self, dtype: str, values: Ints, nulls: Nulls) -> Any:
        if dtype == "string":
            return self.strings.decode(values, nulls)
        if dtype == "timestamp":
            return from_numpy(values, TIMESTAMP, nulls)
        floats, bools = dtype == "float64", dtype == "bool"
        typed: Any = values.view(np.float64) if floats else values.astype(bool) if bools else values
        return from_numpy(typed, nulls=nulls)

    def _list(self, node: ast.AttributeList, dtype: str, bindings: Bindings) -> Any:
        variable = self.translate.numbers[node.qualified_name]
        lengths = bindings.lengths[variable]
        assert lengths is not None
        values, nulls = self._gather(variable, node.name, bindings.values[variable])
        return from_lengths(lengths, self._arrow(dtype, values, nulls))

    def _expressions(self) -> Iterator[Op]:
        """Yield every expression that is evaluated, including the steps of aggregates."""
        for item in self.query.returns:
            if isinstance(item.expression, ast.AttributeList):
                continue
            expr = self.translate(item.expression)
            yield expr
            for leaf in leaves(expr):
                if leaf.data[0] in _AGGREGATES:
                    variable = leaf.data[1]
                    yield from (step(op, repeat(variable)) for op in _state(leaf))

    def _compile(self, expr: Op) -> _Expression:
        compiled = self._compiled.get(expr)
        if compiled is None:
            inputs: list[Op] = []

            def resolve(node: Op) -> tuple[str, int] | None:
                if node.args or node.name == "const":
                    return None
                if node not in inputs:
                    inputs.append(node)
                return ("event", inputs.index(node))

            compiler = Compiler(resolve)
            compiler.store(0, expr)
            program = compiler.finish()
            compiled = _Expression(tuple(inputs), (program, "whole"), Evaluator(program, self.link))
            self._compiled[expr] = compiled
        return compiled

    @property
    def tasks(self) -> list[Task]:
        """The programs, for generated kernels."""
        return [compiled.task for compiled in self._compiled.values()]

    def use_kernels(self, kernels: Mapping[Task, int]) -> None:
        """Run programs by the generated code at these addresses."""
        for compiled in self._compiled.values():
            if compiled.task in kernels:
                compiled.evaluator.use_kernel(kernels[compiled.task])

    @property
    def arithmetic_nulls(self) -> int:
        """Number of overflows and integer divisions by zero so far."""
        return sum(compiled.evaluator.arithmetic_nulls for compiled in self._compiled.values())

    @property
    def function_errors(self) -> int:
        """Number of exceptions in users' functions so far."""
        return sum(compiled.evaluator.function_errors for compiled in self._compiled.values())

    def _evaluate(self, expr: Op, leaf: Callable[[Op], Values], n: int) -> Values:
        """Evaluate an expression for ``n`` rows; ``leaf`` returns the values of a leaf."""
        compiled = self._compile(expr)
        columns = [leaf(node) for node in compiled.inputs]
        return compiled.evaluator([values for values, _ in columns], [nulls for _, nulls in columns], n)

    def _gather(self, variable: int, attribute: str, positions: Ints) -> Values:
        """Return an attribute of the events at ``positions``, null for -1; a union may have a column for each type."""
        nulls = (positions < 0).astype(np.uint8)
        values = np.zeros(len(positions), np.int64)
        bound = np.flatnonzero(positions >= 0)
        if not len(bound):
            return values, nulls
        events = positions[bound]
        if attribute in ("time", "seq"):
            values[bound] = self.ring.take(attribute, events)[0]
            return values, nulls
        types = self.ring.take("type", events)[0]
        if attribute == "type":
            values[bound] = self.type_codes[types]
            return values, nulls
        schema = self.query.schema
        declaration = self.translate.variables[variable].declaration
        columns = {name: schema.column_of(name, attribute) for name in declaration.types}
        for column in set(columns.values()):
            of_column = np.array([columns.get(name) == column for name in schema.type_names])[types]
            column_values, column_nulls = self.ring.take(column, events[of_column])
            values[bound[of_column]] = np.ascontiguousarray(column_values).view(np.int64)
            if column_nulls is not None:
                nulls[bound[of_column]] = column_nulls
        return values, nulls

    def _leaf_values(self, leaf: Op, bindings: Bindings) -> Values:
        """Return the values of a leaf: a count, an attribute of an event, or an aggregate over a Kleene variable."""
        kind, variable, extra, attribute = leaf.data
        variables = self.translate.variables
        if variable >= len(variables):  # rounds of a group: each of its variables has one element per round
            group = self.translate.groups[variable - len(variables)]
            variable = next(n for n, one in enumerate(variables) if one.group == group and not one.negated)
        lengths, values = bindings.lengths[variable], bindings.values[variable]
        no_nulls = np.zeros(bindings.n, np.uint8)
        if lengths is None:
            if kind == "count":
                return (values >= 0).astype(np.int64), no_nulls
            return self._gather(variable, attribute, values)
        if kind == "count":
            return lengths, no_nulls
        ends = np.cumsum(lengths)
        starts = ends - lengths
        if kind in ("first", "last", "at"):
            element = starts + extra if kind != "last" else ends - 1 - extra
            exists = (element >= starts) & (element < ends)
            positions = np.full(bindings.n, -1, np.int64)
            positions[exists] = values[element[exists]]
            return self._gather(variable, attribute, positions)
        return self._aggregate(leaf, starts, lengths, self._gather(variable, attribute, values))

    def _aggregate(self, leaf: Op, starts: Ints, lengths: Ints, elements: Values) -> Values:
        """Compute running aggregates, one element of every match at a time, with the operations of the matcher."""
        variable, n = leaf.data[1], len(lengths)
        state: dict[Op, Values] = {
            op: (np.zeros(n, np.int64), np.full(n, op.data[0] != "known", np.uint8)) for op in _state(leaf)
        }
        for number in range(int(lengths.max(initial=0))):
            rows = np.flatnonzero(lengths > number)
            element = starts[rows] + number
            value = elements[0][element], elements[1][element]
            previous = {op: (values[rows], nulls[rows]) for op, (values, nulls) in state.items()}

            def input_of(node: Op, value: Values = value, previous: dict[Op, Values] = previous) -> Values:
                return value if node.name == "event" else previous[node]

            for op in state:
                values, nulls = self._evaluate(step(op, repeat(variable)), input_of, len(rows))
                state[op][0][rows], state[op][1][rows] = values, nulls
        return state[leaf]


def _state(leaf: Op) -> list[Op]:
    """Return the state of a running aggregate: the number of values, the aggregate, for the deviation also the mean."""
    kind, variable, raw, attribute = leaf.data
    kinds = {"known": "i", kind: leaf.dtype} | ({"mean": "f"} if kind in ("m2", "mean") else {})
    return [Op("q", dtype, (), (name, variable, raw, attribute)) for name, dtype in kinds.items()]


__all__ = ["Bindings", "Returns"]
