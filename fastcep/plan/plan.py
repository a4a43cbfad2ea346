"""The plan of a query: immutable, picklable, made of plain values, shared by all states that run it.

``make_plan`` goes through these steps: place the conjuncts (:mod:`placement`), split every edge's conditions into a
hashed *key* and a residual *predicate*, choose the *indexes* of each state (edges with equal keys share one), find the
*registers* each state must carry (a fixed point backwards over the edges), compile the programs.

Invariant (tested against the reference matcher): following the edges with these conditions yields exactly the matches
of SEMANTICS, each once, and rows of a bucket stand in birth order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fastcep.plan.bytecode import Program
from fastcep.plan.ir import Op
from fastcep.query import ast


@dataclass(frozen=True, slots=True)
class EventColumn:
    """A value of each event, computed once per batch: a schema column, a built-in, or an expression over them.

    ``column`` is a physical column (>= 0), ``-1`` time, ``-2`` seq, ``-3`` type, ``-4`` computed by ``program``.
    ``members`` is the bit mask of the members that read it.
    """

    column: int
    members: int
    text: str
    program: Program | None = None


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """One hash index of a state's rows: the outputs that hold its key words and its guard (-1 = always)."""

    state: int
    keys: tuple[int, ...]
    guard: int
    forall: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class ForAllPlan:
    """A for-all condition: ``elements`` are ``(member, offset, ring column)`` per ``elem`` input of ``program``."""

    guard: int
    program: Program
    elements: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """An edge: probe ``index`` with ``probe`` (event columns), filter by ``predicate``, then make the target's outputs.

    ``copies`` are the outputs that are there already: ``(output, "row", register)`` or ``(output, "event", column)``;
    the program ``outputs`` computes the others.
    """

    source: int
    target: int
    index: int
    probe: tuple[int, ...]
    predicate: Program | None
    copies: tuple[tuple[int, str, int], ...]
    outputs: Program | None
    forall: tuple[int, ...]
    key_text: str = ""
    predicate_text: str = ""


@dataclass(frozen=True, slots=True)
class StatePlan:
    """A state: which members its rows bind, its registers (the first outputs), guards (output numbers, -1 = true)."""

    member: int
    repeated: bool
    registers: int
    outputs: int
    indexes: tuple[int, ...]
    accepting: bool
    accept_guard: int
    accept_forall: tuple[int, ...]
    needs_birth: bool
    register_texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Everything the engine needs to run ``query``.

    Attributes
    ----------
    window_kind, window
        ``0`` time (ns), ``1`` events, ``2`` unbounded.
    type_members
        Per type id the bit mask of members that may bind it.
    locals
        Per member the program over event columns that it must satisfy, or None.
    columns, indexes, foralls, edges, states
        The parts; edges are ordered by target, then source (START first).
    ring_columns
        Physical columns (and -1, -2, -3) that must stay in the event ring.
    """

    query: ast.Query
    window_kind: int
    window: int
    type_members: tuple[int, ...]
    locals: tuple[Program | None, ...]
    columns: tuple[EventColumn, ...]
    indexes: tuple[IndexPlan, ...]
    foralls: tuple[ForAllPlan, ...]
    edges: tuple[EdgePlan, ...]
    states: tuple[StatePlan, ...]
    ring_columns: tuple[int, ...]
    local_texts: tuple[str, ...] = field(default=())


def describe(expr: Op, query: ast.Query) -> str:
    """Text of a plan expression for ``explain``."""
    symbols = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "^",
               "eq": "=", "ne": "!=", "lt": "<", "le": "<=", "and": "AND", "or": "OR"}  # fmt: skip
    names = [member.variable for member in query.pattern.members]

    def show(node: Op) -> str:
        data = node.data
        if node.name == "const":
            value = data[0]
            return "NULL" if value is None else repr(value)
        if node.name == "event":
            return f"{names[data[0]]}.{data[1]}"
        if node.name == "elem":
            return f"{names[data[0]]}[i{data[1]:+d}].{data[2]}" if data[1] else f"{names[data[0]]}[i].{data[2]}"
        if node.name == "col":
            return f"#{data[0]}"
        if node.name == "q":
            return _quantity(names, data[0], data[1], data[2], data[3], query)
        if node.name == "call":
            return f"{data[0].name}({', '.join(map(show, node.args))})"
        base = node.name[:-2] if node.name.endswith(("_i", "_f", "_s", "_b")) else node.name
        if base in ("i2f", "key", "known"):
            return show(node.args[0]) if base != "known" else f"known({show(node.args[0])})"
        if base in symbols and len(node.args) == 2:
            return f"({show(node.args[0])} {symbols[base]} {show(node.args[1])})"
        return f"{base}({', '.join(show(arg) for arg in node.args)})"

    text = show(expr)
    return text[1:-1] if text.startswith("(") and text.endswith(")") and text.count("(") == 1 else text


def _quantity(names: list[str], kind: str, member: int, extra: int, attr: str, query: ast.Query) -> str:
    if kind == "part":
        return f"partition.{attr}"
    name = names[member]
    if not query.pattern.members[member].repeated:
        return f"{name}.{attr}" if kind == "first" else f"count({name})"
    if kind == "count":
        return f"COUNT({name}[])"
    if kind == "first":
        return f"{name}[first].{attr}"
    if kind == "last":
        return f"{name}[last{f'-{extra}' if extra else ''}].{attr}"
    if kind == "at":
        return f"{name}[{extra}].{attr}"
    return f"{ {'known': 'COUNT'}.get(kind, kind.upper()) }({name}[].{attr})".replace(" ", "")
