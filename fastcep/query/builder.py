"""Queries written in Python: the same nodes that the text gives.

>>> a, b = schema.A("a"), schema.B("b").plus()                                    # doctest: +SKIP
>>> seq(a, b).where(a.ID == b[i].ID, b.sum("V") > a.V).within("8ms").named("q")   # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeAlias

from fastcep.errors import ValidationError
from fastcep.events.schema import Schema, TypeHandle
from fastcep.events.units import parse_duration
from fastcep.query import ast
from fastcep.query.check import check
from fastcep.query.groups import OptionalGroup, RepeatedGroup, Ungrouped
from fastcep.query.printer import expression_text, pattern_text
from fastcep.query.source import NESTED, Problem
from fastcep.query.terms import Term, node_of
from fastcep.query.variables import Negated, Repeated, Several, Variable, whole
from fastcep.query.windows import Edge

__all__ = [
    "Adjacent", "Builder", "adjacent", "all_of", "any_of", "any_type", "aperiodic", "group", "one_of", "periodic",
    "same", "seq",
]  # fmt: skip

Part: TypeAlias = "Variable | Repeated | Negated | RepeatedGroup | OptionalGroup | Builder"


@dataclass(frozen=True, slots=True)
class Adjacent:
    """A member of a SEQ with ``NEXT`` before it; `adjacent` makes it."""

    part: Part


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


def adjacent(member: Part | Adjacent) -> Adjacent:
    """Let nothing lie between ``member`` of a `seq` and what is bound before it: ``seq(a, adjacent(b))``, ``NEXT B b``.

    Nothing of the partition if the query has PARTITION BY, else nothing of the stream.
    """
    return member if isinstance(member, Adjacent) else Adjacent(member)


def seq(*members: Part | Adjacent) -> Builder:
    """Begin a query: ``members`` in order, ``SEQ(…)``.

    A member is a variable, a negated one (``schema.N("n").negated()``), a `group`, or another pattern: what `seq`,
    `all_of`, `one_of`, `any_of` and `aperiodic` give can be a part of one of them as well as a query of its own. Each
    may be `adjacent` to the ones before it.

    Raises
    ------
    ValidationError
        There is no member, or the members belong to different schemas.
    """
    plain = tuple(member.part if isinstance(member, Adjacent) else member for member in members)
    schema, parts = _parts("seq", plain)
    places = tuple(place for place, member in enumerate(members) if isinstance(member, Adjacent))
    return Builder(schema, ast.Sequence(parts, places))


def all_of(*members: Part) -> Builder:
    """Begin a query: all ``members`` in any order, ``AND(…)``; see `seq`."""
    schema, parts = _parts("all_of", members)
    return Builder(schema, ast.Conjunction(parts))


def one_of(*members: Part) -> Builder:
    """Begin a query: exactly one of ``members``, ``OR(…)``; see `seq`."""
    schema, parts = _parts("one_of", members)
    return Builder(schema, ast.Disjunction(parts))


def any_of(count: int, *variables: Variable | Repeated, distinct: str | None = None) -> Builder:
    """Begin a query: ``count`` of the variables in any order, ``ANY(n, A a, B b, …)``; see `seq`.

    Parameters
    ----------
    count
        How many events.
    variables
        Single variables, or one ``x = schema.T("x").several()``: ``count`` events of ``T``, ``ANY(n, T x[])``.
    distinct
        With ``several()``: an attribute in which the events differ pairwise, ``DISTINCT``.
    """
    count = whole(count, "any_of()")
    for variable in variables:
        if not isinstance(variable, Variable | Several):
            hint = f'; write .several(), any_of says how many: any_of({count}, schema.T("x").several())'
            raise ValidationError(
                f'any_of() takes variables such as schema.A("a"), not {_shown(variable)}'
                f"{hint if isinstance(variable, Repeated) else ''}"
            )
    if not variables:
        raise ValidationError('any_of() needs at least one variable, such as schema.A("a")')
    members = [
        replace(variable._member, minimum=count, maximum=count) if isinstance(variable, Several) else variable._member
        for variable in variables
    ]
    if distinct is not None and not isinstance(distinct, str):
        raise ValidationError(f"found {distinct!r} as distinct of any_of(), expected the name of one attribute")
    schema = _one_schema([variable._schema for variable in variables])
    return Builder(schema, ast.AnyOf(count, tuple(members), distinct))


def aperiodic(opening: Part, body: Part, closing: Variable) -> Builder:
    """Begin a query: each ``body`` after ``opening`` with no ``closing`` event between, ``APERIODIC(…)``; see `seq`."""
    schema, (first_part, second_part) = _parts("aperiodic", (opening, body), closing)
    return Builder(schema, ast.Aperiodic(first_part, second_part, closing._member))


def periodic(opening: Part, every: str | timedelta, closing: Variable) -> Builder:
    """Begin a query: a tick ``every`` so often after ``opening`` until a ``closing`` event, ``PERIODIC(…)``."""
    schema, (part,) = _parts("periodic", (opening,), closing)
    return Builder(schema, ast.Periodic(part, parse_duration(every), closing._member))


def group(name: str, pattern: Builder) -> Ungrouped:
    """Make a group of ``pattern``, which repeats as a whole.

    ``g = group("g", seq(a, b)).plus()`` is ``(SEQ(A a, B b))+ g[]``; `Ungrouped.star`, `Ungrouped.times` and
    `Ungrouped.optional` as for a variable. Conditions use ``g[i].a.x``, ``g.first.a.x``, ``g[0].a.x``, ``g.count()``
    and ``g.a.sum("x")``; of an optional group ``g.a.x``.
    """
    if not isinstance(pattern, Builder):
        raise ValidationError(
            f"group() takes a pattern such as seq(a, b), not {_shown(pattern)}; write seq(…) around it"
        )
    schema, (part,) = _parts("group", (pattern,))
    return Ungrouped(schema, ast.Group(part, name))


def _parts(
    function: str, members: tuple[object, ...], closing: object = None
) -> tuple[Schema, tuple[ast.Pattern, ...]]:
    """The schema of the parts of a pattern, and their nodes."""
    parts: list[ast.Pattern] = []
    schemas: list[Schema] = []
    for member in members:
        if isinstance(member, Several):
            x = member._member.variable
            raise ValidationError(f"{x}.several() stands only in any_of(); write {x}.plus(), .star() or .times(n)")
        if isinstance(member, Ungrouped):
            raise ValidationError(
                f"group {member.group.variable} needs a quantifier: .plus(), .star(), .times(n) or .optional()"
            )
        if isinstance(member, Adjacent):
            raise ValidationError(
                f"adjacent() stands only in seq(), not in {function}(): what it holds comes right after the members "
                "before it"
            )
        if isinstance(member, Builder):
            if member != Builder(member.schema, member.pattern):
                raise ValidationError(
                    f"a part of {function}() has where(), within() or the like of its own; put them on the whole query"
                )
            parts.append(member.pattern)
            schemas.append(member.schema)
        elif isinstance(member, Variable | Repeated | Negated | RepeatedGroup | OptionalGroup):
            parts.append(member._pattern)
            schemas.append(member._schema)
        else:
            raise ValidationError(
                f'{function}() takes variables such as schema.A("a"), groups and other patterns, not {_shown(member)}'
            )
    if closing is not None:
        if not isinstance(closing, Variable):
            raise ValidationError(
                f'{function}() ends with a single variable such as schema.C("c"), not {_shown(closing)}'
            )
        schemas.append(closing._schema)
    if not parts:
        raise ValidationError(f'{function}() needs at least one variable, such as schema.A("a")')
    return _one_schema(schemas), tuple(parts)


def _shown(value: object) -> str:
    if isinstance(value, TypeHandle):
        return f'the type {value.name} alone; give it a variable, as in schema.{value.name}("x")'
    pattern = value.pattern if isinstance(value, Builder) else getattr(value, "_pattern", None)
    return pattern_text(pattern) if isinstance(pattern, ast.Pattern) else repr(value)


def _one_schema(schemas: list[Schema]) -> Schema:
    if any(other != schemas[0] for other in schemas):
        raise ValidationError("the variables of a query must come from one schema; these come from several")
    return schemas[0]


@dataclass(frozen=True, slots=True)
class Builder:
    """A query being built; every method gives a new one, and `build` checks it. An engine takes it as it is.

    While it is nothing but a pattern, it can also be a part of another.
    """

    schema: Schema
    pattern: ast.Pattern
    condition: ast.Expr | None = None
    extent: ast.Window | None = None
    partition: tuple[str, ...] = ()
    output: tuple[ast.ReturnItem, ...] = ()
    policies: tuple[tuple[str, Any], ...] = ()
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
            return replace(self, extent=ast.CountWindow(whole(events, "within(events=…)")))
        return replace(self, extent=ast.Unbounded() if time is None else ast.TimeWindow(parse_duration(time)))

    def window(self, opens: Edge, closes: Edge) -> Builder:
        """Set explicit windows, ``WINDOW OPEN … CLOSE …``.

        Parameters
        ----------
        opens
            `every` so often, or `on` an event.
        closes
            `after` so much, or `on` an event, whose conditions may speak of the opening one.
        """
        for name, edge, kinds in (("opens", opens, ("every", "on")), ("closes", closes, ("after", "on"))):
            if not isinstance(edge, Edge) or edge.kind not in kinds:
                raise ValidationError(
                    f'found {edge!r} as {name} of window(), expected {kinds[0]}("5s") or on(schema.A("o"), …)'
                )
            if edge.schema is not None:
                _one_schema([self.schema, edge.schema])
        return replace(self, extent=ast.ExplicitWindow(opens.bound, closes.bound))

    def strategy(self, name: str) -> Builder:
        """Say which events may be skipped: ``"skip_till_any"`` (as without), ``"skip_till_next"``,
        ``"partition_contiguity"`` or ``"strict_contiguity"``.
        """
        return self._with("strategy", name)

    def select(self, name: str) -> Builder:
        """Choose among the matches that end in one event: ``"each"`` (as without), ``"first"``, ``"last"`` or
        ``"cumulative"``.
        """
        return self._with("select", name)

    def consume(self, name: str) -> Builder:
        """Say whether events of a reported match may be used again (``"zero"``, as without) or not (``"consumed"``)."""
        return self._with("consume", name)

    def limit(self, count: int) -> Builder:
        """Report at most ``count`` matches of each explicit window, ``LIMIT k PER WINDOW``."""
        return self._with("limit", whole(count, "limit()"))

    def after_match(self, skip: str) -> Builder:
        """Say what a match drops: ``"no skip"`` (as without), ``"skip to next"`` or ``"skip past last"``."""
        return self._with("after_match", skip)

    def weight(self, weight: float) -> Builder:
        """Set the query's weight among several, 1 as without."""
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise ValidationError(f"found {weight!r} in weight(), expected a number")
        return self._with("weight", float(weight))

    def _with(self, policy: str, value: object) -> Builder:
        value = value.lower() if isinstance(value, str) else value
        return replace(self, policies=tuple({**dict(self.policies), policy: value}.items()))

    def partition_by(self, *names: str) -> Builder:
        """Match inside each partition by these attributes only."""
        return replace(self, partition=self.partition + names)

    def returns(self, *items: Term, **named: Term) -> Builder:
        """Add output columns; a keyword names its column, else the expression's text does."""
        added = [ast.ReturnItem(node_of(item), _column(node_of(item))) for item in items]
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
        if self.extent is None:
            raise ValidationError(
                'every query needs a window; add .within("5min"), .within(events=100), .within(None) or '
                ".window(opens=…, closes=…)"
            )
        query = ast.Query(
            self.name,
            self.pattern,
            self.extent,
            self.condition,
            self.partition,
            self.output,
            **dict(self.policies),
            schema=self.schema,
        )
        try:
            return check(query)
        except Problem as problem:
            raise ValidationError(problem.message) from None

    def _repr_html_(self) -> str | None:
        """Show the query in a notebook; None (as text) while it cannot be built."""
        try:
            return self.build()._repr_html_()
        except ValidationError:
            return None


def _column(item: ast.Expr) -> str:
    """Name of the output column of an expression."""
    if ast.nesting(item) > ast.MAX_NESTING:
        raise ValidationError(NESTED.format("expression"))
    return expression_text(item)
