"""Engines of all kinds whose state is forged: their options, their stream, and the calls that use them."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa

import fastcep as fc
from fastcep import shedding
from fastcep.errors import FastcepError, SnapshotError
from support.state_transfer import quiet

ATTRIBUTES = {"k": "int64", "f": "float64", "s": "string", "b": "bool"}
SCHEMA = fc.Schema(dict.fromkeys("ABCD", ATTRIBUTES), time="ts", type="type")
NUMBERED = fc.Schema(dict.fromkeys("ABCD", ATTRIBUTES), time="ts", type="type", sequence="n")
SHED = fc.Schema({name: {"ID": "int64", "V": "int64"} for name in "ABCD"}, time="ts", type="type", time_unit="us")
EVENTS = 60


@dataclass(frozen=True)
class Kind:
    """Options of an engine; ``restored`` are options that are not in a snapshot."""

    queries: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    schema: fc.Schema = SCHEMA
    restored: Callable[[], dict[str, Any]] = dict
    groups: bool = False
    disorder: int = 0


def _shedding(make: Callable[[], Any], text: str = "", restored: dict[str, Any] | None = None, **options: Any) -> Kind:
    """Make an engine on the virtual clock that is always overloaded."""
    own = {"clock": "virtual", "cost_table": "paper", "latency_bound": 40, "store": "rows", "index": "key"} | options
    query = text or "PATTERN SEQ(A a, B+ b[], C c) WHERE a.ID = c.ID WITHIN 30us"
    return Kind((query,), own, SHED, lambda: {"shedder": make(), **(restored or {})})


def stream_of_shed(first: int, last: int, seed: int = 0) -> dict[str, Any]:
    """Return events for an engine that sheds."""
    return stream(_shedding(shedding.RandomMatches), first, last, seed)


@cache
def hybrid_model() -> Any:
    """Fit a model of hybrid shedding on a short history."""
    query = fc.parse(HYBRID, SHED, name="q0")
    return fc.fit(query, pa.table(stream_of_shed(0, 1000, 5)), slices=2, cost_table="paper", index="key")


def _espice() -> Any:
    """Make a shedder by eSPICE with a model fitted on a short history."""
    query = fc.parse(IN_WINDOWS, SHED, name="q0")
    model = fc.fit(query, pa.table(stream_of_shed(0, 1000, 5)), kind="espice")
    return shedding.ESpice(model, f="auto", history=1000, renew=1000)


def _hybrid() -> Any:
    return shedding.by_name("hybrid", model=hybrid_model())


IN_WINDOWS = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = c.ID WINDOW EVERY 8us CLOSE AFTER 30us"
HYBRID = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 30us"

KINDS: dict[str, Kind] = {
    "kleene": Kind(("PATTERN SEQ(A a, B+ b[], C c) WHERE a.k = c.k AND a.s = c.s WITHIN 40ns",)),
    "group": Kind(("PATTERN SEQ(A a, (SEQ(B b, C c))+ g[], D d) WHERE a.k = d.k WITHIN 30ns",)),
    "unbounded": Kind(("PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.f < c.f WITHIN UNBOUNDED",)),
    "factorised": Kind(
        ("PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.s = c.s WITHIN 40ns",), {"store": "factorised"}
    ),
    "factorised kleene": Kind(
        ("PATTERN SEQ(A a, B+ b[], C c) WHERE a.k = c.k WITHIN 30ns",), {"store": "factorised"}
    ),
    "partitions": Kind((
        "PATTERN SEQ(A a, B b, C c) WITHIN 50ns PARTITION BY s STRATEGY partition_contiguity",
        "PATTERN SEQ(A a, B b, C c) WINDOW EVERY 9ns CLOSE AFTER 30ns PARTITION BY k, s LIMIT 2 PER WINDOW",
    )),
    "count window": Kind(("PATTERN SEQ(A a, B b, C c) WHERE a.k = c.k WITHIN 20 EVENTS",), {"timed_out": True}),
    "timed out": Kind(("PATTERN SEQ(A a, B+ b[], C c) WHERE a.k = c.k WITHIN 20ns",), {"timed_out": True}),
    "negation": Kind((
        "PATTERN SEQ(A a, NEG B b, C c) WHERE a.k = b.k AND a.k = c.k WITHIN 40ns",
        "PATTERN SEQ(A a, C c, NEG B b) WHERE a.s = b.s AND a.k = c.k WITHIN 40ns",
        "PATTERN SEQ(NEG B b, A a, C c) WHERE a.s = b.s AND a.k = c.k WITHIN 40ns",
    )),
    "periodic": Kind(("PATTERN PERIODIC(A a, 7ns, B b) WITHIN 40ns",)),
    "limits": Kind((
        "PATTERN SEQ(A a, B b, C c) WHERE [k] WITHIN 40ns AFTER MATCH SKIP PAST LAST",
        "PATTERN SEQ(A a, B b, NEG C c) WINDOW EVERY 9ns CLOSE AFTER 30ns PARTITION BY s LIMIT 3 PER WINDOW",
    )),
    "windows": Kind((
        "PATTERN SEQ(A a, B+ b[], C c) WHERE [k] WINDOW OPEN ON D w CLOSE AFTER 40ns",
        "PATTERN SEQ(A a, B b, NEG C c) WHERE a.k = b.k WINDOW EVERY 8ns CLOSE AFTER 30ns",
        "PATTERN SEQ(A a, B b) WHERE a.k = b.k WINDOW OPEN ON D w CLOSE ON C x WHERE w.k = x.k",
    )),
    "windows, timed out": Kind(
        ("PATTERN SEQ(A a, B b, C c) WHERE a.k = c.k WINDOW OPEN ON D w CLOSE AFTER 40ns LIMIT 2 PER WINDOW",),
        {"timed_out": True},
    ),
    "late": Kind(
        ("PATTERN SEQ(A a, B b) WHERE a.s = b.s WITHIN 40ns RETURN a.s AS s",),
        {"allowed_lateness": "15ns", "attributes": True}, disorder=25,
    ),
    "late, numbered": Kind(
        ("PATTERN SEQ(A a, B b, NEG C c) WHERE a.k = b.k WITHIN 20ns",),
        {"allowed_lateness": "15ns", "timed_out": True}, NUMBERED, disorder=25,
    ),
    "threads": Kind(
        ("PATTERN SEQ(A a, B+ b[], C c) WHERE [k] WITHIN 40ns", "PATTERN SEQ(A a, NEG B b, C c) WHERE [k] WITHIN 40ns"),
        {"threads": 2}, restored=lambda: {"threads": 2},
    ),
    "groups": Kind(
        ("PATTERN SEQ(A a, B+ b[], C c) WHERE [s] WITHIN 40ns", "PATTERN SEQ(A a, C c, NEG B b) WHERE [s] WITHIN 40ns"),
        groups=True,
    ),
    "groups, factorised": Kind(
        ("PATTERN SEQ(A a, B b, C c) WHERE [k] WITHIN 40ns",), {"store": "factorised"}, groups=True
    ),
    "groups, windows": Kind(
        ("PATTERN SEQ(A a, B b, C c) WHERE [k] WINDOW OPEN ON D w CLOSE AFTER 40ns",), {"timed_out": True}, groups=True
    ),
    "memory": Kind(("PATTERN SEQ(A a, B b, C c) WHERE [k] WITHIN 40ns",), {"memory_limit": "1MiB"}),
    "shedder of matches": _shedding(shedding.RandomMatches),
    "shedder of events": _shedding(shedding.RandomEvents),
    "shedder in windows": _shedding(lambda: shedding.by_name("bl"), IN_WINDOWS),
    "espice shedder": _shedding(_espice, IN_WINDOWS),
    "hybrid shedder": _shedding(_hybrid, HYBRID),
}  # fmt: skip


def stream(kind: Kind, first: int, last: int, seed: int = 0) -> dict[str, Any]:
    """Return events of a kind's stream, for ``Engine.process``."""
    count = last - first
    draw = random.Random(seed * 7919 + first)
    times = [at + (draw.randrange(kind.disorder) if kind.disorder else 0) for at in range(first, last)]
    data: dict[str, Any] = {"type": [draw.choice("AABBCD") for _ in range(count)], "ts": times}
    if kind.schema is SHED:
        return data | {"ID": [draw.randrange(3) for _ in times], "V": [draw.randrange(5) for _ in times]}
    data |= {
        "k": pa.array([draw.choice((0, 1, 2, None)) for _ in times], pa.int64()),
        "f": pa.array([draw.choice((0.5, 1.5, -0.0, float("nan"), None)) for _ in times], pa.float64()),
        "s": pa.array([draw.choice(("x", "y", "long text", None)) for _ in times], pa.string()),
        "b": pa.array([draw.choice((True, False, None)) for _ in times], pa.bool_()),
    }
    return data if kind.schema is SCHEMA else data | {"n": list(range(first, last))}


