"""The plan of a query: immutable, picklable, made of plain values, shared by all states that run it.

``make_plan`` takes these steps: place the conjuncts (:mod:`placement`), split the conditions of every edge into a
hashed *key* and a residual *predicate*, choose the *indexes* of each state (edges with equal keys share one), determine
the *registers* that each state must carry (a fixed point backwards over the edges), and compile the programs.

Invariant (tested against the reference matcher): following the edges with these conditions yields exactly the matches
of SEMANTICS, each once, and the rows of a bucket are in birth order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fastcep.plan.bytecode import Program
from fastcep.query import ast

#: Ways to close an explicit window, see `WindowPlan.closing`.
AFTER_TIME, AFTER_EVENTS, ON_EVENT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class EventColumn:
    """A value of each event, computed once per batch: a schema column, a built-in attribute or an expression.

    ``column`` is a physical column (>= 0), ``-1`` time, ``-2`` seq, ``-3`` type, ``-4`` computed by ``program``, ``-5``
    the position in the stream, or ``-6`` the position of the previous event (`Plan.partition`).
    ``variables`` is the bit mask of the variables that read it. ``dtype`` is a type of :mod:`fastcep.plan.ir`.
    """

    column: int
    variables: int
    text: str
    dtype: str
    program: Program | None = None


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """One hash index of a state's rows: the outputs that hold its key words and its guard (-1: always).

    ``latest`` is the key word that holds the position that must directly precede the next event. It is set if this is
    the state's only index, so that rows which an event invalidates can be removed; otherwise it is -1. ``partition``
    holds the key words of the partition to which this applies, or whose rows a policy can remove.
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
    """A for-all condition: ``elements`` are ``(variable, offset, ring column)`` per ``elem`` input of ``program``.

    With ``earlier`` it applies to all elements but the last. In a condition on a negated variable, ``event`` inputs are
    registers of its event.
    """

    guard: int
    earlier: bool
    program: Program
    elements: tuple[tuple[int, int, int], ...]
    text: str = ""
    guard_text: str = ""


@dataclass(frozen=True, slots=True)
class NegationPlan:
    """A store of events of a negated variable, hashed by ``keys`` and with ``registers`` (event columns).

    ``by_time`` means that events may be needed before the first event of a match arrives. They are then kept for the
    length of the window, and otherwise as long as there is an older first event.
    """

    variable: int
    keys: tuple[int, ...]
    registers: tuple[int, ...]
    by_time: bool
    key_texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AbsencePlan:
    """A check that no event of a negated variable occurred between those of ``before`` and ``after``.

    ``keys`` are the outputs of the state that hold the key words. ``program`` (over ``row`` registers of the negated
    event and ``out`` outputs of the state) and the for-all conditions ``forall`` select the events that count. If
    ``group`` is not -1, the check covers each round of that group, or only the latest round with ``latest``. With
    ``until`` the variables ``after`` are those of a loop, and it covers the events before its newest element. The check
    runs if output ``guard`` is true (-1: always).
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
    until: bool = False


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A store of events of a variable (:mod:`fastcep.plan.factorised`), hashed by ``keys`` and with ``registers``.

    Keys and registers are event columns. ``held`` are the registers that later steps read after the event is chosen,
    each with its slot. ``predecessor`` is the store of the preceding variable, and the event columns of the key that
    leads to the events there that an event of this store can follow; None if that key depends on other events. If the
    store ``counts``, each stored event has the number of events that it can follow, otherwise the position of the last.
    """

    variable: int
    keys: tuple[int, ...]
    registers: tuple[int, ...]
    held: tuple[tuple[int, int], ...]
    predecessor: tuple[int, tuple[int, ...]] | None = None
    counts: bool = False
    key_texts: tuple[str, ...] = ()
    register_texts: tuple[str, ...] = ()

    @property
    def n_columns(self) -> int:
        """Number of columns of a stored event: null bits and registers. The predecessor's column follows them."""
        return 1 + len(self.registers) if self.registers else 0


