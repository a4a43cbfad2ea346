"""The abstract syntax of a query: frozen nodes that text and builder both produce.

Two queries are equal when their nodes are equal; source spans and the text do not count.
Everything after the parser (plan, reference matcher, printer) reads these nodes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from fastcep.events import Schema


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text: offsets ``start:end``, one-based ``line`` and ``column`` of the start."""

    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Node:
    """Base of all nodes. ``span`` is None for built queries and takes no part in equality."""

    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Expr(Node):
    """Base of all expressions."""


@dataclass(frozen=True, slots=True)
class Literal(Expr):
    """A constant: int, float, str, bool or None (null)."""

    value: int | float | str | bool | None

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and True are equal in Python; as literals they are not.
        return (
            isinstance(other, Literal)
            and type(self.value) is type(other.value)
            and (self.value == other.value or (self.value != self.value and other.value != other.value))
        )

    def __hash__(self) -> int:
        return hash((type(self.value).__name__, self.value))


@dataclass(frozen=True, slots=True)
class DurationLiteral(Expr):
    """A duration constant such as ``5min``; its type is int64, its value nanoseconds."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Index:
    """Which element of a Kleene variable an attribute is read from.

    ``kind`` is ``"relative"`` (``x[i+offset]``), ``"position"`` (``x[offset]``, from 0),
    ``"first"`` or ``"last"`` (offset 0).
    """

    kind: str
    offset: int = 0


class _OfVariable(Expr):
    __slots__ = ()
    variable: str
    inner: str | None

    @property
    def leaf(self) -> str:
        """Name of the variable that is read; of the group in ``COUNT(g[])``."""
        return qualified(self.variable, self.inner)


@dataclass(frozen=True, slots=True)
class Attribute(_OfVariable):
    """``variable.name`` or ``variable[index].name``; ``time``, ``seq`` and ``type`` are built in.

    ``inner`` is the variable of a group that is meant: ``g[i].a.x`` is ``("g", "x", [i], "a")``.
    """

    variable: str
    name: str
    index: Index | None = None
    inner: str | None = None


@dataclass(frozen=True, slots=True)
class Aggregate(_OfVariable):
    """``FUNCTION(variable[].name)``; function is AVG SUM MIN MAX COUNT or STDDEV. ``COUNT(x[])`` has no name."""

    function: str
    variable: str
    name: str | None = None
    inner: str | None = None


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """``-x`` or ``NOT x``; ``operator`` is ``"-"`` or ``"NOT"``."""

    operator: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """``left operator right``; operator is one of ``+ - * / // % ^ = != < <= > >= AND OR``.

    A chain such as ``a OR b OR c`` nests in its left operands, thousands deep: what goes through trees takes such a
    chain by `spine`, in a loop, and recurses into right operands only (see `nesting`).
    """

    operator: str
    left: Expr
    right: Expr

    def spine(self) -> tuple[Expr, list[Binary]]:
        """Return the leftmost operand, which is no `Binary`, and the operations on it from the innermost to this."""
        chain, node = [self], self.left
        while isinstance(node, Binary):
            chain.append(node)
            node = node.left
        return node, chain[::-1]

    def _parts(self) -> tuple[Expr, tuple[tuple[str, Expr], ...]]:
        first, chain = self.spine()
        return first, tuple((node.operator, node.right) for node in chain)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Binary) and self._parts() == other._parts())

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        first, chain = self.spine()
        text = "".join(f"Binary(operator={node.operator!r}, left=" for node in reversed(chain)) + repr(first)
        return text + "".join(f", right={node.right!r})" for node in chain)

    def __reduce__(self) -> tuple[Any, ...]:
        first, chain = self.spine()
        return _chained, (first, [(node.operator, node.right, node.span) for node in chain])


def _chained(first: Expr, links: list[tuple[str, Expr, Span | None]]) -> Expr:
    """Put a chain of operations together again, for `pickle` and `copy`."""
    for operator, right, span in links:
        first = Binary(operator, first, right, span=span)
    return first


@dataclass(frozen=True, slots=True)
class Membership(Expr):
    """``operand IN {values}`` or, when ``negated``, ``operand NOT IN {values}``."""

    operand: Expr
    values: tuple[Literal, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between(Expr):
    """``operand BETWEEN low AND high``, both inclusive."""

    operand: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """``function(arguments)``; lower case: abs sqrt exp log min max avg floor."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """A registered function as queries and plans hold it: name and dtypes; its code stays in the registry."""

    name: str
    parameters: tuple[str, ...]
    result: str

    def __str__(self) -> str:
        return f"{self.result}({', '.join(self.parameters)})"


@dataclass(frozen=True, slots=True)
class UserCall(Expr):
    """``name(arguments)`` of a registered function (see `fastcep.query.registry`)."""

    signature: Signature
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class SameAttributes(Expr):
    """``[name, …]``: all positive variables agree on each of these attributes. Only a top-level conjunct."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttributeList(_OfVariable):
    """``variable[].name`` in RETURN: the attribute of every element, as a list."""

    variable: str
    name: str
    inner: str | None = None


