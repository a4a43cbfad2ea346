"""Groups for the builder, such as ``(pattern)+ g[]``, and the terms of the variables inside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from fastcep.events.schema import Schema
from fastcep.query import ast
from fastcep.query.builder.terms import Term
from fastcep.query.builder.variables import (
    Element,
    IndexTerm,
    ListTerms,
    Loop,
    Variable,
    first,
    index_of,
    last,
    refuse_comparison,
    times_bounds,
)
from fastcep.query.patterns import pattern_variables
from fastcep.query.printer import expression_text, pattern_text
from fastcep.query.source import suggest

__all__ = ["InnerVariable", "OptionalGroup", "RepeatedGroup", "Round", "Ungrouped"]


class _Grouped:
    """Base class for access to a group's variables: ``g.a``, or ``g["a"]`` if ``a`` is a Python name or a method."""

    __slots__ = ("_pattern", "_schema")

    def __init__(self, schema: Schema, pattern: ast.Group) -> None:
        self._schema = schema
        self._pattern = pattern

    def __eq__(self, other: object) -> NoReturn:
        refuse_comparison(self._pattern.name)

    def __repr__(self) -> str:
        return f"<{pattern_text(self._pattern)}>"

    def _inner(self, name: str) -> ast.Variable:
        declarations = {one.declaration.name: one.declaration for one in pattern_variables(self._pattern)}
        if name not in declarations:
            g = self._pattern.name
            raise AttributeError(f"unknown variable '{name}' of group {g}{suggest(name, declarations, 'it has')}")
        return declarations[name]

    def _element(self, name: str, index: ast.Index | None) -> Element:
        return Element(self._schema, self._inner(name), index, self._pattern.name)


class InnerVariable(ListTerms):
    """A variable of a repeated group over all rounds, ``g.a``: aggregates such as ``g.a.sum("x")``, and its list."""

    __slots__ = ()

    def count(self, name: str) -> Term:
        """Count the rounds in which the attribute is not null."""
        return self._aggregate("COUNT", name)

    def __getattr__(self, name: str) -> Term:
        if name.startswith("__") or name in ListTerms.__slots__:
            raise AttributeError(name)
        g, a = self._group, self._declaration.name
        raise AttributeError(
            f"{g} holds several rounds; write {g}[i].{a}.{name}, {g}.first.{a}.{name}, {g}.last.{a}.{name}, "
            f'or an aggregate such as {g}.{a}.sum("{name}")'
        )


class Round(_Grouped):
    """One round of a repeated group, such as ``g[i]``; its variables are elements, ``g[i].a.x``."""

    __slots__ = ("_index",)

    def __init__(self, schema: Schema, pattern: ast.Group, index: ast.Index) -> None:
        super().__init__(schema, pattern)
        self._index = index

    def __repr__(self) -> str:
        time = ast.Attribute(self._pattern.name, "time", self._index)
        return f"<{expression_text(time).removesuffix('.time')}>"

    def __getitem__(self, name: str) -> Element:
        return self._element(name, self._index)

    def __getattr__(self, name: str) -> Element:
        if name.startswith("__") or name in ("_index", *_Grouped.__slots__):
            raise AttributeError(name)
        return self[name]


class RepeatedGroup(_Grouped):
    """A group of several rounds: an index gives a round, a name gives a variable over all rounds."""

    __slots__ = ()

    def __getitem__(self, index: int | IndexTerm) -> Round:
        """Return a round: ``g[i]``, ``g[i + 1]``, ``g[0]``, ``g[first]``, ``g[last]``."""
        return Round(self._schema, self._pattern, index_of(index))

    @property
    def first(self) -> Round:
        """The first round."""
        return self[first]

    @property
    def last(self) -> Round:
        """The last round."""
        return self[last]

    def consecutive(self) -> RepeatedGroup:
        """Allow no event between a round and the next, ``(pattern)+ g[] CONSECUTIVE``; see `Repeated.consecutive`."""
        return RepeatedGroup(self._schema, replace(self._pattern, consecutive=True))

    def until(self, ending: Variable) -> Loop:
        """End the loop at an event, ``(pattern)+ g[] UNTIL U u``; see `Repeated.until`."""
        return Loop(self._schema, self._pattern, ending)

    def count(self) -> Term:
        """Count the rounds."""
        return Term(ast.Aggregate("COUNT", self._pattern.name))

    def inner(self, name: str) -> InnerVariable:
        """Return a variable over all rounds, for names that ``g.name`` cannot access."""
        return InnerVariable(self._schema, self._inner(name), self._pattern.name)

    def __getattr__(self, name: str) -> InnerVariable:
        if name.startswith("__") or name in _Grouped.__slots__:
            raise AttributeError(name)
        return self.inner(name)


class OptionalGroup(_Grouped):
    """A group of one round or none, ``(pattern)? g``; its variables are ``g.a``."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Element:
        if not isinstance(name, str):
            g = self._pattern.name
            raise TypeError(f"{g} holds one round and has no index; make it plus() or star() to hold several")
        return self._element(name, None)

    def __getattr__(self, name: str) -> Element:
        if name.startswith("__") or name in _Grouped.__slots__:
            raise AttributeError(name)
        return self[name]


@dataclass(frozen=True, slots=True)
class Ungrouped:
    """A group without a quantifier; `plus`, `star`, `times` or `optional` make it a part of a pattern."""

    schema: Schema
    group: ast.Group

    def plus(self) -> RepeatedGroup:
        """Set the quantifier to one round or more, ``(pattern)+ g[]``."""
        return self.times(at_least=1)

    def star(self) -> RepeatedGroup:
        """Set the quantifier to any number of rounds, ``(pattern)* g[]``."""
        return self.times(at_least=0)

    def times(self, *count: int, at_least: int | None = None, at_most: int | None = None) -> RepeatedGroup:
        """Set the quantifier by the arguments of `Variable.times`, ``(pattern){m,n} g[]``."""
        minimum, maximum = times_bounds(count, at_least, at_most)
        return RepeatedGroup(self.schema, replace(self.group, minimum=minimum, maximum=maximum, repeated=True))

    def optional(self) -> OptionalGroup:
        """Set the quantifier to one round or none, ``(pattern)? g``."""
        return OptionalGroup(self.schema, replace(self.group, minimum=0, maximum=1, repeated=False))