class Term(NamedTuple):
    """An operand of a sum. ``kind`` is ``event`` (column of the last event), ``row`` (register of the source), ``out``
    (slot of a chosen event's value) or ``const``; ``sign`` is 1 or -1.
    """

    kind: str
    number: int
    sign: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A step from ``source``, the variable of the earliest event chosen so far, to an earlier event of ``variable``.

    The event is searched in the store ``kept`` by a key each of whose ``words`` is a sum, and filtered by
    ``predicate`` over ``row`` registers of the events found, ``event`` columns of the last event and ``out`` slots of
    chosen events. For a step from a Kleene variable, ``same`` means that the key is equal for all elements. If the step
    then finds nothing for one element, earlier elements lead to no match either.

    ``joins`` means that the step finds events of the first variable for many source events at once, for which all words
    except possibly the last are equal. If there is one word more than the store has keys, that word is compared with
    the store's first register.
    """

    source: int
    variable: int
    kept: int
    words: tuple[tuple[Term, ...], ...]
    predicate: Program | None
    same: bool
    joins: bool = False
    key_texts: tuple[tuple[str, str], ...] = ()
    predicate_texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """An edge: probe ``index`` with ``probe`` (event columns), filter by ``predicate``, compute the target's outputs.

    The event is bound to ``variable``, in addition to earlier events if ``again``; ``group`` and ``round`` as in
    `automaton.Edge`. If ``keeps``, a partial match that must advance is also kept. ``copies`` are the outputs that need
    no computation: ``(output, "row", register)`` or ``(output, "event", column)``. The program ``outputs`` computes the
    others. The program ``features`` stores feature j of the target at j, over ``row`` registers and ``event`` columns.
    """

    source: int
    target: int
    variable: int
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
    """A state: the variables that its rows bind, registers (the first outputs) and guards (output numbers, -1: true).

    ``variable`` is one of the variables that can be bound last in it. ``bindings`` are the variables and groups for
    which a row has a word. A match that ends in a ``deferred`` state is decided by the checks ``at_end`` at the end of
    its window or, if ``due`` is not -1, when the time in that output has passed; or it waits because a longer one may
    come. Its outputs ``partition`` are the words of its partition, if policies apply to each partition.
    ``dtypes`` has a letter per output, see :mod:`fastcep.plan.ir`. ``features`` has a letter per feature of its rows
    (:mod:`fastcep.plan.classes`).
    """

    variable: int
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
    due: int = -1
    register_texts: tuple[str, ...] = ()
    accept_text: str = ""
    due_text: str = ""
    features: str = ""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The partitions in which events are adjacent.

    ``columns`` are, per type id, the columns of the partition's attributes (empty: events of the type are in no
    partition). ``floats`` states which attributes are float64.
    """

    floats: tuple[bool, ...]
    columns: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """The partition key of a query (:mod:`fastcep.plan.partition_key`), and its places in the state.

    Attributes
    ----------
    attributes
        Name of the key attribute per variable.
    dtype
        Type of the key, as in :mod:`fastcep.plan.ir`.
    columns
        Physical column per type id, -1 for a type that no variable has.
    indexes, negations
        Number of the key word that holds it, per index and per store of negated events.
    waiting
        Per state, the output of a waiting match that holds it; -1 where no match waits.

    For a query with ``PARTITION BY`` the key is the first attribute of `Plan.partition`.
    """

    attributes: tuple[str, ...]
    dtype: str
    columns: tuple[int, ...]
    indexes: tuple[int, ...]
    negations: tuple[int, ...]
    waiting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The openings and closings of the explicit windows of a query.

    Attributes
    ----------
    isolated
        Whether every window has its own partial matches. Otherwise all windows share them, because a match is the same
        in each of them.
    why
        Reason why they are isolated, for `explain`.
    closing, length
        ``AFTER_TIME`` with a length in ns, ``AFTER_EVENTS`` with a length in events, or ``ON_EVENT``.
    every_events, every_time
        Interval between openings in events, or in ns; 0 if not used.
    opening
        Plan whose matches (of one event) open a window.
    pairs
        Plan whose matches (the event that opened a window, and another event) close that window.
    closers
        Plan whose matches (of one event) close all open windows.
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
        """Return the plans that are set."""
        return tuple(plan for plan in (self.opening, self.pairs, self.closers) if plan is not None)