# -------------------------------------------------------------------- pattern


@dataclass(frozen=True, slots=True)
class Pattern(Node):
    """Base of all patterns."""


@dataclass(frozen=True, slots=True)
class Member(Pattern):
    """A variable and the events that it may bind.

    ``types`` holds the event types (several for a union, in the order written). Quantifiers: plain
    ``(1, 1, repeated=False)``, ``?`` ``(0, 1, False)``, ``+`` ``(1, None, True)``, ``*`` ``(0, None, True)``,
    ``{n}`` ``(n, n, True)``, ``{m,n}`` ``(m, n, True)``, ``{m,}`` ``(m, None, True)``.
    A repeated variable is written ``x[]``.
    """

    types: tuple[str, ...]
    variable: str
    minimum: int = 1
    maximum: int | None = 1
    repeated: bool = False
    consecutive: bool = False


@dataclass(frozen=True, slots=True)
class Negation(Pattern):
    """``NEG T n`` in a SEQ: no such event between its neighbours."""

    types: tuple[str, ...]
    variable: str


@dataclass(frozen=True, slots=True)
class Sequence(Pattern):
    """``SEQ(member, …)``: all events of a member before all events of the next.

    ``adjacent`` are the places of the members that have ``NEXT`` before them.
    """

    members: tuple[Pattern, ...]
    adjacent: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Conjunction(Pattern):
    """``AND(member, …)``: all of them, in any order, interleaved too."""

    members: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Disjunction(Pattern):
    """``OR(member, …)``: exactly one of them."""

    members: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(Pattern):
    """``ANY(n, T1 x1, …)``: ``count`` of the single members, in any order, each set of events once.

    Or ``ANY(n, T x[])``: one repeated member with ``minimum = maximum = count``, pairwise different in the attribute
    ``distinct``, if it is given.
    """

    count: int
    members: tuple[Member, ...]
    distinct: str | None = None


@dataclass(frozen=True, slots=True)
class Group(Pattern):
    """``(pattern)+ g[]``, and the other quantifiers (see `Member`): rounds of ``pattern``, one after the other.

    Its variables are ``g[i].a``, in the output ``g.a``; of ``(pattern)? g`` they are ``g.a``.
    """

    pattern: Pattern
    variable: str
    minimum: int = 1
    maximum: int | None = None
    repeated: bool = True
    consecutive: bool = False


@dataclass(frozen=True, slots=True)
class Aperiodic(Pattern):
    """``APERIODIC(opening, body, closing)``: each ``body`` after ``opening`` with no ``closing`` event between."""

    opening: Pattern
    body: Pattern
    closing: Member


@dataclass(frozen=True, slots=True)
class Periodic(Pattern):
    """``PERIODIC(opening, t, closing)``: every ``t`` from ``opening``'s last event until a ``closing`` event."""

    opening: Pattern
    nanoseconds: int
    closing: Member


# --------------------------------------------------------------------- window


@dataclass(frozen=True, slots=True)
class Window(Node):
    """Base of the window clauses."""


