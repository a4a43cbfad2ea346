"""The plan of a query: immutable, picklable, made of plain values, shared by all states that run it.

``make_plan`` goes through these steps: place the conjuncts (:mod:`placement`), split every edge's conditions into a
hashed *key* and a residual *predicate*, choose the *indexes* of each state (edges with equal keys share one), find the
*registers* each state must carry (a fixed point backwards over the edges), compile the programs.

Invariant (tested against the reference matcher): following the edges with these conditions yields exactly the matches
of SEMANTICS, each once, and rows of a bucket stand in birth order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fastcep.plan.bytecode import Program
from fastcep.query import ast

#: What closes an explicit window, as in `WindowPlan.closing`.
AFTER_TIME, AFTER_EVENTS, ON_EVENT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class EventColumn:
    """A value of each event, computed once per batch: a schema column, a built-in, or an expression over them.

    ``column`` is a physical column (>= 0), ``-1`` time, ``-2`` seq, ``-3`` type, ``-4`` computed by ``program``, ``-5``
    the position in the stream, ``-6`` that of the previous event (`Plan.partition`).
    ``members`` is the bit mask of the members that read it; ``dtype`` as in :mod:`fastcep.plan.ir`.
    """

    column: int
    members: int
    text: str
    dtype: str
    program: Program | None = None


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """One hash index of a state's rows: the outputs that hold its key words and its guard (-1 = always).

    ``latest`` is the key word that must be the event right before the next one, if it is all that the state's rows wait
    for, so that other rows can go; else -1. ``partition`` are the words of the partition in which it must be, or whose
    rows a policy may remove.
    """

    state: int
    keys: tuple[int, ...]
    guard: int
    forall: tuple[int, ...]
    latest: int
    partition: tuple[int, ...]
    key_texts: tuple[str, ...] = ()
    guard_text: str = ""


@dataclass(frozen=True, slots=True)
class ForAllPlan:
    """A for-all condition: ``elements`` are ``(member, offset, ring column)`` per ``elem`` input of ``program``.

    ``earlier``: for all elements but the last.
    In a condition on a negated variable ``event`` inputs are registers of its event.
    """

    guard: int
    earlier: bool
    program: Program
    elements: tuple[tuple[int, int, int], ...]
    text: str = ""
    guard_text: str = ""


@dataclass(frozen=True, slots=True)
class NegationPlan:
    """A negated variable: its events are kept hashed by ``keys`` and with ``registers`` (event columns).

    ``by_time`` says that they may be needed before the first event of a match comes: they are kept for the window's
    length, else as long as there is an older first event.
    """

    member: int
    keys: tuple[int, ...]
    registers: tuple[int, ...]
    by_time: bool
    key_texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AbsencePlan:
    """A check that no event of a negated variable came between those of ``before`` and ``after``.

    ``keys`` are the outputs of the state that hold the key words. ``program`` (over ``row`` registers of the negated
    event and ``out`` outputs of the state) and the for-all conditions ``forall`` say which events count. ``group`` is
    that of a check for each round, -1 without, and ``latest`` says that it is for the latest round only. It is made if
    output ``guard`` is true (-1: always).
    """

    negation: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    group: int
    latest: bool
    keys: tuple[int, ...]
    program: Program | None
    forall: tuple[int, ...]
    guard: int = -1
    text: str = ""
    guard_text: str = ""


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """Events of a variable that are kept (:mod:`fastcep.plan.factorised`), hashed by ``keys`` and with ``registers``.

    Both are event columns. ``held`` are the registers that stay at hand once the event is chosen, each with its place.
    """

    member: int
    keys: tuple[int, ...]
    registers: tuple[int, ...]
    held: tuple[tuple[int, int], ...]
    key_texts: tuple[str, ...] = ()
    register_texts: tuple[str, ...] = ()


class Term(NamedTuple):
    """An operand of a sum: ``kind`` is ``event`` (column of the last event), ``row`` (register of the source), ``out``
    (a value at hand) or ``const``; ``sign`` is 1 or -1.
    """

    kind: str
    number: int
    sign: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A step back: from ``source``, the member of the earliest event chosen so far, to one of ``member`` before it.

    It is looked for in the store ``kept``, under a key each of whose ``words`` is a sum, and filtered by ``predicate``
    over ``row`` registers of the events found, ``event`` columns of the last one and ``out`` values at hand. ``same``
    says of a step back from a Kleene variable that its key is the same for all elements: where it finds nothing for
    one, elements before that lead to no match.

    ``joins`` says that events of the first variable are found for many of the source at once: all words are the same
    for these, but perhaps the last. If there is one word more than the store has keys, this is compared with the
    store's first register.
    """

    source: int
    member: int
    kept: int
    words: tuple[tuple[Term, ...], ...]
    predicate: Program | None
    same: bool
    joins: bool = False
    key_texts: tuple[tuple[str, str], ...] = ()
    predicate_texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """An edge: probe ``index`` with ``probe`` (event columns), filter by ``predicate``, then make the target's outputs.

    The event is bound to ``member``: once more if ``again``; ``group`` and ``round`` as in `automaton.Edge`. A run that
    must advance stays as well if the edge ``keeps`` it. ``copies`` are the outputs that are there already:
    ``(output, "row", register)`` or ``(output, "event", column)``; the program ``outputs`` computes the others. The
    program ``features`` stores feature j of the target at j: all of them, over ``row`` registers and ``event`` columns.
    """

    source: int
    target: int
    member: int
    again: bool
    group: int
    round: str
    keeps: bool
    index: int
    probe: tuple[int, ...]
    predicate: Program | None
    copies: tuple[tuple[int, str, int], ...]
    outputs: Program | None
    forall: tuple[int, ...]
    absences: tuple[int, ...]
    key_texts: tuple[tuple[str, str], ...] = ()
    predicate_texts: tuple[str, ...] = ()
    features: Program | None = None


