"""Batches of events of the types A, B and C, written as a word."""

from __future__ import annotations

from typing import Any

import numpy as np

import fastcep as fc

V = {"ID": "int64", "V": "int64"}
SCHEMA = fc.Schema({"A": V, "B": V, "C": V}, type="type")
PAIR = "PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 10ns"


def engine(text: str = PAIR, schema: fc.Schema = SCHEMA) -> fc.Engine:
    return fc.Engine(fc.parse(text, schema))


def bindings(matches: fc.Matches, *names: str) -> list[dict[str, Any]]:
    return matches.to_arrow().select(list(names or ("a", "b"))).to_pylist()


def events(kinds: str, **columns: Any) -> dict[str, Any]:
    """A batch with one event per letter, at times 0, 1, 2, …"""
    n = len(kinds)
    return {"type": list(kinds), "ts": np.arange(n), "ID": np.ones(n, np.int64), "V": np.zeros(n, np.int64)} | columns
