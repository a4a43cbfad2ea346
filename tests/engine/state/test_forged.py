"""Snapshots that no engine has written, with right checksums: refused, not believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from moving import quiet

import fastcep as fc
from fastcep.engine.state.container import pack, unpack

SCHEMA = fc.Schema({name: {"k": "int64"} for name in "ABC"}, type="type")
QUERIES = {
    "rows": ("PATTERN SEQ(A a, B+ b[], C c) WHERE [k] WITHIN 1h", {}),
    "windows": ("PATTERN SEQ(A a, B b, C c) WHERE [k] WINDOW OPEN ON A w CLOSE AFTER 1h", {}),
    "events": ("PATTERN SEQ(A a, C c) WHERE [k] WITHIN 30 EVENTS", {"timed_out": True}),
    "late": ("PATTERN SEQ(A a, C c) WHERE [k] WITHIN 1h", {"allowed_lateness": "5ns"}),
}
Edit = Callable[[dict[str, Any], dict[str, dict[str, Any]]], Any]


def put(table: str, row: str, value: int) -> Edit:
    """Write a number over a column."""

    def edit(_: dict[str, Any], tables: dict[str, dict[str, Any]]) -> None:
        tables[table] = tables[table] | {row: np.full_like(tables[table][row], value)}

    return edit


FORGED: dict[str, tuple[str, Edit]] = {
    "sizes that wrap": ("rows", put("0 index 0", "1", 2**62)),
    "a window before all": ("windows", put("0 starts", "4", -(10**12))),
    "a window after all": ("windows", put("0 starts", "4", 10**12)),
    "starts before the window": ("events", put("0 starts", "2", -(10**15))),
    "starts to come": ("rows", put("0 starts", "2", 10**15)),
    "rows of no start": ("rows", put("0 rows 0", "0", 10**9)),
    "a chain without an end": ("rows", put("0 nodes", "2", 0)),
    "a node of no variable": ("rows", put("0 nodes", "1", 99 << 48)),
    "a type of no event": ("late", put("held", "type", 60_000)),
    "no counters": ("rows", lambda header, _: header["queries"][0].update(numbers={})),
    "no such group": ("rows", lambda header, _: header.update(groups=[99])),
    "options that are none": ("rows", lambda header, _: header.update(options=7)),
    "an option that is none": ("rows", lambda header, _: header["options"].update(shape="round")),
    "no order": ("late", lambda header, _: header.pop("order")),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged(name: str) -> None:
    kind, edit = FORGED[name]
    text, options = QUERIES[kind]
    engine = quiet(fc.Engine, fc.parse(text, SCHEMA), **options)
    count = 60
    engine.process({"type": list("AAB" * 20), "ts": range(count), "k": [at % 5 for at in range(count)]})
    header, tables = unpack(engine.snapshot())
    sound = fc.Engine.restore(pack(header, tables))
    assert len(sound.process({"type": ["C"], "ts": [70], "k": [1]})) + len(sound.flush()) > 0
    edit(header, tables)
    with pytest.raises(fc.SnapshotError):
        fc.Engine.restore(pack(header, tables))
