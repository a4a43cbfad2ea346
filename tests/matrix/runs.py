"""Ways of running queries, all options drawn independently of each other and of the queries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from reference.matcher import Event
from strategies.patterns import Draw

from fastcep.events import Schema

#: The ways, by the names of the matrix's columns.
PATHS = (
    "store=rows", "store=factorised", "store=auto", "trial → rows", "trial → factorised", "index=full", "index=key",
    "index=off", "threads=1", "threads>1", "bytecode", "kernels", "one batch", "batches", "send", "dict", "Arrow",
    "long way", "advance", "allowed_lateness", "snapshot", "key groups", "several engines", "timed_out", "shedder",
    "memory_limit", "attributes", "interrupted", "slices by time", "slices by key",
)  # fmt: skip

MOVES = ("stay", "snapshot", "key groups", "several engines")
SHEDDERS = (None, None, "rs", "ri", "ss", "si")


@dataclass(frozen=True)
class Run:
    """How a stream is taken.

    Attributes
    ----------
    sizes
        Numbers of events of the batches; the last repeats.
    forms
        In which form a batch is given, by number; the last repeats. ``send`` gives its events one by one.
    trial
        After how many events the trial of both stores ends, and which is the cheaper one then.
    at_once
        Whether threads share every batch, however small.
    long_way
        Whether the compiled way for usual input is closed.
    lateness
        None: in order. Else the allowed lateness in ns; ``arrivals`` are the events as they arrive.
    advances
        Batches (by number) before which time is advanced, as far as the input allows.
    move
        What happens to the engine between batches.
    interrupted
        Whether signal handlers that raise end calls, which go on with the rest.
    choices
        A seed for what is decided while it runs.
    """

    store: str = "auto"
    trial: tuple[int, str] | None = None
    index: str = "full"
    threads: int = 1
    at_once: bool = False
    sizes: tuple[int, ...] = (99,)
    forms: tuple[str, ...] = ("dict",)
    long_way: bool = False
    lateness: int | None = None
    arrivals: tuple[Event, ...] = field(default=(), repr=False)
    advances: frozenset[int] = frozenset()
    move: str = "stay"
    timed_out: bool = False
    shedder: str | None = None
    memory_limit: bool = False
    attributes: bool = False
    interrupted: bool = False
    choices: int = 0

    def without(self, option: str) -> Run:
        """The same run with an option as it is by default."""
        default: dict[str, Any] = {option: getattr(Run(), option)}
        return replace(self, **default)


TRIALS = [(events, store) for events in (1, 2, 3, 5) for store in ("rows", "factorised")]
FORMS = ("dict", "send", "record batch", "table", "chunks", "coded", "coded dict", "NumPy", "lists", "slice")


@st.composite
def runs(draw: Draw, schema: Schema, events: list[Event]) -> Run:
    """Any options; in half of the runs those are usual that leave no choice of a store."""
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
        long_way=rarely(True, False),
        lateness=lateness,
        arrivals=arrivals,
        advances=draw(st.sampled_from([frozenset[int](), frozenset[int](), frozenset({1, 2}), frozenset({0, 3})])),
        move=draw(st.sampled_from([MOVES[0], *MOVES])),
        timed_out=False if rowless else rarely(True, False),
        shedder=None if rowless else draw(st.sampled_from(SHEDDERS)),
        memory_limit=rarely(True, False, 5),
        attributes=rarely(True, False, 5),
        interrupted=rarely(True, False, 5),
        choices=draw(st.integers(0, 99)),
    )


def shuffled(draw: Draw, schema: Schema, events: list[Event]) -> list[Event]:
    """The events in another order, mostly only a little; numbered as they arrive unless a column does it."""
    if draw(st.booleans()):
        arrivals = sorted(events, key=lambda one: one.time + draw(st.integers(0, 4)))
    else:
        arrivals = list(draw(st.permutations(events)))
    if schema.sequence is not None:
        return arrivals
    return [Event(one.type, one.time, number, one.values) for number, one in enumerate(arrivals)]
