"""Variables of the builder, from which patterns are made, and the terms of their attributes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NoReturn, overload

from fastcep.errors import ValidationError
from fastcep.events.schema import Schema
from fastcep.events.units import INT64_MAX, parse_duration
from fastcep.query import ast
from fastcep.query.builder.terms import Term
from fastcep.query.printer import expression_text, index_text, pattern_text
from fastcep.query.source import suggest
from fastcep.query.types import BUILTINS, attribute_dtypes

__all__ = [
    "Element", "IndexTerm", "ListTerms", "Loop", "Negated", "Repeated", "Several", "SoFar", "Variable", "first", "i",
    "index_of", "last", "refuse_comparison", "times_bounds", "whole",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class IndexTerm:
    """An index of a repeated variable: `i`, ``i + 1``, `first`, `last`, ``last - 1``."""

    index: ast.Index

    def __add__(self, offset: int) -> IndexTerm:
        moved = ast.Index(self.index.kind, self.index.offset + offset)
        if moved.kind == "first":
            raise TypeError("[first] takes no offset; write b[0], b[1], b[2] and so on")
        if moved.kind == "last" and moved.offset > 0:
            raise TypeError("no element comes after b[last]; write b[last], b[last - 1] and so on")
        return IndexTerm(moved)

    def __sub__(self, offset: int) -> IndexTerm:
        return self + -offset


i: IndexTerm = IndexTerm(ast.Index("relative"))
first: IndexTerm = IndexTerm(ast.Index("first"))
last: IndexTerm = IndexTerm(ast.Index("last"))


def index_of(index: object) -> ast.Index:
    """Return the node of an index; raise TypeError if the value is not an index."""
    if isinstance(index, IndexTerm):
        return index.index
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise TypeError(f"{index!r} is not an index; expected i, i + 1, first, last, last - 1 or a number from 0")
    return ast.Index("position", index)


def _end_of(elements: slice) -> ast.Index:
    """Return the last element of the slices ``[:i]`` and ``[:i + 1]``; raise TypeError for other slices."""
    stop = elements.stop.index if isinstance(elements.stop, IndexTerm) else None
    is_running = stop is not None and stop.kind == "relative" and stop.offset in (0, 1)
    if stop is None or not is_running or elements.start is not None or elements.step is not None:
        raise TypeError(
            "found another slice than [:i] or [:i + 1], which are the elements before, and up to, the one that i names"
        )
    return ast.Index("relative", stop.offset - 1)


def whole(value: object, where: str) -> int:
    """Return ``value`` if it is an int; raise ValidationError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValidationError(f"found {value!r} in {where}, expected a whole number")
    return value


def times_bounds(count: tuple[int, ...], at_least: int | None, at_most: int | None) -> tuple[int, int | None]:
    """Return the bounds of a call of ``times()``; raise ValidationError if an argument is invalid."""
    bounds = {name: number for name, number in (("at_least", at_least), ("at_most", at_most)) if number is not None}
    call = f"times({', '.join([*map(repr, count), *(f'{name}={number!r}' for name, number in bounds.items())])})"
    if len(count) > 2 or bool(count) == bool(bounds):
        raise ValidationError(
            f"{call} does not set the number of events; expected times(3) for exactly three, times(2, 4), "
            "times(at_least=3), times(at_most=3) or times(at_least=2, at_most=4)"
        )
    for number in (*count, *bounds.values()):
        if not 0 <= whole(number, call) <= INT64_MAX:
            raise ValidationError(f"found {number} in {call}, expected a number from 0 to {INT64_MAX}")
    low, high = (count[0], count[-1]) if count else (bounds.get("at_least", 0), at_most)
    if high == 0:
        raise ValidationError(f"{call} allows no events; its upper bound must be at least 1")
    if high is not None and low > high:
        raise ValidationError(f"{call} has its bounds in the wrong order; write times({high}, {low})")
    return low, high


def refuse_comparison(name: str) -> NoReturn:
    """Raise TypeError, because events have no value. Otherwise ``a == b`` would be False, which never holds."""
    raise TypeError(f"{name} is a variable, not a value; compare its attributes, as in {name}.x == 1")


class _WithAttributes:
    """Base class of variables and elements: attributes by ``x.name``, or ``x["name"]`` if Python uses the name."""

    __slots__ = ("_declaration", "_group", "_index", "_schema")

    def __init__(
        self, schema: Schema, declaration: ast.Variable, index: ast.Index | None = None, group: str | None = None
    ) -> None:
        self._schema = schema
        self._declaration = declaration
        self._index = index
        self._group = group

    def __dir__(self) -> list[str]:
        """Return the attributes of the events too, for completion."""
        names = {*super().__dir__(), *BUILTINS, *attribute_dtypes(self._schema, self._declaration.types)}
        return sorted(name for name in names if name.isidentifier())

    def _attribute(self, name: str) -> Term:
        names = [*attribute_dtypes(self._schema, self._declaration.types), *BUILTINS]
        if name not in names:
            owner = " | ".join(self._declaration.types)
            raise AttributeError(f"unknown attribute '{name}' of {owner}{suggest(name, names, 'it has')}")
        x = self._declaration.name
        if self._group is None:
            return Term(ast.Attribute(x, name, self._index))
        return Term(ast.Attribute(self._group, name, self._index, x))

    def __eq__(self, other: object) -> NoReturn:
        refuse_comparison(self._declaration.name)

    def __getitem__(self, name: str) -> Term:
        if not isinstance(name, str):
            x = self._declaration.name
            raise TypeError(f"{x} holds one event and has no index; make it {x} = {x}.plus() to hold several")
        return self._attribute(name)

    def __getattr__(self, name: str) -> Term:
        if name.startswith("__") or name in _WithAttributes.__slots__:
            raise AttributeError(name)
        return self._attribute(name)


