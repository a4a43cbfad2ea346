"""Queries of all kinds whose state moves to other plans, with a stream, and the rows of matches."""

from __future__ import annotations

from typing import Any

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.shedding import Model

SCHEMA = fc.Schema({name: {"ID": "int64", "V": "int64"} for name in "ABCD"}, time="ts", type="type", time_unit="us")
QUERIES = {
    "chain": "PATTERN SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V WITHIN 8ms",
    "kleene": "PATTERN SEQ(A a, B+ b[], C c) WHERE [ID] AND a.V < c.V AND b[i+1].V > b[i].V WITHIN 2ms",
    "negated": "PATTERN SEQ(A a, NEG B b, C c) WHERE [ID] AND a.V < c.V WITHIN 2ms",
    "waiting": "PATTERN SEQ(A a, B b, NEG C c) WHERE [ID] AND a.V < b.V WITHIN 1ms",
    "copies": "PATTERN AND(A a, B b, C c) WHERE a.V = b.V AND b.ID = c.ID WITHIN 300us",
    "branches": "PATTERN OR(SEQ(A a, B b), SEQ(C c, B b2)) WHERE a.V = b.V WITHIN 300us",
    "windows": "PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WINDOW OPEN ON A o CLOSE AFTER 300us RETURN a.V, b.V",
    "counted": "PATTERN SEQ(A a, B b, D d) WHERE a.ID = b.ID AND d.V > a.V WITHIN 100 EVENTS RETURN d.V + a.V AS s",
    "consumes": "PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 2ms STRATEGY skip_till_next CONSUME consumed",
}
EVENTS = ds1(events=2500, seed=7, c_values=(2, 10))


def query(name: str) -> fc.Query:
    return fc.parse(QUERIES[name], SCHEMA, name=name)


def rows(*matches: fc.Matches) -> list[dict[str, Any]]:
    return [row for some in matches for row in some.to_arrow().to_pylist()]


def fitted(name: str) -> Model | None:
    try:
        return fc.fit(query(name), ds1(events=5000, seed=3, c_values=(2, 10)), features={"a": ["a.V % 3"]})
    except fc.ValidationError:  # nothing to fit for this query
        return None
