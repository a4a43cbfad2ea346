"""Small engines with a shedder, on the virtual clock with the paper's cost table, and their matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fastcep as fc
from fastcep.query import Document, document_text
from fastcep.shedding import Shedder

SCHEMA = fc.Schema({name: {"ID": "int64", "V": "int64"} for name in "ABCD"}, time="ts", type="type", time_unit="us")
SAME = "SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID"
Q1 = f"PATTERN {SAME} AND a.V + b.V = c.V WITHIN 2ms"
BASELINES = ("ri", "si", "rs", "ss", "pm-bl", "e-bl", "bl")
OF_MATCHES = ("rs", "ss", "pm-bl")


def query(text: str = Q1, name: str = "q1") -> fc.Query:
    return fc.parse(text, SCHEMA, name=name)


def cep_text(**texts: str) -> str:
    """Return the text of a ``.cep`` file with queries over `SCHEMA`, by name."""
    return document_text(Document(SCHEMA, tuple(query(text, name) for name, text in texts.items())))


def engine(queries: Any, shedder: Shedder | None = None, bound: float = 1e9, **options: Any) -> fc.Engine:
    own = {"clock": "virtual", "cost_table": "paper", "index": "key"} | options
    return fc.Engine(queries, latency_bound=bound, shedder=shedder, **own)


def found(matches: fc.Matches, name: str | None = None) -> list[tuple[Any, ...]]:
    """Return window and events of each match, with lists as tuples."""
    table = (matches if name is None else matches.query(name)).to_arrow()
    columns = [table[column].to_pylist() for column in table.column_names if column not in ("query", "detected_at")]
    rows = zip(*columns, strict=True)
    return [tuple(tuple(cell) if isinstance(cell, list) else cell for cell in row) for row in rows]


def mean(live: fc.Engine) -> float:
    return float(live.metrics()["shedding"]["processing_latency"]["mean"])


def assert_within(matches: Sequence[Any], truth: Sequence[Any]) -> None:
    """Check that every match is true, in order."""
    rest = iter(truth)
    assert all(match in rest for match in matches)
