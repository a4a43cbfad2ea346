"""Columns of event values that a plan reads, and programs over events alone."""

from __future__ import annotations

from dataclasses import replace

from fastcep.plan.bytecode import Compiler, Program
from fastcep.plan.earlier import EarlierColumns, attribute_of
from fastcep.plan.expression_text import describe
from fastcep.plan.ir import POSITION, PREVIOUS, Earlier, Op, const, leaves, transform
from fastcep.plan.plan import EventColumn
from fastcep.query import ast, traversal
from fastcep.query.patterns import pattern_variables

__all__ = ["Columns"]

_BUILTINS = {"time": -1, "seq": -2, "type": -3}
_COMPUTED = -4


class Columns:
    """The event columns that a plan reads, numbered at their first use."""

    def __init__(self, query: ast.Query, earlier: EarlierColumns | None = None) -> None:
        self.query = query
        self.earlier = EarlierColumns(query.schema) if earlier is None else earlier
        self.earlier.numbers(query)  # in an order that does not depend on the plan
        self.variables = pattern_variables(query.pattern)
        self.plans: list[EventColumn] = []
        self.ring: set[int] = set()
        self._numbers: dict[Op, int] = {}

    def resolve(self, leaf: Op) -> Op:
        """Return an ``event`` leaf as a physical column; for a union with several columns, as a selection by type."""
        variable, attr = leaf.data
        if attr in (POSITION, PREVIOUS) or attr in _BUILTINS:
            return Op("col", leaf.dtype, (), (_BUILTINS.get(attr, attr),))
        if isinstance(attr, Earlier):
            return Op("col", leaf.dtype, (), (self.earlier.number(self.query, attr),))
        schema = self.query.schema
        result: Op | None = None
        for name in self.variables[variable].declaration.types:
            column = Op("col", leaf.dtype, (), (schema.column_of(name, attr),))
            if result is None or result == column:
                result = column
            else:
                is_type = Op("eq_i", "b", (Op("col", "s", (), (_BUILTINS["type"],)), const(name, "s")))
                result = Op("select", leaf.dtype, (is_type, column, result))
        assert result is not None
        return result

    def number(self, expr: Op) -> int:
        """Return the number of the event column that holds ``expr``, an expression over the event only."""
        variables = 0
        for leaf in leaves(expr):
            variables |= 1 << leaf.data[0]
        resolved = self._resolved(expr)
        number = self._numbers.get(resolved)
        if number is None:
            program = None
            if resolved.name != "col":
                compiler = Compiler(self.raw)
                compiler.store(0, resolved)
                program = compiler.finish()
            number = self._numbers[resolved] = len(self.plans)
            column = _COMPUTED if program else resolved.data[0]
            self.plans.append(EventColumn(column, 0, describe(expr, self.query), expr.dtype, program))
        entry = self.plans[number]
        self.plans[number] = replace(entry, variables=entry.variables | variables)
        return number

    def raw(self, node: Op) -> tuple[str, int] | None:
        """Return the input of a program that runs before event columns are computed: a schema column or a built-in."""
        if node.name != "col":
            return None
        number = self._numbers.get(node)
        if number is None:
            number = self._numbers[node] = len(self.plans)
            self.plans.append(EventColumn(node.data[0], 0, f"#{node.data[0]}", node.dtype))
        return ("event", number)

    def local(self, conditions: list[Op]) -> Program | None:
        """Return a program that keeps the events that satisfy all ``conditions``, which are over the event only."""
        if not conditions:
            return None
        compiler = Compiler(self.raw)
        for condition in conditions:
            compiler.filter(self._resolved(condition))
        return compiler.finish()

    def element(self, node: Op) -> Op | None:
        """Resolve an ``elem`` leaf to ring columns, by type for a union kept in several columns."""
        if node.name != "elem" or len(node.data) == 4:
            return None
        variable, offset, attr = node.data

        def column(leaf: Op) -> Op | None:
            if leaf.name != "col":
                return None
            self.ring.add(leaf.data[0])
            return Op("elem", leaf.dtype, (), (variable, offset, leaf.data[0], "ring"))

        return transform(self.resolve(Op("event", node.dtype, (), (variable, attr))), column)

    def returned(self) -> set[int]:
        """Return the columns that RETURN reads from the event ring."""
        columns: set[int] = set()
        numbers = {variable.name: number for number, variable in enumerate(self.variables)}
        for item in self.query.returns:
            for node in traversal.walk(item.expression):
                if isinstance(node, ast.Attribute | ast.AttributeList | ast.Aggregate) and node.name is not None:
                    leaf = Op("event", "i", (), (numbers[node.qualified_name], attribute_of(node)))
                    columns |= {part.data[0] for part in leaves(self.resolve(leaf))}
        return columns

    def _resolved(self, expr: Op) -> Op:
        return transform(expr, lambda node: self.resolve(node) if node.name == "event" else None)