def made(kind: Kind) -> fc.Engine:
    """Return an engine that has processed the first part of its stream."""
    queries = [fc.parse(text, kind.schema, name=f"q{number}") for number, text in enumerate(kind.queries)]
    engine = quiet(fc.Engine, queries, **kind.options, **{
        name: value for name, value in kind.restored().items() if name not in kind.options
    })  # fmt: skip
    for first in range(0, EVENTS, 20):
        engine.process(stream(kind, first, first + 20))
    return engine


def restored(kind: Kind, data: bytes) -> fc.Engine | None:
    """Restore an engine from a snapshot that may be forged; None if it is rejected."""
    try:
        return quiet(fc.Engine.restore, data, **kind.restored())
    except SnapshotError as error:
        assert len(str(error)) < 2000
        return None


def go_on(kind: Kind, engine: fc.Engine) -> None:
    """Use an engine in every way; its matches, and errors of the library, do not matter."""
    for first in (EVENTS, EVENTS + 20):
        _tried(lambda first=first: engine.process(stream(kind, first, first + 20)).to_arrow())  # type: ignore[misc]
        _tried(lambda: repr(engine.metrics()))
    _tried(lambda: engine.late())
    _tried(lambda: engine.timed_out())
    _tried(lambda: quiet(fc.Engine.restore, engine.snapshot(), **kind.restored()).flush().to_arrow())
    if kind.groups:
        _tried(lambda: engine.merge(engine.extract(engine.groups[::2])))
    _tried(lambda: engine.flush().to_arrow())
    _tried(lambda: engine.timed_out())


def _tried(call: Callable[[], Any]) -> None:
    with suppress(FastcepError):
        call()
