"""Engines whose snapshots are stored in tests/golden: their queries, and their results for the rest of a stream.

``PYTHONPATH=.:tests python -m support.golden_engines`` writes the missing files once (tests/golden/README.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from fastcep.engine.state.container import FORMAT
from support.state_transfer import COUNTERS, quiet

GOLDEN = Path(__file__).parents[1] / "golden"
ROWS, BATCH = 120, 20
HALF = ROWS // 2

DOCUMENT = """
STREAM TIME 'at' UNIT ns TYPE 'kind'{sequence}
EVENT A (k int64, v int64, x float64, s string, p bool)
EVENT B (k int64, v int64, x float64, s string, p bool)
EVENT C (k int64, v int64, x float64, s string, p bool)
"""


@dataclass(frozen=True)
class Case:
    """Queries, options of the engine, and the form of the stream."""

    queries: str
    options: dict[str, Any] = field(default_factory=dict)
    sequence: bool = False
    shuffled: bool = False
    taken: bool = False  #: the file has the groups that ``extract`` returned, and another file has the remaining ones


CASES = {
    "kleene": Case(
        "QUERY texts PATTERN SEQ(A a, B+ b[], C c) WHERE [s] AND b[i+1].v >= b[i].v WITHIN 40ns "
        "RETURN a.s AS s, SUM(b[].v) AS total, c.x AS x"
    ),
    "negation": Case(
        "QUERY trailing PATTERN SEQ(A a, B b, NEG C c) WHERE [k] AND c.v > a.v WITHIN 25ns RETURN b.s AS s\n"
        "QUERY between PATTERN SEQ(A a, NEG B b, C c) WHERE [s] AND b.x > a.x WITHIN 40ns\n"
        "QUERY ticks PATTERN PERIODIC(A a, 3ns, C c) WHERE [p] WITHIN 20ns"
    ),
    "windows": Case(
        "QUERY isolated PATTERN SEQ(A a, B b) WHERE [k] WINDOW OPEN ON C w CLOSE AFTER 30ns LIMIT 3 PER WINDOW\n"
        "QUERY shared PATTERN SEQ(A a, B+ bs[]) WHERE [k] WINDOW EVERY 14ns CLOSE AFTER 20ns\n"
        "QUERY paired PATTERN SEQ(A a, B b) WHERE a.v < b.v WINDOW OPEN ON C w CLOSE ON C z WHERE z.k = w.k",
        sequence=True,
    ),
    "late": Case(
        "QUERY late PATTERN SEQ(A a, B b, C c) WHERE [s] WITHIN 60ns RETURN a.s AS s",
        {"allowed_lateness": "8ns", "idle_timeout": "1s", "late_limit": 500},
        shuffled=True,
    ),
    "groups": Case(
        "QUERY chains PATTERN SEQ(A a, B+ bs[], C c) WHERE [k] WITHIN 30ns\n"
        "QUERY waiting PATTERN SEQ(A a, B b, NEG C c) WHERE [k] AND c.v > a.v WITHIN 60ns",
        {"attributes": True},
        taken=True,
    ),
    "timed_out": Case(
        "QUERY first PATTERN SEQ(A a, B+ bs[], C c) WHERE [k] WITHIN 12ns\n"
        "QUERY second PATTERN SEQ(A a, B b) WHERE [p] AND a.v < b.v WITHIN 6 EVENTS",
        {"timed_out": True, "memory_limit": "64MiB"},
        sequence=True,
    ),
}


def stream(case: Case) -> dict[str, list[Any]]:
    """Return all events by column, in values that JSON can hold."""
    draw = np.random.default_rng(6)
    order = np.arange(ROWS)
    if case.shuffled:
        order = np.argsort(order + draw.choice([0, 0, 2, 4, 9], ROWS), kind="stable")
    texts = ["", "x", "é", "日本", "\U0001f6b2", None]
    data = {
        "kind": [str(kind) for kind in draw.choice(list("ABC"), ROWS)],
        "at": [int(number) * 2 for number in order],
        "k": [[0, 1, 2, 2**53 + 1, None][number] for number in draw.integers(0, 5, ROWS)],
        "v": [int(number) for number in draw.integers(-3, 5, ROWS)],
        "x": [[0.0, -0.0, 0.1, None][number] for number in draw.integers(0, 4, ROWS)],
        "s": [texts[number] for number in draw.integers(0, 6, ROWS)],
        "p": [[True, False, None][number] for number in draw.integers(0, 3, ROWS)],
    }
    return data | ({"n": [3 * int(number) for number in order]} if case.sequence else {})


def batches(data: dict[str, list[Any]], first: int, last: int) -> Iterator[dict[str, list[Any]]]:
    """Yield the events from ``first`` on, a few at a time."""
    for at in range(first, last, BATCH):
        yield {name: values[at : at + BATCH] for name, values in data.items()}


def no_time() -> int:
    """Return a clock that does not move."""
    return 0


def rest(engine: fc.Engine, data: list[dict[str, list[Any]]]) -> dict[str, Any]:
    """Return the results of an engine for the rest of the stream, as they come back from JSON."""
    before = {name: engine.metrics()[name] for name in COUNTERS}
    calls = [table_rows(engine.process(batch)) for batch in data] + [table_rows(engine.flush())]
    out = {"before": before, "matches": calls, "late": engine.late().to_pylist(), "timed_out": []}
    if engine._timed_out:
        out["timed_out"] = engine.timed_out().to_pylist()
    return json.loads(json.dumps(out, default=str))  # type: ignore[no-any-return]


def table_rows(found: fc.Matches) -> list[dict[str, Any]]:
    """Return the matches; the times of their events are int64, as the files have them."""
    table = found.to_arrow()
    for number, column in enumerate(table.schema):
        is_list = pa.types.is_large_list(column.type)
        if pa.types.is_timestamp(column.type.value_type if is_list else column.type) and column.name != "detected_at":
            numbers = table.column(number).cast(pa.large_list(pa.int64()) if is_list else pa.int64())
            table = table.set_column(number, column.name, numbers)
    return table.to_pylist()


def make(name: str) -> dict[str, bytes]:
    """Write the files of a case."""
    case = CASES[name]
    text = DOCUMENT.format(sequence=" SEQUENCE 'n'" if case.sequence else "") + case.queries
    queries = fc.parse_document(text).queries
    data = stream(case)
    engine = quiet(fc.Engine, queries, clock=no_time, **case.options)
    for batch in batches(data, 0, HALF):
        engine.process(batch)
    files = {}
    taken = engine.extract(range(0, 64, 2)) if case.taken else engine.snapshot()
    if case.taken:
        files[f"{name}_{FORMAT}_rest.snapshot"] = engine.snapshot()
        engine = fc.Engine.restore(taken, clock=no_time)
    files[f"{name}_{FORMAT}.snapshot"] = taken
    later = list(batches(data, HALF, ROWS))
    found = {"batches": later} | rest(engine, later)
    files[f"{name}_{FORMAT}.json"] = json.dumps(found, ensure_ascii=False, indent=1).encode()
    if case.taken:
        whole = fc.Engine.restore(files[f"{name}_{FORMAT}_rest.snapshot"], clock=no_time)
        whole.merge(taken)
        found = {"batches": later} | rest(whole, later)
        files[f"{name}_{FORMAT}_whole.json"] = json.dumps(found, ensure_ascii=False, indent=1).encode()
    return files


if __name__ == "__main__":
    for each in CASES:
        for file, content in make(each).items():
            if not (GOLDEN / file).exists():
                (GOLDEN / file).write_bytes(content)
