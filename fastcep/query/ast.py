"""Abstract syntax tree of a query: frozen nodes that the parser and the builder both produce.

Two queries are equal if their nodes are equal; source spans and the original text are not compared.
Everything after the parser (plan, reference matcher, printer) reads only these nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from fastcep.events import Schema


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text: offsets ``start:end``, and one-based ``line`` and ``column`` of the start."""

    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Node:
    """Base class of all nodes. ``span`` is None in queries from the builder and is not compared."""

    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Expr(Node):
    """Base class of all expressions."""


@dataclass(frozen=True, slots=True)
class Literal(Expr):
    """A constant: int, float, str, bool or None (null)."""

    value: int | float | str | bool | None

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and True are equal in Python but are different literals.
        return (
            isinstance(other, Literal)
            and type(self.value) is type(other.value)
            and (self.value == other.value or (self.value != self.value and other.value != other.value))
        )

    def __hash__(self) -> int:
        return hash((type(self.value).__name__, self.value))


@dataclass(frozen=True, slots=True)
class DurationLiteral(Expr):
    """A duration constant such as ``5min``: an int64 in nanoseconds."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class TimestampLiteral(Expr):
    """A time constant such as ``TIMESTAMP '2026-11-27T08:00:00Z'``: nanoseconds since the epoch."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Index:
    """Index of the element of a Kleene variable from which an attribute is read.

    ``kind`` is ``"relative"`` (``x[i+offset]``), ``"position"`` (``x[offset]``, from 0),
    ``"first"`` (offset 0) or ``"last"`` (``x[last]``, and with a negative offset ``x[last-1]``).
    """

    kind: str
    offset: int = 0


class VariableReference(Expr):
    """Base class of expressions that name a variable."""

    __slots__ = ()
    variable: str
    inner: str | None

    @property
    def qualified_name(self) -> str:
        """Name of the variable that is read, or of the group in ``COUNT(g[])``."""
        return qualified(self.variable, self.inner)


@dataclass(frozen=True, slots=True)
class Attribute(VariableReference):
    """``variable.name`` or ``variable[index].name``; the names ``time``, ``seq`` and ``type`` are built in.

    For a variable inside a group, ``variable`` is the group and ``inner`` the variable: ``g[i].a.x`` is
    ``("g", "x", [i], "a")``. With ``places`` it is ``prev(variable.name, places)``: the attribute of an
    earlier event, that number of places before.
    """

    variable: str
    name: str
    index: Index | None = None
    inner: str | None = None
    places: int = 0


@dataclass(frozen=True, slots=True)
class Aggregate(VariableReference):
    """``FUNCTION(variable[].name)``; function is AVG SUM MIN MAX COUNT or STDDEV. ``COUNT(x[])`` has no name.

    With an ``index``, ``[i]`` or ``[i-1]``, it is a running aggregate ``FUNCTION(variable[..i].name)``, over the
    elements up to that one.
    """

    function: str
    variable: str
    name: str | None = None
    inner: str | None = None
    index: Index | None = None


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """``-x`` or ``NOT x``; ``operator`` is ``"-"`` or ``"NOT"``."""

    operator: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """``left operator right``; operator is one of ``+ - * / // % ^ = != < <= > >= AND OR``.

    A chain such as ``a OR b OR c`` nests in its left operands, possibly thousands of levels deep. Code that walks trees
    therefore iterates over the chain with `spine` and recurses only into right operands (see `nesting`).
    """

    operator: str
    left: Expr
    right: Expr

    def spine(self) -> tuple[Expr, list[Binary]]:
        """Return the leftmost operand, which is not a `Binary`, and the operations on it, innermost first."""
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