@dataclass(frozen=True, slots=True)
class StatePlan:
    """A state: what its rows bind, its registers (the first outputs), guards (output numbers, -1 = true).

    ``member`` is a member that is bound last in it. ``bindings`` are the variables (members, groups) that a row has a
    word for. A match that ends in a ``deferred`` state is decided at the end of its window, by the checks ``at_end``;
    its outputs ``partition`` are the words of its partition, if matches are limited by partition.
    ``dtypes`` has a letter per output, see :mod:`fastcep.plan.ir`; ``features`` one per feature
    (:mod:`fastcep.plan.classes`) of what its rows are asked for.
    """

    member: int
    bindings: tuple[int, ...]
    registers: int
    outputs: int
    dtypes: str
    indexes: tuple[int, ...]
    accepting: bool
    accept_guard: int
    accept_forall: tuple[int, ...]
    accept_absences: tuple[int, ...]
    deferred: bool
    at_end: tuple[int, ...]
    partition: tuple[int, ...]
    needs_birth: bool
    register_texts: tuple[str, ...] = ()
    accept_text: str = ""
    features: str = ""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The partitions in which an event has neighbours.

    ``columns`` are, per type id, those of the partition's attributes (none: its events are in no partition); ``floats``
    says which attributes are float64.
    """

    floats: tuple[bool, ...]
    columns: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """The partition key of a query (:mod:`fastcep.plan.partition_key`), and where it stands in the state.

    Attributes
    ----------
    attributes
        Of each variable.
    dtype
        As in :mod:`fastcep.plan.ir`.
    columns
        Per type id the physical column, -1 for a type that no variable has.
    indexes, negations
        Per index, and per store of negated events, which word of its keys it is.
    waiting
        Per state which output of a waiting match it is, -1 where none waits.

    Of a query with ``PARTITION BY`` it is the first attribute of `Plan.partition`.
    """

    attributes: tuple[str, ...]
    dtype: str
    columns: tuple[int, ...]
    indexes: tuple[int, ...]
    negations: tuple[int, ...]
    waiting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """How the windows of a query come and go.

    Attributes
    ----------
    isolated
        Every window has partial matches of its own; else all share theirs, because a match is the same in each.
    why
        What makes them isolated, for `explain`.
    closing, length
        ``AFTER_TIME`` ns, ``AFTER_EVENTS`` events, ``ON_EVENT``.
    every_events, every_time
        Open at every so many events, or ns; 0 if not.
    opening
        Its matches (of one event) open a window.
    pairs
        Its matches, of the event that opened a window and another, close that window.
    closers
        Its matches (of one event) close all open windows.
    """

    isolated: bool
    why: str
    closing: int
    length: int
    every_events: int
    every_time: int
    opening: Plan | None
    pairs: Plan | None
    closers: Plan | None

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The small plans that there are."""
        return tuple(plan for plan in (self.opening, self.pairs, self.closers) if plan is not None)