@dataclass(frozen=True, slots=True)
class TimeWindow(Window):
    """``WITHIN t``: last.time - first.time <= nanoseconds."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class CountWindow(Window):
    """``WITHIN n EVENTS``: all events among n consecutive events of the stream."""

    events: int


@dataclass(frozen=True, slots=True)
class Unbounded(Window):
    """``WITHIN UNBOUNDED``."""


@dataclass(frozen=True, slots=True)
class Bound(Node):
    """What opens or closes an explicit window. Exactly one of the first three is given.

    ``events``: every so many events, or after so many; ``nanoseconds``: every so much time, or after so much;
    ``types``: on an event ``variable`` of one of them that satisfies ``where`` (a closing one's condition may mention
    the opening one's variable).
    """

    events: int | None = None
    nanoseconds: int | None = None
    types: tuple[str, ...] = ()
    variable: str = ""
    where: Expr | None = None


@dataclass(frozen=True, slots=True)
class ExplicitWindow(Window):
    """``WINDOW OPEN … CLOSE …``: windows that events open; each is evaluated for itself."""

    opening: Bound
    closing: Bound


# ---------------------------------------------------------------------- query

#: What the clauses of a query may say; the first is what a query without the clause means.
STRATEGIES = ("skip_till_any", "skip_till_next", "partition_contiguity", "strict_contiguity")
SELECTIONS = ("each", "first", "last", "cumulative")
CONSUMPTIONS = ("zero", "consumed")
AFTER_MATCH = ("no skip", "skip to next", "skip past last")


@dataclass(frozen=True, slots=True)
class ReturnItem(Node):
    """One column of RETURN; ``name`` is the output column's name (always set after parsing)."""

    expression: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Query(Node):
    """A checked query: names resolved against ``schema``, types correct.

    ``limit`` is that of ``LIMIT k PER WINDOW``; what the other clauses may say is listed above.
    """

    name: str
    pattern: Pattern
    window: Window
    where: Expr | None = None
    partition: tuple[str, ...] = ()
    returns: tuple[ReturnItem, ...] = ()
    strategy: str = "skip_till_any"
    select: str = "each"
    consume: str = "zero"
    limit: int | None = None
    after_match: str = "no skip"
    weight: float = 1.0
    schema: Schema = field(kw_only=True)
    text: str | None = field(default=None, compare=False, repr=False, kw_only=True)

    # Set by the plan, which is a layer above: query -> HTML.
    _html: ClassVar[Callable[[Query], str] | None] = None

    def _repr_html_(self) -> str | None:
        """Show the text, the schema and the plan in a notebook; None (as text) if no planner is loaded."""
        return None if Query._html is None else Query._html(self)


def children(node: Expr) -> Iterator[Expr]:
    """Yield the direct sub-expressions of ``node``, left to right."""
    if isinstance(node, Literal):  # of which IN may have many
        return
    names: tuple[str, ...] = type(node).__match_args__  # its fields without the span; `fields` is slow
    for name in names:
        value = getattr(node, name)
        if isinstance(value, Expr):
            yield value
        elif isinstance(value, tuple):
            yield from (entry for entry in value if isinstance(entry, Expr))


def walk(node: Expr) -> Iterator[Expr]:
    """Yield ``node`` and everything below it, parents first, left to right."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(tuple(children(node))))


def conjuncts(where: Expr | None) -> tuple[Expr, ...]:
    """Split a condition at its top-level ANDs (parentheses do not matter); NOT and OR are left whole."""
    parts, waiting = [], [] if where is None else [where]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Binary) and part.operator == "AND":
            waiting += (part.right, part.left)
        else:
            parts.append(part)
    return tuple(parts)


#: How many levels of expressions, and of patterns, may be inside of each other.
MAX_NESTING = 100


def nesting(node: Expr) -> int:
    """How many levels of expressions are inside of each other; a chain of operations such as a sum is one level."""
    deepest, waiting = 0, [(node, 1)]
    while waiting:
        node, level = waiting.pop()
        deepest = max(deepest, level)
        for child in children(node):
            chain = isinstance(node, Binary) and child is node.left and isinstance(child, Binary)
            waiting.append((child, level if chain else level + 1))
    return deepest


def expressions(query: Query) -> Iterator[Expr]:
    """Yield what a query computes: of RETURN, of WHERE, and of what opens and closes its windows."""
    yield from (item.expression for item in query.returns)
    wheres = [query.where]
    if isinstance(query.window, ExplicitWindow):
        wheres += [query.window.opening.where, query.window.closing.where]
    yield from (where for where in wheres if where is not None)


def variables(node: Expr) -> frozenset[str]:
    """Names of the variables that ``node`` mentions: ``x``, ``g.a``, and ``g`` for ``COUNT(g[])``."""
    return frozenset(part.leaf for part in walk(node) if isinstance(part, Attribute | Aggregate | AttributeList))


def qualified(variable: str, inner: str | None) -> str:
    """Name of a variable, ``g.a`` inside a group."""
    return variable if inner is None else f"{variable}.{inner}"
