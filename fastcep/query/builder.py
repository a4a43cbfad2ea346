"""Queries written in Python: the same nodes that the text gives.

>>> a, b = schema.A("a"), schema.B("b").plus()                                    # doctest: +SKIP
>>> seq(a, b).where(a.ID == b[i].ID, b.sum("V") > a.V).within("8ms").named("q")   # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from fastcep.errors import ValidationError
from fastcep.events.schema import Schema, TypeHandle
from fastcep.events.units import parse_duration
from fastcep.query import ast
from fastcep.query.check import check
from fastcep.query.printer import expression_text
from fastcep.query.source import Problem, suggest
from fastcep.query.terms import Term, node_of
from fastcep.query.types import BUILTINS, attribute_dtypes

__all__ = ["Builder", "Element", "Repeated", "Variable", "any_type", "first", "i", "last", "same", "seq"]


@dataclass(frozen=True, slots=True)
class IndexTerm:
    """An index of a repeated variable: `i`, ``i + 1``, `first`, `last`."""

    index: ast.Index

    def __add__(self, offset: int) -> IndexTerm:
        if self.index.kind != "relative":
            raise TypeError(f"[{self.index.kind}] takes no offset; only i does, as in b[i + 1]")
        return IndexTerm(ast.Index("relative", self.index.offset + offset))

    def __sub__(self, offset: int) -> IndexTerm:
        return self + -offset


i = IndexTerm(ast.Index("relative"))
first = IndexTerm(ast.Index("first"))
last = IndexTerm(ast.Index("last"))


class _Bound:
    """What is common to variables and elements: attributes by dot, or by ``x["name"]`` where Python has other plans."""

    __slots__ = ("_index", "_member", "_schema")

    def __init__(self, schema: Schema, member: ast.Member, index: ast.Index | None = None) -> None:
        self._schema = schema
        self._member = member
        self._index = index

    def _attribute(self, name: str) -> Term:
        known = [*attribute_dtypes(self._schema, self._member.types), *BUILTINS]
        if name not in known:
            owner = " | ".join(self._member.types)
            raise AttributeError(f"unknown attribute '{name}' of {owner}{suggest(name, known, 'it has')}")
        return Term(ast.Attribute(self._member.variable, name, self._index))

    def __getitem__(self, name: str) -> Term:
        if not isinstance(name, str):
            x = self._member.variable
            raise TypeError(f"{x} holds one event and has no index; make it {x} = {x}.plus() to hold several")
        return self._attribute(name)

    def __getattr__(self, name: str) -> Term:
        if name.startswith("__") or name in _Bound.__slots__:
            raise AttributeError(name)
        return self._attribute(name)


class Element(_Bound):
    """One element of a repeated variable, such as ``b[i]``; its attributes are terms."""

    __slots__ = ()


class Variable(_Bound):
    """A variable that holds one event; its attributes are terms.

    An attribute that has the name of a method here is reached as ``x["name"]``.
    """

    __slots__ = ()

    def plus(self) -> Repeated:
        """Make it one event or more, ``T+ x[]``."""
        return self.times(1)

    def star(self) -> Repeated:
        """Make it any number of events, ``T* x[]``."""
        return self.times(0)

    def times(self, minimum: int, maximum: int | None = None) -> Repeated:
        """Make it ``minimum`` to ``maximum`` events (None: any number), ``T{m,n} x[]``."""
        minimum = _whole(minimum, "times()")
        maximum = None if maximum is None else _whole(maximum, "times()")
        return Repeated(self._schema, replace(self._member, minimum=minimum, maximum=maximum, repeated=True))

    def optional(self) -> Variable:
        """Make it one event or none, ``T? x``."""
        return Variable(self._schema, replace(self._member, minimum=0))


class Repeated:
    """A variable that holds several events: elements by index, and aggregates over all of them."""

    __slots__ = ("_member", "_schema")

    def __init__(self, schema: Schema, member: ast.Member) -> None:
        self._schema = schema
        self._member = member

    def __getitem__(self, index: int | IndexTerm) -> Element:
        """Give an element: ``b[i]``, ``b[i + 1]``, ``b[0]``, ``b[first]``, ``b[last]``."""
        if isinstance(index, IndexTerm):
            return Element(self._schema, self._member, index.index)
        if not isinstance(index, int) or isinstance(index, bool) or index < 0:
            raise TypeError(f"the index {index!r} is none; expected i, i + 1, first, last or a number from 0")
        return Element(self._schema, self._member, ast.Index("position", index))

    @property
    def first(self) -> Element:
        """The first element."""
        return self[first]

    @property
    def last(self) -> Element:
        """The last element."""
        return self[last]

    def values(self, name: str) -> Term:
        """Give the list of an attribute over all elements, for `Builder.returns`."""
        return Term(ast.AttributeList(self._member.variable, self._known(name)))

    def count(self, name: str | None = None) -> Term:
        """Count the elements, or those whose attribute is not null."""
        return Term(ast.Aggregate("COUNT", self._member.variable, None if name is None else self._known(name)))

    def sum(self, name: str) -> Term:
        """Add an attribute up over all elements."""
        return self._aggregate("SUM", name)

    def avg(self, name: str) -> Term:
        """Give the mean of an attribute."""
        return self._aggregate("AVG", name)

    def min(self, name: str) -> Term:
        """Give the least value of an attribute."""
        return self._aggregate("MIN", name)

    def max(self, name: str) -> Term:
        """Give the greatest value of an attribute."""
        return self._aggregate("MAX", name)

    def stddev(self, name: str) -> Term:
        """Give the sample's standard deviation of an attribute."""
        return self._aggregate("STDDEV", name)

    def _aggregate(self, function: str, name: str) -> Term:
        return Term(ast.Aggregate(function, self._member.variable, self._known(name)))

    def _known(self, name: str) -> str:
        self[0]._attribute(name)
        return name

    def __getattr__(self, name: str) -> Term:
        if name.startswith("__") or name in Repeated.__slots__:
            raise AttributeError(name)
        x = self._member.variable
        raise AttributeError(f"{x} holds several events; write {x}[i].{name}, {x}.first.{name}, {x}.last.{name} …")