def _chained(expression: Expr, links: list[tuple[str, Expr, Span | None]]) -> Expr:
    """Rebuild a chain of operations, for `pickle` and `copy`."""
    for operator, right, span in links:
        expression = Binary(operator, expression, right, span=span)
    return expression


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
    """``function(arguments)``, with a built-in function (`fastcep.query.scalar_functions.FUNCTIONS`), or another form.

    The other forms are ``"is null"`` (``x IS NULL``), ``"like"`` (``x LIKE pattern``, third argument: ESCAPE) and
    ``"case"`` (condition and value of each WHEN in turn; an odd last argument is the ELSE).
    """

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """Name and dtypes of a registered function, stored in queries and plans; its code stays in the registry."""

    name: str
    parameters: tuple[str, ...]
    result: str

    def __str__(self) -> str:
        return f"{self.result}({', '.join(self.parameters)})"


@dataclass(frozen=True, slots=True)
class UserCall(Expr):
    """Call ``name(arguments)`` of a registered function (see `fastcep.query.user_functions.registry`)."""

    signature: Signature
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class SameAttributes(Expr):
    """``[name, …]``: all positive variables agree on each of these attributes. Valid only as a top-level conjunct."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttributeList(VariableReference):
    """``variable[].name`` in RETURN: the list of the attribute of every element."""

    variable: str
    name: str
    inner: str | None = None


# -------------------------------------------------------------------- pattern


@dataclass(frozen=True, slots=True)
class Pattern(Node):
    """Base class of all patterns."""


@dataclass(frozen=True, slots=True)
class Variable(Pattern):
    """Declaration of a variable: its name and the events that it can bind.

    ``types`` holds the event types (several for a union, in the order written). Quantifiers: plain
    ``(1, 1, repeated=False)``, ``?`` ``(0, 1, False)``, ``+`` ``(1, None, True)``, ``*`` ``(0, None, True)``,
    ``{n}`` ``(n, n, True)``, ``{m,n}`` ``(m, n, True)``, ``{m,}`` ``(m, None, True)``.
    A repeated variable is written ``x[]``.
    """

    types: tuple[str, ...]
    name: str
    minimum: int = 1
    maximum: int | None = 1
    repeated: bool = False
    consecutive: bool = False


@dataclass(frozen=True, slots=True)
class Negation(Pattern):
    """``NEG T n`` in a SEQ: no such event between the sub-patterns beside it.

    ``NEG T n FOR t``, with ``nanoseconds``, is a silence: no such event up to ``t`` after the last event bound before
    it. It may also be a part of AND and a branch of OR.
    """

    types: tuple[str, ...]
    name: str
    nanoseconds: int | None = None


@dataclass(frozen=True, slots=True)
class Sequence(Pattern):
    """``SEQ(pattern, …)``: all events of a sub-pattern come before all events of the next one.

    ``adjacent`` holds the indices of the sub-patterns preceded by ``NEXT``.
    """

    patterns: tuple[Pattern, ...]
    adjacent: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Conjunction(Pattern):
    """``AND(pattern, …)``: all sub-patterns, in any order, possibly interleaved."""

    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Disjunction(Pattern):
    """``OR(pattern, …)``: exactly one sub-pattern."""

    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(Pattern):
    """``ANY(n, T1 x1, …)``: ``count`` of the single variables, in any order; each set of events counts once.

    ``ANY(n, T x[])`` has one repeated variable with ``minimum = maximum = count``. If ``distinct`` is set, its events
    differ pairwise in that attribute.
    """

    count: int
    variables: tuple[Variable, ...]
    distinct: str | None = None


@dataclass(frozen=True, slots=True)
class Group(Pattern):
    """``(pattern)+ g[]`` and the other quantifiers (see `Variable`): rounds of ``pattern``, one after another.

    Its variables are written ``g[i].a``, and ``g.a`` in the output and for ``(pattern)? g``.
    """

    pattern: Pattern
    name: str
    minimum: int = 1
    maximum: int | None = None
    repeated: bool = True
    consecutive: bool = False


@dataclass(frozen=True, slots=True)
class Until(Pattern):
    """``B+ b[] UNTIL U u``: a loop, ended by an event of the negated variable (:mod:`fastcep.query.checks.until`).

    No such event lies between the last event bound before the loop in its SEQ, or else the loop's first event, and the
    last event of the loop.
    """

    pattern: Variable | Group
    negation: Negation


@dataclass(frozen=True, slots=True)
class Aperiodic(Pattern):
    """``APERIODIC(opening, body, closing)``: each ``body`` after ``opening`` with no ``closing`` event in between."""

    opening: Pattern
    body: Pattern
    closing: Variable


@dataclass(frozen=True, slots=True)
class Periodic(Pattern):
    """``PERIODIC(opening, t, closing)``: a tick every ``t`` after ``opening`` until a ``closing`` event."""

    opening: Pattern
    nanoseconds: int
    closing: Variable


# --------------------------------------------------------------------- window


@dataclass(frozen=True, slots=True)
class Window(Node):
    """Base class of the window clauses."""


@dataclass(frozen=True, slots=True)
class TimeWindow(Window):
    """``WITHIN t``: ``last.time - first.time <= nanoseconds``."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class CountWindow(Window):
    """``WITHIN n EVENTS``: all events of a match are among n consecutive events of the stream."""

    events: int


