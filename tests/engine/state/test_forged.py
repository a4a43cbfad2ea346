"""Forged snapshots with correct checksums are rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.state_transfer import quiet

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
    """Overwrite a column with a number."""

    def edit(_: dict[str, Any], tables: dict[str, dict[str, Any]]) -> None:
        tables[table] = tables[table] | {row: np.full_like(tables[table][row], value)}

    return edit


def header(change: Callable[[dict[str, Any]], Any]) -> Edit:
    return lambda fields, _: change(fields)


def numbers(**values: Any) -> Edit:
    return header(lambda fields: fields["queries"][0]["numbers"].update(values))


#: The forged fields, and the error messages.
FORGED: dict[str, tuple[str, Edit, str]] = {
    "sizes that wrap": ("rows", put("0 index 0", "1", 2**62), "'0 index 0', rows, entry 0: found 4611686018427387904"),
    "a window before all": ("windows", put("0 starts", "4", -(10**12)), "'0 starts', window, entry 0: found -1"),
    "a window after all": ("windows", put("0 starts", "4", 10**12), "'0 starts', window, entry 0: found 1000000000000"),
    "starts before the window": ("events", put("0 starts", "2", -(10**15)), "'0 starts', position, entry 0: found -1"),
    "starts to come": ("rows", put("0 starts", "2", 10**15), "'0 starts', position, entry 0: found 1000000000000000"),
    "times of starts": ("rows", put("0 starts", "1", 2**62), "'0 starts', time, entry 0: found 4611686018427387904"),
    "rows of no start": ("rows", put("0 rows 0", "0", 10**9), "'0 rows 0', start, entry 0: found 1000000000, expected"),
    "more rows than there are": (
        "rows", put("0 starts", "3", 7), "'0 starts', entry 0: found another number of partial",
    ),
    "a chain without an end": ("rows", put("0 nodes", "2", 0), "found a previous node of another start, expected"),
    "a node of no variable": (
        "rows", put("0 nodes", "1", 99 << 48), "found a variable that does not exist, expected one",
    ),
    "a type of no event": (
        "late", put("held", "type", 60_000), "'held', type, entry 0: found 60000, expected a number",
    ),
    "events that are gone": ("late", lambda _, tables: tables.pop("events"), "found no event at position"),
    "times before the stream's": (
        "late", put("held", "time", -5), "'held': found batch 0 out of order, or before time",
    ),
    "states that time out": (
        "events", put("0 timed ", "states", 9), "'0 timed ', states: found 9, expected a state that",
    ),
    "events that timed out": (
        "events",
        lambda _, tables: tables.update({"0 timed events 0": {"event": np.zeros(1, np.int64)}}),
        "'0 timed events 0': found 1 rows, expected",
    ),
    "a table of nobody": (
        "rows",
        lambda _, tables: tables.update({"more": {"x": np.zeros(1, np.int64)}}),
        "found a table 'more', expected only",
    ),
    "a column of floats": (
        "rows", lambda _, tables: tables["0 starts"].update({"2": tables["0 starts"]["2"].astype(float)}),
        "table '0 starts', column '2': found float64, expected int64",
    ),
    "a position before its events": (
        "events", header(lambda fields: fields.update(position=30)),
        "queries[0].numbers.last: found 59, expected less than the position, 30",
    ),
    "a position far away": (
        "events", header(lambda fields: fields.update(position=2**40)), "'0 starts', position, entry 0",
    ),
    "a ring without end": (
        "late", header(lambda fields: fields.update(position=2**45)), "found events that need a ring of",
    ),
    "a position of text": (
        "rows", header(lambda fields: fields.update(position="60")), "position: found '60' (str), expected",
    ),
    "a position of truth": (
        "rows", header(lambda fields: fields.update(position=True)), "position: found True (bool), exp",
    ),
    "a time of many digits": (
        "rows", header(lambda fields: fields.update(time=10**30)), "time: found 1000000000000000000000",
    ),
    "a counter that is a float": (
        "rows", numbers(matches=1.0), "queries[0].numbers.matches: found 1.0 (float), expected",
    ),
    "a counter that overflows": (
        "rows", numbers(next_birth=2**63 - 1), "queries[0].numbers.next_birth: found 92233720368",
    ),
    "no counters": (
        "rows", header(lambda fields: fields["queries"][0].update(numbers={})),
        "queries[0].numbers.next_birth: found nothing, expected a value",
    ),
    "a field of nobody": (
        "rows", header(lambda fields: fields.update(more=1)), "found the field 'more' (str), expected only",
    ),
    "no such group": (
        "rows", header(lambda fields: fields.update(groups=[99])), "groups[0]: found 99 (int), expected an int",
    ),
    "a group of truth": (
        "rows", header(lambda fields: fields.update(groups=[True])), "groups[0]: found True (bool), expected",
    ),
    "groups in disorder": (
        "rows", header(lambda fields: fields.update(groups=[2, 1])), "groups: found [2, 1], expected each",
    ),
    "options that are none": (
        "rows", header(lambda fields: fields.update(options=7)), "options: found 7 (int), expected an",
    ),
    "an option that is none": (
        "rows", header(lambda fields: fields["options"].update(shape="round")), "options: found the field 'shape' (str)"
    ),
    "no order": ("late", header(lambda fields: fields.pop("order")), "order: found nothing, expected a value"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forged(name: str) -> None:
    kind, edit, message = FORGED[name]
    text, options = QUERIES[kind]
    engine = quiet(fc.Engine, fc.parse(text, SCHEMA), **options)
    count = 60
    engine.process({"type": list("AAB" * 20), "ts": range(count), "k": [at % 5 for at in range(count)]})
    header, tables = unpack(engine.snapshot())
    sound = quiet(fc.Engine.restore, pack(header, tables))
    assert len(sound.process({"type": ["C"], "ts": [70], "k": [1]})) + len(sound.flush()) > 0
    edit(header, tables)
    with pytest.raises(fc.SnapshotError) as raised:
        fc.Engine.restore(pack(header, tables))
    assert message in str(raised.value)
    assert "take the snapshot again, or use an older one" in str(raised.value)