def _variable(schema: Schema, type_name: str, variable: str) -> Variable:
    return Variable(schema, ast.Member((type_name,), variable))


Schema._variable_factory = staticmethod(_variable)


def any_type(*types: TypeHandle) -> Callable[[str], Variable]:
    """Make a union, ``any_type(schema.A, schema.B)("x")`` for ``(A|B) x``; it has the attributes that all share."""
    if not types:
        raise ValidationError("any_type() needs at least one event type, such as any_type(schema.A, schema.B)")
    schema = _one_schema([handle.schema for handle in types])

    def make(variable: str) -> Variable:
        return Variable(schema, ast.Member(tuple(handle.name for handle in types), variable))

    return make


def same(*names: str) -> Term:
    """All variables agree on each of these attributes, ``[job, task]``."""
    if not names:
        raise ValidationError("same() needs at least one attribute")
    return Term(ast.SameAttributes(names))


def seq(*members: Variable | Repeated) -> Builder:
    """Begin a query: ``members`` in order.

    Raises
    ------
    ValidationError
        There is no member, or the members belong to different schemas.
    """
    for member in members:
        if not isinstance(member, Variable | Repeated):
            raise ValidationError(f'seq() takes variables such as schema.A("a"), not {member!r}')
    if not members:
        raise ValidationError('seq() needs at least one variable, such as schema.A("a")')
    schema = _one_schema([member._schema for member in members])
    return Builder(schema, ast.Sequence(tuple(member._member for member in members)))


def _one_schema(schemas: list[Schema]) -> Schema:
    if any(other != schemas[0] for other in schemas):
        raise ValidationError("the variables of a query must come from one schema; these come from several")
    return schemas[0]


@dataclass(frozen=True, slots=True)
class Builder:
    """A query being built; every method gives a new one, and `build` checks it. An engine takes it as it is."""

    schema: Schema
    pattern: ast.Sequence
    condition: ast.Expr | None = None
    window: ast.Window | None = None
    partition: tuple[str, ...] = ()
    output: tuple[ast.ReturnItem, ...] = ()
    name: str = "query"

    def where(self, *conditions: Term) -> Builder:
        """Add conditions; all of them must hold."""
        joined = self.condition
        for condition in conditions:
            node = node_of(condition)
            joined = node if joined is None else ast.Binary("AND", joined, node)
        return replace(self, condition=joined)

    def within(self, time: str | timedelta | None = None, *, events: int | None = None) -> Builder:
        """Set the window: a time (``"8ms"``), ``events=n``, or None for UNBOUNDED."""
        if events is not None:
            if time is not None:
                raise ValidationError("within() takes a time or events=n, not both")
            return replace(self, window=ast.CountWindow(_whole(events, "within(events=…)")))
        return replace(self, window=ast.Unbounded() if time is None else ast.TimeWindow(parse_duration(time)))

    def partition_by(self, *names: str) -> Builder:
        """Match inside each partition by these attributes only."""
        return replace(self, partition=self.partition + names)

    def returns(self, *items: Term, **named: Term) -> Builder:
        """Add output columns; a keyword names its column, else the expression's text does."""
        added = [ast.ReturnItem(node_of(item), expression_text(node_of(item))) for item in items]
        added += [ast.ReturnItem(node_of(item), name) for name, item in named.items()]
        return replace(self, output=(*self.output, *added))

    def named(self, name: str) -> Builder:
        """Name the query."""
        return replace(self, name=name)

    def build(self) -> ast.Query:
        """Check the query.

        Raises
        ------
        ValidationError
            No window, unknown names, operands of the wrong type, …
        """
        if self.window is None:
            raise ValidationError(
                'every query needs a window; add .within("5min"), .within(events=100) or .within(None)'
            )
        query = ast.Query(
            self.name, self.pattern, self.window, self.condition, self.partition, self.output, schema=self.schema
        )
        try:
            return check(query)
        except Problem as problem:
            raise ValidationError(problem.message) from None
        except RecursionError:
            raise ValidationError("the query nests too deeply; simplify it, for example with isin") from None

    def _repr_html_(self) -> str | None:
        """Show the query in a notebook; None (as text) while it cannot be built."""
        try:
            return self.build()._repr_html_()
        except ValidationError:
            return None


def _whole(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValidationError(f"found {value!r} in {where}, expected a whole number")
    return value