@dataclass(frozen=True)
class Plan:
    """Everything the engine needs to run ``query``.

    Attributes
    ----------
    window_kind, window
        ``0`` time (ns), ``1`` events, ``2`` unbounded, ``3`` explicit windows.
    lives
        For a window of time, how long partial matches live (ns): longer than the window if matches wait for a silence.
    type_variables
        Per type id, the bit mask of variables that can bind it.
    locals
        Per variable, the program over event columns that its events must satisfy, or None.
    negated, repeated, lists
        Per variable, whether it is negated, can bind several events, and holds a list in the output.
    groups
        Variables of each repeated group. The number of a group is the number of variables plus its index here.
    sets
        Variables of each ANY that can bind the same events in several ways, of which only the first counts.
    period
        Period of PERIODIC in ns, otherwise 0.
    partition
        Partitions in which an event has a previous event, if a condition uses it; None is the stream.
    must_advance
        Whether an event replaces the partial match that it extends (``skip_till_next``).
    removes
        Whether partial matches can be removed before their window ends; each state then has at most one index.
    select, consumes, after_match, limit
        Policies: indices in ``ast.SELECTIONS`` and ``ast.AFTER_MATCH``; matches per window, 0 for no limit.
    earlier
        The columns after those of the schema (:mod:`fastcep.plan.earlier`): attribute, places, keys of the partition.
    longest, follows
        Whether the query selects ``longest``, and whether contiguity ends a partial match at the next event.
    skip_to
        Variables of ``SKIP TO FIRST`` and ``SKIP TO LAST``.
    per_partition
        Per variable, the columns of the words of its event's partition, if policies apply to each partition separately.
    windows
        Openings and closings of explicit windows; None for other windows.
    timed_out
        Whether partial matches that time out are an output.
    sheds
        Whether partial matches can be shed; rows in several indexes then record which index counts them.
    event_features
        Per variable, the event columns that classify the events that can be bound to it; empty without classes.
    observed
        Whether the lineage of partial matches can be recorded; rows then have room for their numbers.
    weighed
        Whether rows have room for their weights, from which the recall is estimated.
    key
        Key by which the state can be split, or the reason why there is none.
    store
        ``rows``, or ``factorised``, which has ``kept`` and ``steps`` instead of indexes, edges and states.
    rows_only
        Reason why the store must be ``rows``; empty if both are possible.
    why
        Reason for the choice of the store.
    kept, steps
        Stores of kept events by variable, and steps from an event to earlier events. Steps are ordered by variable,
        those from the next variable first.
    columns, indexes, foralls, negations, absences, edges, states
        Parts of the plan; edges are ordered by variable, then source (START first).
    ring_columns
        Physical columns (and -1, -2, -3) that must stay in the event ring.
    index
        Equalities that are words of keys, see `fastcep.plan.joins.INDEXES`.
    other
        Plan for the factorised store, if the engine should try both stores; otherwise None.
    """

    query: ast.Query
    window_kind: int
    window: int
    type_variables: tuple[int, ...]
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
    weighed: bool = False
    event_features: tuple[tuple[int, ...], ...] = ()
    lives: int = 0
    longest: bool = False
    earlier: tuple[tuple[str, int, tuple[str, ...]], ...] = ()
    follows: bool = False
    skip_to: tuple[int, ...] = ()
    other: Plan | None = None
