"""Random streams and queries, drawn from a seed.

Every case has one trait of its own; the other traits are drawn. The window is the shortest one that makes the load high
enough. Draws that give too few matches, or too many, are repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import fastcep as fc
from bench.unseen.case import Case

__all__ = [
    "CASES", "EVENTS", "GAP", "HEADER", "TRAITS", "draw_query", "draw_table", "has_load", "random_case", "with_window",
]  # fmt: skip

#: Number of cases of a seed, and of events of a case.
CASES, EVENTS = 10, 60_000
TRAITS = (
    "skew", "correlation", "drift", "bursts", "kleene", "negation", "count window", "two queries",
)  # fmt: skip
#: Probability of a trait that a case does not have by its number.
_SHARE = 0.3
HEADER = "STREAM TIME 'ts' UNIT us TYPE 'type'\n" + "".join(
    f"EVENT {name} (k int64, v int64, u int64, w float64)\n" for name in "ABCD"
)
#: Window lengths in events that are tried, the goal for the mean latency (ns), and its limit.
_WINDOWS = tuple(int(16 * 1.5**step) for step in range(16))
_GOAL, _LIMIT = 150.0, 4_000.0
_FEWEST_PER_EVENT, _MOST_PER_EVENT = 0.05, 40.0
GAP = 1_000  #: mean time between two events, us
_ATTEMPTS = 200

Ints = npt.NDArray[np.int64]


def random_case(seed: int, number: int, events: int = EVENTS) -> Case:
    """Draw a stream and its queries.

    Parameters
    ----------
    seed
        Seed of the random numbers.
    number
        Number of the case, from 0; it sets one of the traits.
    events
        Number of events.

    Raises
    ------
    RuntimeError
        If no draw has enough load and enough matches.
    """
    rng = np.random.default_rng([seed, number])
    for _ in range(_ATTEMPTS):
        traits = [name for index, name in enumerate(TRAITS) if index == number % len(TRAITS) or rng.random() < _SHARE]
        table, notes = draw_table(rng, events, traits)
        queries = [draw_query(rng, name, traits) for name in (("q", "r") if "two queries" in traits else ("q",))]
        documents = [with_window(table, query, _counted if "count window" in traits else _timed) for query in queries]
        if all(document is not None for document in documents):
            text = HEADER + "\n".join(document for document in documents if document is not None)
            return Case(f"random_{seed}_{number}", text, table, (*traits, *notes))
    raise RuntimeError(f"seed {seed}, case {number}: {_ATTEMPTS} draws had too few matches or too little load")


def draw_table(rng: np.random.Generator, events: int, traits: list[str]) -> tuple[pa.Table, list[str]]:
    """Draw the events; return them with notes on what was drawn."""
    notes = []
    shares = rng.dirichlet(np.full(4, 1.0 if "skew" in traits else 8.0)) * 0.9 + 0.025
    kinds = rng.choice(4, events, p=shares / shares.sum())
    keys = int(rng.integers(5, 100))
    exponent = float(rng.uniform(1.0, 1.6)) if "skew" in traits else 0.0
    weights = np.arange(1, keys + 1) ** -exponent
    k = rng.choice(keys, events, p=weights / weights.sum()).astype(np.int64)
    v, u, w = rng.integers(1, 11, events), rng.integers(0, 100, events), rng.lognormal(0.0, 1.0, events)
    if "correlation" in traits:
        by_key = rng.integers(1, 11, (4, keys))
        v = np.where(rng.random(events) < 0.7, by_key[kinds, k], v)
        u = np.where(rng.random(events) < 0.7, 10 * (v - 1) + u // 10, u)
        w = w * v
    if "drift" in traits:
        change = int(rng.uniform(0.55, 0.8) * events)
        what = str(rng.choice(["values reversed", "keys permuted", "types permuted"]))
        notes.append(f"{what} at event {change:,}")
        if what == "values reversed":
            v[change:] = np.where(kinds[change:] % 2 == 0, 11 - v[change:], v[change:])
            u[change:] = 99 - u[change:]
        elif what == "keys permuted":
            k[change:] = rng.permutation(keys)[k[change:]]
        else:
            kinds[change:] = rng.permutation(4)[kinds[change:]]
    gaps = rng.integers(1, 2 * GAP, events)
    if "bursts" in traits:
        period, length = int(rng.integers(2_000, 8_000)), int(rng.integers(200, 1_000))
        gaps = np.where(np.arange(events) % period < length, gaps // 10 + 1, gaps)
        notes.append(f"bursts of {length:,} in {period:,} events")
    types = pa.array(np.array(list("ABCD"))[kinds].astype(object), pa.string())
    return pa.table({"type": types, "k": k, "v": v, "u": u, "w": w, "ts": np.cumsum(gaps)}), notes


def draw_query(rng: np.random.Generator, name: str, traits: list[str]) -> str:
    """Draw a query without its window."""
    length = int(rng.integers(2, 5))
    kinds = rng.choice(list("ABCD"), length) if rng.random() < 0.3 else rng.permutation(list("ABCD"))[:length]
    names = list("abcd"[:length])
    variables = [f"{kind} {variable}" for kind, variable in zip(kinds, names, strict=True)]
    values, conditions = list(names), []
    if "kleene" in traits:
        place = int(rng.integers(0, length - 1))
        bounded = rng.random() < 0.5
        variables[place] = f"{kinds[place]}{'{1,3}' if bounded else '+'} {names[place]}[]"
        values[place] = f"{names[place]}[i]"
        if not bounded:
            conditions.append(f"{names[place]}[i+1].v > {names[place]}[i].v")
    by_key = rng.random() < 0.7
    if by_key:
        conditions += [f"{first}.k = {values[-1]}.k" for first in values[:-1]]
    if "negation" in traits:
        place = int(rng.integers(1, length))
        variables.insert(place, f"NEG {rng.choice(list('ABCD'))} n")
        conditions.append(f"n.k = {values[-1]}.k")
        if rng.random() < 0.5:
            conditions.append(f"n.v > {values[-1]}.v")
    for _ in range(int(rng.integers(1, 3 if by_key else 4))):
        conditions.append(_draw_condition(rng, values))
    return f"QUERY {name}\nPATTERN SEQ({', '.join(variables)})\nWHERE {' AND '.join(dict.fromkeys(conditions))}\n"


def _draw_condition(rng: np.random.Generator, values: list[str]) -> str:
    first, second = sorted(rng.choice(len(values), 2, replace=False).tolist())
    x, y = values[first], values[second]
    pool = [
        f"{x}.v < {y}.v", f"{x}.w < {y}.w", f"{x}.v = {y}.v", f"ABS({x}.u - {y}.u) < {rng.integers(5, 30)}",
        f"{y}.u > {rng.integers(20, 80)}", f"{x}.v + {y}.v = {rng.integers(6, 16)}",
        f"{x}.u + {y}.u < {rng.integers(60, 140)}",
    ]  # fmt: skip
    if len(values) > 2 and not any("[" in value for value in values):
        a, b, c = values[0], values[1], values[-1]
        pool += [f"{a}.v + {b}.v = {c}.v", f"{a}.w + {b}.w < {c}.w"]
    return str(rng.choice(pool))


def _counted(events: int) -> str:
    return f"WITHIN {events} EVENTS\n"


def _timed(events: int) -> str:
    return f"WITHIN {events * GAP}us\n"


def with_window(table: pa.Table, query: str, window: Callable[[int], str]) -> str | None:
    """Add the shortest window with enough load to a query; None if it has too few or too many matches.

    ``window`` returns the clauses for a number of events.
    """
    prefix = table.slice(0, max(1_000, len(table) // 10))
    for events in _WINDOWS:
        text = query + window(events)
        load = _load(text, prefix)
        if load is None:
            return None
        if load[0] >= _GOAL:
            load = _load(text, table.slice(len(table) // 2))
            return text if load is not None and load[1] >= _FEWEST_PER_EVENT else None
    return None


def has_load(text: str, table: pa.Table) -> bool:
    """Return whether a query with its window has enough load and enough matches in the second half of the events."""
    load = _load(text, table.slice(len(table) // 2))
    return load is not None and load[0] >= _GOAL and load[1] >= _FEWEST_PER_EVENT


def _load(text: str, table: pa.Table) -> tuple[float, float] | None:
    """Return the mean latency (ns) and the number of matches per event; None if either is above its limit."""
    options: dict[str, Any] = {"clock": "virtual", "latency_bound": "1h", "store": "rows"}
    engine = fc.Engine(fc.parse_document(HEADER + text).queries[0], **options)
    matches, latency = 0, 0.0
    for number, batch in enumerate(table.to_batches(max_chunksize=128), 1):
        matches += len(engine.process(batch))
        latency = engine.metrics()["shedding"]["processing_latency"]["mean"] if number % 8 == 0 else latency
        if latency > _LIMIT or matches > _MOST_PER_EVENT * len(table):
            return None
    return engine.metrics()["shedding"]["processing_latency"]["mean"], matches / len(table)
