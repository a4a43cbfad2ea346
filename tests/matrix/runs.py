"""Ways of running queries: all options are drawn independently of each other and of the queries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from reference.matcher import Event
from strategies.patterns import Draw

from fastcep.events import Schema

#: The paths, by the names of the matrix's columns.
PATHS = (
    "store=rows", "store=factorised", "store=auto", "trial → rows", "trial → factorised", "index=full", "index=key",
    "index=off", "threads=1", "threads>1", "bytecode", "kernels", "one batch", "batches", "send", "dict", "Arrow",
    "slow path", "advance", "allowed_lateness", "snapshot", "key groups", "several engines", "partial states",
    "timed_out", "shedder", "memory_limit", "attributes", "interrupted", "slices by time", "slices by key",
    "instances",
)  # fmt: skip

MOVES = ("stay", "snapshot", "key groups", "several engines", "partial states")
MODELLED = {"pspice": "pspice", "pspice--": "pspice", "espice": "espice"}  # kinds of models, fitted on the stream
SLEEPS = ("awake", "asleep", "between", "within")
SHEDDERS = (None, None, "rs", "ri", "ss", "si", "auto", *MODELLED)


@dataclass(frozen=True)
class Run:
    """A way to process a stream.

    Attributes
    ----------
    sizes
        Numbers of events of the batches; the last repeats.
    forms
        Data format of each batch; the last repeats. ``send`` sends the events one by one.
    trial
        Number of events after which the trial of both stores ends, and the store that is the cheaper one then.
    at_once
        True: threads share every batch, however small.
    slow_path
        True: the compiled fast path is closed.
    lateness
        Allowed lateness in ns; ``arrivals`` are the events in order of arrival. None: the events are in order.
    advances
        Numbers of the batches before which time is advanced, as far as the input allows.
    move
        How the state moves between batches; ``partial states``: it is cut, sent and built again.
    sleep
        ``awake``: the shedder is always ready, on the virtual clock. ``asleep``: on the wall clock, where the overload
        control may sleep. ``between``, ``within``: there, it also wakes and falls asleep between batches, or within.
    interrupted
        True: signal handlers that raise end calls, which continue with the remaining events.
    choices
        A seed for decisions during the run.
    """

    store: str = "auto"
    trial: tuple[int, str] | None = None
    index: str = "full"
    threads: int = 1
    at_once: bool = False
    sizes: tuple[int, ...] = (99,)
    forms: tuple[str, ...] = ("dict",)
    slow_path: bool = False
    lateness: int | None = None
    arrivals: tuple[Event, ...] = field(default=(), repr=False)
    advances: frozenset[int] = frozenset()
    move: str = "stay"
    timed_out: bool = False
    shedder: str | None = None
    percentile: bool = False
    sleep: str = "awake"
    memory_limit: bool = False
    attributes: bool = False
    interrupted: bool = False
    choices: int = 0

    def without(self, option: str) -> Run:
        """Return the same run with the default of an option."""
        default: dict[str, Any] = {option: getattr(Run(), option)}
        return replace(self, **default)


TRIALS = [(events, store) for events in (1, 2, 3, 5) for store in ("rows", "factorised")]
FORMS = ("dict", "send", "record batch", "table", "chunks", "coded", "coded dict", "NumPy", "lists", "slice")


@st.composite
def runs(draw: Draw, schema: Schema, events: list[Event]) -> Run:
    """Draw any options; in half of the runs, options that rule out a choice of the store have their defaults."""
    rowless = draw(st.booleans())

    def rarely(value: Any, usual: Any, times: int = 3) -> Any:
        return draw(st.sampled_from([usual] * times + [value]))

    lateness, arrivals = None, tuple(events)
    if draw(st.sampled_from([False, False, True])):
        lateness = draw(st.sampled_from([2, 0, 1, 3, 5, 8, 40]))
        arrivals = tuple(shuffled(draw, schema, events))
    return Run(
        store=draw(st.sampled_from(["auto", "factorised", "rows", "auto", "factorised"])),
        trial=draw(st.sampled_from([None, *TRIALS])),
        index="full" if rowless else draw(st.sampled_from(["full", "key", "off"])),
        threads=draw(st.sampled_from([1, 1, 1, 2] if rowless else [1, 1, 2, 3])),
        at_once=draw(st.sampled_from([False, False, True])),
        sizes=tuple(draw(st.sampled_from([[99], [1], [3, 1], [2], [4, 0, 3]]))),
        forms=tuple(draw(st.lists(st.sampled_from(FORMS), min_size=1, max_size=3))),
        slow_path=rarely(True, False),
        lateness=lateness,
        arrivals=arrivals,
        advances=draw(st.sampled_from([frozenset[int](), frozenset[int](), frozenset({1, 2}), frozenset({0, 3})])),
        move=draw(st.sampled_from([MOVES[0], *MOVES])),
        timed_out=False if rowless else rarely(True, False),
        shedder=None if rowless else draw(st.sampled_from(SHEDDERS)),
        percentile=draw(st.booleans()),
        sleep=draw(st.sampled_from(SLEEPS)),
        memory_limit=rarely(True, False, 5),
        attributes=rarely(True, False, 5),
        interrupted=rarely(True, False, 5),
        choices=draw(st.integers(0, 99)),
    )


def shuffled(draw: Draw, schema: Schema, events: list[Event]) -> list[Event]:
    """Draw another order of the events, mostly a small change; numbered on arrival unless a column numbers them."""
    if draw(st.booleans()):
        arrivals = sorted(events, key=lambda one: one.time + draw(st.integers(0, 4)))
    else:
        arrivals = list(draw(st.permutations(events)))
    if schema.sequence is not None:
        return arrivals
    return [Event(one.type, one.time, number, one.values) for number, one in enumerate(arrivals)]