@dataclass(frozen=True)
class Plan:
    """Everything the engine needs to run ``query``.

    Attributes
    ----------
    window_kind, window
        ``0`` time (ns), ``1`` events, ``2`` unbounded, ``3`` explicit windows.
    type_members
        Per type id the bit mask of members that may bind it.
    locals
        Per member the program over event columns that it must satisfy, or None.
    negated, repeated, lists
        Per member whether it is negated, may bind several events, and holds a list in what is reported.
    groups
        Members of each repeated group; the group's own number is that of the members and its place here.
    sets
        Members of each ANY that may bind the same events in several ways, of which the first counts.
    period
        Of PERIODIC in ns, else 0.
    partition
        Where an event's previous one is looked for, if a condition asks for it; None is the stream.
    must_advance
        A partial match that an event extends is replaced (``skip_till_next``).
    removes
        Partial matches may end before their window does; then each state has at most one index.
    select, consumes, after_match, limit
        Policies: places in ``ast.SELECTIONS`` and ``ast.AFTER_MATCH``; matches per window, 0 for no limit.
    per_partition
        Per member the columns of the words of its event's partition, if policies act in each partition for itself.
    windows
        How explicit windows come and go.
    timed_out
        Whether partial matches that time out are an output.
    sheds
        Whether partial matches may be shed: rows in several indexes know which of them counts them.
    event_features
        Per variable the event columns by which the events that may be bound to it are classified; empty: of none are.
    observed
        Whether a record of all partial matches may be kept: rows have room for its numbers.
    key
        What its state can be cut by, or why it cannot.
    store
        ``rows``, or ``factorised``: then ``kept`` and ``steps`` stand in the place of indexes, edges and states.
    rows_only
        Why the store must be ``rows``; empty if it may be either.
    why
        Why it is this one.
    kept, steps
        What the factorised store keeps, by member, and how it gets from one event to those before it, by member, from
        the member behind it first.
    columns, indexes, foralls, negations, absences, edges, states
        The parts; edges are ordered by member, then source (START first).
    ring_columns
        Physical columns (and -1, -2, -3) that must stay in the event ring.
    index
        Which equalities are words of keys, see `fastcep.plan.joins.INDEXES`.
    other
        The plan for the factorised store, if an engine should try both; else None.
    """

    query: ast.Query
    window_kind: int
    window: int
    type_members: tuple[int, ...]
    locals: tuple[Program | None, ...]
    columns: tuple[EventColumn, ...]
    indexes: tuple[IndexPlan, ...]
    foralls: tuple[ForAllPlan, ...]
    negations: tuple[NegationPlan, ...]
    absences: tuple[AbsencePlan, ...]
    edges: tuple[EdgePlan, ...]
    states: tuple[StatePlan, ...]
    negated: tuple[bool, ...]
    repeated: tuple[bool, ...]
    lists: tuple[bool, ...]
    groups: tuple[tuple[int, ...], ...]
    sets: tuple[tuple[int, ...], ...]
    period: int
    partition: PartitionPlan | None
    must_advance: bool
    removes: bool
    select: int
    consumes: bool
    after_match: int
    limit: int
    per_partition: tuple[tuple[int, ...], ...]
    windows: WindowPlan | None
    timed_out: bool
    sheds: bool
    key: KeyPlan | str
    store: str
    rows_only: str
    why: str
    kept: tuple[KeptPlan, ...]
    steps: tuple[StepPlan, ...]
    ring_columns: tuple[int, ...]
    local_texts: tuple[tuple[str, ...], ...] = ()
    index: str = "full"
    observed: bool = False
    event_features: tuple[tuple[int, ...], ...] = ()
    other: Plan | None = None