class Element(_WithAttributes):
    """One element of a repeated variable, such as ``b[i]``, or a variable in a round of a group; see `Variable`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{expression_text(self._attribute('time').node).removesuffix('.time')}>"


class Variable(_WithAttributes):
    """A variable that holds one event; its attributes are terms.

    If an attribute has the name of a method of this class, write ``x["name"]``.
    """

    __slots__ = ()

    def plus(self) -> Repeated:
        """Set the quantifier to one event or more, ``T+ x[]``."""
        return self.times(at_least=1)

    def star(self) -> Repeated:
        """Set the quantifier to any number of events, ``T* x[]``."""
        return self.times(at_least=0)

    def times(self, *count: int, at_least: int | None = None, at_most: int | None = None) -> Repeated:
        """Set the number of events: ``times(3)``, ``times(2, 4)``, ``times(at_least=3)``, ``times(at_most=3)``."""
        minimum, maximum = times_bounds(count, at_least, at_most)
        return Repeated(self._schema, replace(self._declaration, minimum=minimum, maximum=maximum, repeated=True))

    def optional(self) -> Variable:
        """Set the quantifier to one event or none, ``T? x``."""
        return Variable(self._schema, replace(self._declaration, minimum=0))

    def several(self) -> Several:
        """Hold several events, whose number `any_of` sets, ``T x[]`` in ``ANY(n, T x[])``."""
        return Several(self._schema, replace(self._declaration, maximum=None, repeated=True))

    def negated(self) -> Negated:
        """Negate the variable: such events must not occur, ``NEG T x`` as a part of `seq`."""
        if self._declaration.minimum != 1:
            raise ValidationError(_negated_one(self._declaration))
        return Negated(self._schema, self._declaration)

    def silent(self, duration: str | timedelta) -> Negated:
        """Negate the variable for a time: no such event up to that time after the event before, ``NEG T x FOR t``."""
        if self._declaration.minimum != 1:
            raise ValidationError(_negated_one(self._declaration))
        return Negated(self._schema, self._declaration, parse_duration(duration))

    def __repr__(self) -> str:
        return f"<{pattern_text(self._declaration)}>"

    @property
    def _pattern(self) -> ast.Pattern:
        return self._declaration


class Negated(_WithAttributes):
    """A variable for events that must not occur; conditions on its attributes select these events."""

    __slots__ = ("_nanoseconds",)

    def __init__(self, schema: Schema, declaration: ast.Variable, nanoseconds: int | None = None) -> None:
        super().__init__(schema, declaration)
        self._nanoseconds = nanoseconds

    @property
    def _pattern(self) -> ast.Pattern:
        return ast.Negation(self._declaration.types, self._declaration.name, self._nanoseconds)

    def __repr__(self) -> str:
        return f"<{pattern_text(self._pattern)}>"


class ListTerms:
    """Base class of variables that hold several events: aggregates and lists of attributes."""

    __slots__ = ("_declaration", "_group", "_schema")

    def __init__(self, schema: Schema, declaration: ast.Variable, group: str | None = None) -> None:
        self._schema = schema
        self._declaration = declaration
        self._group = group

    def __eq__(self, other: object) -> NoReturn:
        refuse_comparison(self._declaration.name)

    def __repr__(self) -> str:
        text = pattern_text(self._declaration)
        return f"<{text}>" if self._group is None else f"<{text} in {self._group}>"

    def values(self, name: str) -> Term:
        """Return the list of an attribute over all elements, for `Builder.returns`."""
        return Term(ast.AttributeList(*self._named(name)))

    def sum(self, name: str) -> Term:
        """Return the sum of an attribute over all elements."""
        return self._aggregate("SUM", name)

    def avg(self, name: str) -> Term:
        """Return the mean of an attribute."""
        return self._aggregate("AVG", name)

    def min(self, name: str) -> Term:
        """Return the least value of an attribute."""
        return self._aggregate("MIN", name)

    def max(self, name: str) -> Term:
        """Return the greatest value of an attribute."""
        return self._aggregate("MAX", name)

    def stddev(self, name: str) -> Term:
        """Return the sample standard deviation of an attribute."""
        return self._aggregate("STDDEV", name)

    def _aggregate(self, function: str, name: str) -> Term:
        return Term(ast.Aggregate(function, *self._named(name)))

    def _named(self, name: str) -> tuple[str, str, str | None]:
        """Return variable, attribute and inner variable for an AST node."""
        _WithAttributes(self._schema, self._declaration)._attribute(name)
        x = self._declaration.name
        return (x, name, None) if self._group is None else (self._group, name, x)


class SoFar(ListTerms):
    """The elements of a repeated variable before, or up to, the one that ``i`` names: running aggregates over them."""

    __slots__ = ("_index",)

    def __init__(self, schema: Schema, declaration: ast.Variable, index: ast.Index) -> None:
        super().__init__(schema, declaration)
        self._index = index

    def __repr__(self) -> str:
        return f"<{self._declaration.name}{index_text(self._index, so_far=True)}>"

    def values(self, name: str) -> NoReturn:
        """Raise TypeError: only aggregates are defined over these elements."""
        raise TypeError(f"{self!r} has no list of {name!r}; write an aggregate, as in b[:i].avg({name!r})")

    def count(self, name: str | None = None) -> Term:
        """Count these elements, or those whose attribute is not null."""
        if name is None:
            return Term(ast.Aggregate("COUNT", self._declaration.name, index=self._index))
        return self._aggregate("COUNT", name)

    def _aggregate(self, function: str, name: str) -> Term:
        return Term(ast.Aggregate(function, *self._named(name), self._index))


class Repeated(ListTerms):
    """A variable that holds several events: elements by index, and aggregates over all of them."""

    __slots__ = ()

    @overload
    def __getitem__(self, index: slice) -> SoFar: ...
    @overload
    def __getitem__(self, index: int | IndexTerm) -> Element: ...
    def __getitem__(self, index: int | IndexTerm | slice) -> Element | SoFar:
        """Return an element: ``b[i]``, ``b[i + 1]``, ``b[0]``, ``b[first]``, ``b[last]``, ``b[last - 1]``.

        The slices ``b[:i]`` and ``b[:i + 1]`` are the elements before, and up to, the one that ``i`` names; they have
        running aggregates, such as ``b[:i].avg("x")``.
        """
        if isinstance(index, slice):
            return SoFar(self._schema, self._declaration, _end_of(index))
        return Element(self._schema, self._declaration, index_of(index))

    @property
    def first(self) -> Element:
        """The first element."""
        return self[first]

    @property
    def last(self) -> Element:
        """The last element."""
        return self[last]

    def consecutive(self) -> Repeated:
        """Allow no event between the elements, ``T+ x[] CONSECUTIVE``.

        With PARTITION BY only events of the same partition count, otherwise all events of the stream.
        """
        return type(self)(self._schema, replace(self._declaration, consecutive=True))

    def until(self, ending: Variable) -> Loop:
        """End the loop at an event: no ``ending`` may come before its last element, ``T+ x[] UNTIL U u``.

        Put the result into the pattern. Conditions use ``x`` and ``ending`` as before.
        """
        return Loop(self._schema, self._declaration, ending)

    def count(self, name: str | None = None) -> Term:
        """Count the elements, or those whose attribute is not null."""
        return Term(ast.Aggregate("COUNT", self._declaration.name)) if name is None else self._aggregate("COUNT", name)

    @property
    def _pattern(self) -> ast.Pattern:
        return self._declaration

    def __getattr__(self, name: str) -> Term:
        if name.startswith("__") or name in ListTerms.__slots__:
            raise AttributeError(name)
        if name == "negated":
            raise AttributeError(_negated_one(self._declaration))
        x = self._declaration.name
        raise AttributeError(f"{x} holds several events; write {x}[i].{name}, {x}.first.{name}, {x}.last.{name} …")


def _negated_one(declaration: ast.Variable) -> str:
    return (
        f"NEG takes one event, not {pattern_text(declaration)}; write {declaration.name}.negated() without a "
        "quantifier, and conditions on it to select the events that must not occur"
    )


class Loop:
    """A loop that an event ends, ``B+ b[] UNTIL U u``; a part of a pattern, made by `Repeated.until`."""

    __slots__ = ("_pattern", "_schema")

    def __init__(self, schema: Schema, pattern: ast.Variable | ast.Group, ending: object) -> None:
        if type(ending) is not Variable or ending._declaration.minimum == 0:
            raise ValidationError(
                f'until() takes the event that ends the loop, such as schema.U("u"), not {ending!r}; write conditions '
                "on it in where()"
            )
        if ending._schema != schema:
            raise ValidationError("the variables of a query must come from one schema; these come from several")
        self._schema = schema
        self._pattern = ast.Until(pattern, ast.Negation(ending._declaration.types, ending._declaration.name))

    def __repr__(self) -> str:
        return f"<{pattern_text(self._pattern)}>"


class Several(Repeated):
    """A variable of `any_of`, which sets the number of its events."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{pattern_text(replace(self._declaration, maximum=1, repeated=False))}[]>"


def _variable(schema: Schema, type_name: str, name: str) -> Variable:
    return Variable(schema, ast.Variable((type_name,), name))


Schema._variable_factory = staticmethod(_variable)