@dataclass(frozen=True, slots=True)
class Unbounded(Window):
    """``WITHIN UNBOUNDED``: no limit on the time between the events of a match."""


@dataclass(frozen=True, slots=True)
class Bound(Node):
    """Condition that opens or closes an explicit window. Exactly one of the first three fields is set.

    ``events`` is the number of events between openings, or from the opening to the close. ``nanoseconds`` is the same
    as a time. ``types`` are the types of the event ``variable`` that opens or closes the window if it satisfies
    ``where``. The condition of a closing event can mention the opening event's variable.
    """

    events: int | None = None
    nanoseconds: int | None = None
    types: tuple[str, ...] = ()
    variable: str = ""
    where: Expr | None = None


@dataclass(frozen=True, slots=True)
class ExplicitWindow(Window):
    """``WINDOW OPEN … CLOSE …``: windows with an explicit start and end, each evaluated separately."""

    opening: Bound
    closing: Bound


# ---------------------------------------------------------------------- query

#: Choices of the clauses of a query; the first is the default.
STRATEGIES = ("skip_till_any", "skip_till_next", "partition_contiguity", "strict_contiguity")
SELECTIONS = ("each", "first", "last", "cumulative", "longest")
CONSUMPTIONS = ("zero", "consumed")
AFTER_MATCH = ("no skip", "skip to next", "skip past last", "skip to first", "skip to last")


@dataclass(frozen=True, slots=True)
class ReturnItem(Node):
    """One column of RETURN; ``name`` is the output column's name, which is always set after parsing."""

    expression: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Query(Node):
    """A checked query: names are resolved against ``schema`` and types are correct.

    ``limit`` is the k of ``LIMIT k PER WINDOW``, ``skip_to`` the variable or group of ``SKIP TO FIRST`` and ``SKIP TO
    LAST``. The choices of the other clauses are listed above.
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
    skip_to: str | None = None
    schema: Schema = field(kw_only=True)
    text: str | None = field(default=None, compare=False, repr=False, kw_only=True)

    # Functions from a query to HTML and to text; `fastcep.plan` and `fastcep.query.printer`, which import this module,
    # set them.
    _html: ClassVar[Callable[[Query], str] | None] = None
    _printed: ClassVar[Callable[[Query], str] | None] = None

    def __repr__(self) -> str:
        """Return the query's text in one line; line ends in string literals are escaped."""
        text = f"QUERY {self.name}" if Query._printed is None else Query._printed(self)
        return f"Query({text!r})"

    def _repr_html_(self) -> str | None:
        """Return the text, the schema and the plan as HTML for a notebook; None if no planner is loaded."""
        return None if Query._html is None else Query._html(self)


#: Maximum nesting depth of expressions and of patterns.
MAX_NESTING = 100


def qualified(variable: str, inner: str | None) -> str:
    """Return the name of a variable, ``g.a`` inside a group."""
    return variable if inner is None else f"{variable}.{inner}"
