"""Build queries in Python, from the same nodes that the parser produces.

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
from fastcep.query import ast, traversal
from fastcep.query.builder.groups import OptionalGroup, RepeatedGroup, Ungrouped
from fastcep.query.builder.terms import Term, node_of
from fastcep.query.builder.variables import Loop, Negated, Repeated, Several, Variable, whole
from fastcep.query.builder.windows import Edge
from fastcep.query.checks.query import check
from fastcep.query.printer import expression_text, one_line, pattern_text
from fastcep.query.source import NESTED, Problem

__all__ = [
    "Adjacent", "Builder", "adjacent", "all_of", "any_of", "any_type", "aperiodic", "group", "one_of", "periodic",
    "same", "seq",
]  # fmt: skip

Part: TypeAlias = "Variable | Repeated | Loop | Negated | RepeatedGroup | OptionalGroup | Builder"


@dataclass(frozen=True, slots=True)
class Adjacent:
    """A part of a SEQ preceded by ``NEXT``; created by `adjacent`."""

    part: Part


def any_type(*types: TypeHandle) -> Callable[[str], Variable]:
    """Make a union type: ``any_type(schema.A, schema.B)("x")`` is ``(A|B) x``.

    The variable has the attributes that all the types share.
    """
    if not types:
        raise ValidationError("any_type() needs at least one event type, such as any_type(schema.A, schema.B)")
    schema = _one_schema([handle.schema for handle in types])

    def make(name: str) -> Variable:
        return Variable(schema, ast.Variable(tuple(handle.name for handle in types), name))

    return make


def same(*names: str) -> Term:
    """Require that all variables agree on each of these attributes, ``[job, task]``."""
    if not names:
        raise ValidationError("same() needs at least one attribute")
    return Term(ast.SameAttributes(names))


def adjacent(member: Part | Adjacent) -> Adjacent:
    """Require that no event lies between ``member`` of a `seq` and the events bound before it, ``NEXT B b``.

    Write ``seq(a, adjacent(b))``. With PARTITION BY only events of the same partition count, otherwise all events of
    the stream.
    """
    return member if isinstance(member, Adjacent) else Adjacent(member)


def seq(*members: Part | Adjacent) -> Builder:
    """Start a query with ``members`` in order, ``SEQ(…)``.

    Each of them is a variable, a negated variable (``schema.N("n").negated()``), a `group` or another pattern, and can
    be `adjacent` to those before it. The results of `seq`, `all_of`, `one_of`, `any_of` and `aperiodic` can be parts of
    each other as well as queries.

    Raises
    ------
    ValidationError
        ``members`` is empty, or they belong to different schemas.
    """
    unwrapped = tuple(item.part if isinstance(item, Adjacent) else item for item in members)
    schema, parts = _parts("seq", unwrapped)
    adjacent_indices = tuple(index for index, item in enumerate(members) if isinstance(item, Adjacent))
    return Builder(schema, ast.Sequence(parts, adjacent_indices))


def all_of(*members: Part) -> Builder:
    """Start a query with all ``members`` in any order, ``AND(…)``; see `seq`."""
    schema, parts = _parts("all_of", members)
    return Builder(schema, ast.Conjunction(parts))


def one_of(*members: Part) -> Builder:
    """Start a query with exactly one of ``members``, ``OR(…)``; see `seq`."""
    schema, parts = _parts("one_of", members)
    return Builder(schema, ast.Disjunction(parts))


def any_of(count: int, *variables: Variable | Repeated, distinct: str | None = None) -> Builder:
    """Start a query with ``count`` of the variables in any order, ``ANY(n, A a, B b, …)``; see `seq`.

    Parameters
    ----------
    count
        Number of events.
    variables
        Single variables, or one ``x = schema.T("x").several()``: ``count`` events of ``T``, ``ANY(n, T x[])``.
    distinct
        With ``several()``: the attribute in which the events differ pairwise, ``DISTINCT``.
    """
    count = whole(count, "any_of()")
    for variable in variables:
        if not isinstance(variable, Variable | Several):
            hint = f'; use .several(), because any_of sets the number: any_of({count}, schema.T("x").several())'
            raise ValidationError(
                f'any_of() takes variables such as schema.A("a"), not {_text_of(variable)}'
                f"{hint if isinstance(variable, Repeated) else ''}"
            )
    if not variables:
        raise ValidationError('any_of() needs at least one variable, such as schema.A("a")')
    declarations = [
        replace(one._declaration, minimum=count, maximum=count) if isinstance(one, Several) else one._declaration
        for one in variables
    ]
    if distinct is not None and not isinstance(distinct, str):
        raise ValidationError(f"found {distinct!r} as distinct in any_of(), expected the name of one attribute")
    schema = _one_schema([variable._schema for variable in variables])
    return Builder(schema, ast.AnyOf(count, tuple(declarations), distinct))


def aperiodic(opening: Part, body: Part, closing: Variable) -> Builder:
    """Start a query: each ``body`` after ``opening`` with no ``closing`` event in between, ``APERIODIC(…)``."""
    schema, (first_part, second_part) = _parts("aperiodic", (opening, body), closing)
    return Builder(schema, ast.Aperiodic(first_part, second_part, closing._declaration))


def periodic(opening: Part, every: str | timedelta, closing: Variable) -> Builder:
    """Start a query: a tick ``every`` interval after ``opening`` until a ``closing`` event, ``PERIODIC(…)``."""
    schema, (part,) = _parts("periodic", (opening,), closing)
    return Builder(schema, ast.Periodic(part, parse_duration(every), closing._declaration))


def group(name: str, pattern: Builder) -> Ungrouped:
    """Make a group, which repeats ``pattern`` as a whole.

    ``g = group("g", seq(a, b)).plus()`` is ``(SEQ(A a, B b))+ g[]``. `Ungrouped.star`, `Ungrouped.times` and
    `Ungrouped.optional` work as for a variable. Conditions use ``g[i].a.x``, ``g.first.a.x``, ``g[0].a.x``,
    ``g.count()`` and ``g.a.sum("x")``, or ``g.a.x`` for an optional group.
    """
    if not isinstance(pattern, Builder):
        raise ValidationError(
            f"group() takes a pattern such as seq(a, b), not {_text_of(pattern)}; write seq(…) around it"
        )
    schema, (part,) = _parts("group", (pattern,))
    return Ungrouped(schema, ast.Group(part, name))


def _parts(function: str, items: tuple[object, ...], closing: object = None) -> tuple[Schema, tuple[ast.Pattern, ...]]:
    """Return the schema of the parts of a pattern, and their nodes."""
    parts: list[ast.Pattern] = []
    schemas: list[Schema] = []
    for item in items:
        if isinstance(item, Several):
            x = item._declaration.name
            raise ValidationError(f"{x}.several() is allowed only in any_of(); write {x}.plus(), .star() or .times(n)")
        if isinstance(item, Ungrouped):
            raise ValidationError(
                f"group {item.group.name} needs a quantifier: .plus(), .star(), .times(n) or .optional()"
            )
        if isinstance(item, Adjacent):
            raise ValidationError(
                f"adjacent() is allowed only in seq(), not in {function}(), because only seq() has an order"
            )
        if isinstance(item, Builder):
            if item != Builder(item.schema, item.pattern):
                raise ValidationError(
                    f"a part of {function}() has its own where(), within() or other clause; put them on the whole query"
                )
            parts.append(item.pattern)
            schemas.append(item.schema)
        elif isinstance(item, Variable | Repeated | Loop | Negated | RepeatedGroup | OptionalGroup):
            parts.append(item._pattern)
            schemas.append(item._schema)
        else:
            raise ValidationError(
                f'{function}() takes variables such as schema.A("a"), groups and other patterns, not {_text_of(item)}'
            )
    if closing is not None:
        if not isinstance(closing, Variable):
            raise ValidationError(
                f'{function}() ends with a single variable such as schema.C("c"), not {_text_of(closing)}'
            )
        schemas.append(closing._schema)
    if not parts:
        raise ValidationError(f'{function}() needs at least one variable, such as schema.A("a")')
    return _one_schema(schemas), tuple(parts)


def _text_of(value: object) -> str:
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
    """A query under construction. Every method returns a new builder, and `build` checks the query.

    An engine accepts a builder directly. A builder that has only a pattern can also be a part of another pattern.
    """

    schema: Schema
    pattern: ast.Pattern
    condition: ast.Expr | None = None
    extent: ast.Window | None = None
    partition: tuple[str, ...] = ()
    output: tuple[ast.ReturnItem, ...] = ()
    policies: tuple[tuple[str, Any], ...] = ()
    name: str = "query"

    def __repr__(self) -> str:
        try:
            text = one_line(self.build())
        except ValidationError:  # it is not complete
            text = f"QUERY {self.name} PATTERN {pattern_text(self.pattern)} …"
        return f"Builder({text!r})"

    def where(self, *conditions: Term) -> Builder:
        """Add conditions; all of them must hold."""
        joined = self.condition
        for condition in conditions:
            node = node_of(condition)
            joined = node if joined is None else ast.Binary("AND", joined, node)
        return replace(self, condition=joined)

    def within(self, time: str | timedelta | None = None, *, events: int | None = None) -> Builder:
        """Set the window: a time such as ``"8ms"``, ``events=n``, or None for UNBOUNDED."""
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
            `every` interval, or `on` an event.
        closes
            `after` a time or a number of events, or `on` an event, whose conditions can mention the opening event.
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
        """Set which events can be skipped: ``"skip_till_any"`` (the default), ``"skip_till_next"``,
        ``"partition_contiguity"`` or ``"strict_contiguity"``.
        """
        return self._with("strategy", name)

    def select(self, name: str) -> Builder:
        """Choose among the matches that end in the same event: ``"each"`` (the default), ``"first"``, ``"last"`` or
        ``"cumulative"``; or report the ``"longest"`` of those that begin with the same event.
        """
        return self._with("select", name)

    def consume(self, name: str) -> Builder:
        """Set whether events of a reported match can be reused (``"zero"``, the default) or not (``"consumed"``)."""
        return self._with("consume", name)

    def limit(self, count: int) -> Builder:
        """Report at most ``count`` matches of each explicit window, ``LIMIT k PER WINDOW``."""
        return self._with("limit", whole(count, "limit()"))

    def after_match(self, skip: str, to: str | None = None) -> Builder:
        """Set what a match drops.

        Parameters
        ----------
        skip
            ``"no skip"`` (the default), ``"skip to next"``, ``"skip past last"``, ``"skip to first"`` or
            ``"skip to last"``.
        to
            With ``"skip to first"`` and ``"skip to last"``: the name of a variable or group.
        """
        skipping = self._with("after_match", skip)
        policies = {**dict(skipping.policies), "skip_to": to}
        return replace(skipping, policies=tuple(policies.items()))

    def weight(self, weight: float) -> Builder:
        """Set the weight of the query among several queries; the default is 1."""
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise ValidationError(f"found {weight!r} in weight(), expected a number")
        return self._with("weight", float(weight))

    def _with(self, policy: str, value: object) -> Builder:
        value = value.lower() if isinstance(value, str) else value
        return replace(self, policies=tuple({**dict(self.policies), policy: value}.items()))

    def partition_by(self, *names: str) -> Builder:
        """Match only within each partition, defined by these attributes."""
        return replace(self, partition=self.partition + names)

    def returns(self, *items: Term, **named: Term) -> Builder:
        """Add output columns; a column is named by its keyword, or by the text of its expression."""
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
            The query has no window, an unknown name, an operand of the wrong type or another error.
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
        """Return the query as HTML for a notebook; None while it cannot be built."""
        try:
            return self.build()._repr_html_()
        except ValidationError:
            return None


def _column(item: ast.Expr) -> str:
    """Return the name of the output column of an expression."""
    if traversal.nesting(item) > ast.MAX_NESTING:
        raise ValidationError(NESTED.format("expression"))
    return expression_text(item)
