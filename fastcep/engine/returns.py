"""RETURN: evaluate its expressions over the matches of one batch, vectorised; attributes come from the event ring."""

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
from fastcep.kernels import Task
from fastcep.plan.automaton import repeat
from fastcep.plan.bytecode import Compiler
from fastcep.plan.ir import Op, leaves
from fastcep.plan.rewrite import step
from fastcep.plan.translate import Translator
from fastcep.query import ast

Ints = npt.NDArray[np.int64]
Nulls = npt.NDArray[np.uint8]
Values = tuple[Ints, Nulls]


_AGGREGATES = ("known", "sum", "min", "max", "mean", "m2")


@dataclass(frozen=True, slots=True)
class _Expression:
    """A compiled expression: its leaves in the order of the inputs, its program, what runs it."""

    inputs: tuple[Op, ...]
    task: Task
    evaluator: Evaluator


@dataclass(frozen=True, slots=True)
class Bindings:
    """Bound events of ``n`` matches: per member positions; for a Kleene member elements one match after the other.

    ``values[m]`` is int64[n] with -1 for an untaken optional, or int64[sum(lengths[m])]; ``lengths[m]`` int64[n] or
    None.
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
    ring, strings
        Where attributes and string codes live.
    link
        Gives the words of constants.
    """

    def __init__(self, query: ast.Query, ring: EventRing, strings: StringTable, link: ConstantBinder) -> None:
        self.query = query
        self.ring = ring
        self.strings = strings
        self.type_codes = np.array([link(name) for name in query.schema.type_names], np.int64)
        self.link = link
        self.translate = Translator(query)
        self._compiled: dict[Op, _Expression] = {}
        for expr in self._expressions():
            self._compile(expr)

    def columns(self, bindings: Bindings) -> dict[str, Any]:
        """Arrow arrays by output name."""
        out: dict[str, Any] = {}
        for item in self.query.returns:
            if isinstance(item.expression, ast.AttributeList):
                out[item.name] = self._list(item.expression, bindings)
                continue
            expr = self.translate(item.expression)
            values, nulls = self._evaluate(expr, lambda leaf: self._quantity(leaf, bindings), bindings.n)
            out[item.name] = self._arrow(expr.dtype, values, nulls)
        return out

    def _arrow(self, dtype: str, values: Ints, nulls: Nulls) -> Any:
        if dtype == "s":
            return self.strings.decode(values, nulls)
        typed: Any = values.view(np.float64) if dtype == "f" else values.astype(bool) if dtype == "b" else values
        return from_numpy(typed, nulls=nulls)

    def _list(self, node: ast.AttributeList, bindings: Bindings) -> Any:
        member = self.translate.variables[node.leaf]
        lengths = bindings.lengths[member]
        assert lengths is not None
        dtype = self.translate.dtype(member, node.name)
        values, nulls = self._gather(member, node.name, dtype, bindings.values[member])
        return from_lengths(lengths, self._arrow(dtype, values, nulls))

    def _expressions(self) -> Iterator[Op]:
        """Every expression that is evaluated, those of the aggregates' steps included."""
        for item in self.query.returns:
            if isinstance(item.expression, ast.AttributeList):
                continue
            expr = self.translate(item.expression)
            yield expr
            for leaf in leaves(expr):
                if leaf.data[0] in _AGGREGATES:
                    member = leaf.data[1]
                    yield from (step(op, repeat(member)) for op in _state(leaf))

    def _compile(self, expr: Op) -> _Expression:
        known = self._compiled.get(expr)
        if known is None:
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
            known = _Expression(tuple(inputs), (program, "whole"), Evaluator(program, self.link))
            self._compiled[expr] = known
        return known

    @property
    def tasks(self) -> list[Task]:
        """The programs, for generated kernels."""
        return [known.task for known in self._compiled.values()]

    def use_kernels(self, kernels: Mapping[Task, int]) -> None:
        """Run programs by the generated code at these addresses."""
        for known in self._compiled.values():
            if known.task in kernels:
                known.evaluator.use_kernel(kernels[known.task])

    @property
    def arithmetic_nulls(self) -> int:
        """Overflows and integer divisions by zero so far."""
        return sum(known.evaluator.arithmetic_nulls for known in self._compiled.values())

    @property
    def function_errors(self) -> int:
        """Exceptions in users' functions so far."""
        return sum(known.evaluator.function_errors for known in self._compiled.values())

    def _evaluate(self, expr: Op, leaf: Callable[[Op], Values], n: int) -> Values:
        known = self._compile(expr)
        columns = [leaf(node) for node in known.inputs]
        return known.evaluator([values for values, _ in columns], [nulls for _, nulls in columns], n)

    def _gather(self, member: int, attr: str, dtype: str, positions: Ints) -> Values:
        """Attribute of the events at ``positions`` (-1 gives null); a union may keep it in a column per type."""
        nulls = (positions < 0).astype(np.uint8)
        values = np.zeros(len(positions), np.int64)
        here = np.flatnonzero(positions >= 0)
        if not len(here):
            return values, nulls
        at = positions[here]
        if attr in ("time", "seq"):
            values[here] = self.ring.take(attr, at)[0]
            return values, nulls
        types = self.ring.take("type", at)[0]
        if attr == "type":
            values[here] = self.type_codes[types]
            return values, nulls
        schema = self.query.schema
        columns = {name: schema.column_of(name, attr) for name in self.translate.leaves[member].member.types}
        for column in set(columns.values()):
            own = np.array([columns.get(name) == column for name in schema.type_names])[types]
            found, missing = self.ring.take(column, at[own])
            values[here[own]] = np.ascontiguousarray(found).view(np.int64)
            if missing is not None:
                nulls[here[own]] = missing
        return values, nulls

    def _quantity(self, leaf: Op, bindings: Bindings) -> Values:
        kind, member, extra, attr = leaf.data
        if member >= len(self.translate.leaves):  # rounds of a group: as many as any of its variables has elements
            group = self.translate.groups[member - len(self.translate.leaves)]
            member = next(n for n, one in enumerate(self.translate.leaves) if one.group == group and not one.negated)
        lengths, values = bindings.lengths[member], bindings.values[member]
        none = np.zeros(bindings.n, np.uint8)
        if lengths is None:
            if kind == "count":
                return (values >= 0).astype(np.int64), none
            return self._gather(member, attr, leaf.dtype, values)
        if kind == "count":
            return lengths, none
        ends = np.cumsum(lengths)
        starts = ends - lengths
        if kind in ("first", "last", "at"):
            at = starts + extra if kind != "last" else ends - 1
            inside = (at >= starts) & (at < ends)
            positions = np.full(bindings.n, -1, np.int64)
            positions[inside] = values[at[inside]]
            return self._gather(member, attr, leaf.dtype, positions)
        return self._aggregate(leaf, starts, lengths, self._gather(member, attr, extra, values))

    def _aggregate(self, leaf: Op, starts: Ints, lengths: Ints, elements: Values) -> Values:
        """Running aggregates, one element of every match at a time, by the same operations as in the engine."""
        member, n = leaf.data[1], len(lengths)
        state: dict[Op, Values] = {
            op: (np.zeros(n, np.int64), np.full(n, op.data[0] != "known", np.uint8)) for op in _state(leaf)
        }
        for number in range(int(lengths.max(initial=0))):
            rows = np.flatnonzero(lengths > number)
            at = starts[rows] + number
            value = elements[0][at], elements[1][at]
            before = {op: (values[rows], nulls[rows]) for op, (values, nulls) in state.items()}

            def input_of(node: Op, value: Values = value, before: dict[Op, Values] = before) -> Values:
                return value if node.name == "event" else before[node]

            for op in state:
                new = step(op, repeat(member))
                values, nulls = self._evaluate(new, input_of, len(rows))
                state[op][0][rows], state[op][1][rows] = values, nulls
        return state[leaf]


def _state(leaf: Op) -> list[Op]:
    """What a running aggregate keeps: the number of values, the aggregate, for the deviation the mean too."""
    kind, member, raw, attr = leaf.data
    kinds = {"known": "i", kind: leaf.dtype} | ({"mean": "f"} if kind in ("m2", "mean") else {})
    return [Op("q", dtype, (), (name, member, raw, attr)) for name, dtype in kinds.items()]


__all__ = ["Bindings", "Returns"]
