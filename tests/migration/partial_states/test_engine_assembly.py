"""Building an engine from partial states: what is refused, before and while states arrive."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.partial_states import send
from support.snapshot_engines import UNKEYED, ending, query, refuses, running

import fastcep as fc
from fastcep.engine.state.container import pack, unpack
from fastcep.migration import partition
from fastcep.migration.partial_states.assembly import EngineAssembly
from fastcep.migration.partial_states.entries import FRAME, SCHEMA

KLEENE = "PATTERN SEQ(A a, B+ b[], C c) WHERE [s] WITHIN 60ns RETURN a.s AS s"


def columns(batch: bytes) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = pa.ipc.read_record_batch(pa.py_buffer(batch), SCHEMA).to_pydict()
    return found


def written(values: dict[str, list[Any]]) -> bytes:
    return bytes(pa.record_batch(values, schema=SCHEMA).serialize())


def first_of(values: dict[str, list[Any]], names: list[str], name: str) -> int:
    """Return the first entry of a table."""
    return values["table"].index(names.index(name))


def changed(values: dict[str, list[Any]], column: str, row: int, value: Any) -> bytes:
    copies = {name: list(cells) for name, cells in values.items()}
    copies[column][row] = value
    return written(copies)


def table_names(base: bytes) -> list[str]:
    return [name for name, _ in unpack(base)[0]["partial_states"]["tables"]]


def forgeries() -> dict[str, Callable[[bytes, list[str]], bytes]]:
    """Return changes of a batch, by the error's words."""

    def of(change: Callable[[dict[str, list[Any]], list[str]], bytes]) -> Callable[[bytes, list[str]], bytes]:
        return lambda batch, names: change(columns(batch), names)

    def words(name: str, place: int, value: int) -> Callable[[bytes, list[str]], bytes]:
        def change(values: dict[str, list[Any]], names: list[str]) -> bytes:
            row = first_of(values, names, name)
            cells = list(values["words"][row])
            cells[place] = value
            return changed(values, "words", row, cells)

        return of(change)

    def repeated(values: dict[str, list[Any]], names: list[str]) -> bytes:
        return written({name: [*cells, cells[-1]] for name, cells in values.items()})

    def rename(values: dict[str, list[Any]], names: list[str]) -> bytes:
        row = first_of(values, names, "events")
        return changed(values, "texts", row, [*values["texts"][row], "more"])

    def other_text(values: dict[str, list[Any]], names: list[str]) -> bytes:
        rows = [row for row, texts in enumerate(values["texts"]) if texts == ["x"]]
        return changed(values, "texts", rows[-1], ["y"])

    return {
        "the base has": of(lambda values, names: changed(values, "state", 1, 10**6)),
        "an unknown table": of(lambda values, names: changed(values, "table", 1, 99)),
        "more than the base announces": of(lambda values, names: changed(values, "entry", 1, 10**6)),
        "found entries twice": of(repeated),
        "has not": of(lambda values, names: changed(values, "words", 1, [1])),
        "too few or too many texts": of(rename),
        "another text with the number": of(other_text),
        "another text with the numbe": words("0 index 0", 2, -1),
        "belongs to another base": of(lambda values, names: changed(values, "words", 0, [1, 0])),
        "found batch 7": of(lambda values, names: changed(values, "words", 0, [values["words"][0][0], 7])),
        "belongs to another bas": of(lambda values, names: written({key: cells[1:] for key, cells in values.items()})),
        "belongs to another ba": of(lambda values, names: written({name: [] for name in values})),
        "not a record batch": lambda batch, names: batch[:-8],
        "not a record batc": lambda batch, names: batch + b"\0" * 8,
        "not a record bat": lambda batch, names: b"",
        "not a record ba": lambda batch, names: b"x" * 300,
        "not a record b": lambda batch, names: bytes(pa.record_batch({"state": [1]}).serialize()),
    }


@pytest.mark.parametrize("words", forgeries())
def test_a_wrong_batch_changes_nothing(words: str) -> None:
    engine = running(KLEENE)
    parts = partition(engine)
    assembly = EngineAssembly(parts.base())
    everything = np.arange(len(parts.states))
    first, second = parts.encode(everything[:5]), parts.encode(everything[5:])
    message = refuses(lambda: assembly.add(forgeries()[words](first, table_names(parts.base()))), words)
    assert "found" in message or "belongs" in message
    assert len(assembly.add(first)) == 5
    assembly.add(second)
    assert ending(assembly.build()) == ending(engine)


def test_batches_come_once_and_in_order() -> None:
    parts, other = partition(running(KLEENE)), partition(running(KLEENE, events=50))
    first, second = parts.encode(np.array([0])), parts.encode(np.array([1]))
    assembly = EngineAssembly(parts.base())
    refuses(lambda: assembly.add(second), "found batch 1", "expected batch 0: every batch must be added once")
    assert assembly.add(first).tolist() == [0]
    refuses(lambda: assembly.add(first), "found batch 0", "expected batch 1")
    refuses(lambda: assembly.add(other.encode(np.array([0]))), "the batch belongs to another base")
    assert assembly.add(memoryview(second)).tolist() == [1]
    assert assembly.build().metrics()["live_partial_matches"] == 2


def test_an_entry_comes_once() -> None:
    parts = partition(running(KLEENE))
    first = parts.encode(np.array([0]))
    digest, _ = columns(first)["words"][0]
    assembly = EngineAssembly(parts.base())
    assembly.add(first)
    refuses(lambda: assembly.add(changed(columns(first), "words", 0, [digest, 1])), "came before")


@pytest.mark.parametrize("missing", ["starts", "nodes"])
def test_an_entry_that_is_needed_is_missing(missing: str) -> None:
    """The old host sends the first batch without it."""
    parts = partition(running(KLEENE))
    values = columns(parts.encode(np.arange(len(parts.states))))
    row = first_of(values, table_names(parts.base()), f"0 {missing}")
    assembly = EngineAssembly(parts.base())
    assembly.add(written({name: cells[:row] + cells[row + 1 :] for name, cells in values.items()}))
    refuses(assembly.build, f"an entry of '{missing}' is missing. Send the migration again")


def test_an_inconsistent_state_is_refused_as_a_snapshot() -> None:
    parts = partition(running(KLEENE))
    values = columns(parts.encode(np.arange(len(parts.states))))
    row = first_of(values, table_names(parts.base()), "0 starts")
    cells = [*values["words"][row][:2], 10**9, *values["words"][row][3:]]
    assembly = EngineAssembly(parts.base())
    assembly.add(changed(values, "words", row, cells))
    refuses(assembly.build, "table '0 starts'", "found 1000000000, expected a number from 0 to")


def test_an_engine_is_built_once() -> None:
    assembly = EngineAssembly(partition(running(KLEENE)).base())
    assembly.build()
    with pytest.raises(fc.ValidationError, match="has built its engine; start another assembly"):
        assembly.build()


def test_what_does_not_fit_is_refused_before_any_state() -> None:
    base = partition(running(KLEENE)).base()
    refuses(lambda: EngineAssembly(base, {"queries": query(UNKEYED)}), "the snapshot is of other queries")
    refuses(lambda: EngineAssembly(base[:-1]), "base of a migration: is truncated")
    refuses(lambda: EngineAssembly(running(KLEENE).snapshot()), "the base of a migration does not fit")
    refuses(lambda: fc.Engine.restore(base), "partial_states")
    header, tables = unpack(base)
    for name, facts, words in [
        ("identity", "other", "plans these queries differently"),
        ("partial_states", header["partial_states"] | {"tables": [["0 starts", 1]]}, "other tables than its queries"),
        ("partial_states", header["partial_states"] | {"count": -1}, "partial_states.count"),
        ("position", -1, "position"),
        ("text", "QUERY", "cannot create an engine"),
    ]:
        refuses(partial(EngineAssembly, pack(header | {name: facts}, tables)), words)
    with pytest.raises(fc.ValidationError, match="threads"):
        EngineAssembly(base, {"threads": 0})


def test_a_base_with_missing_texts() -> None:
    base = partition(running("PATTERN SEQ(A a, NEG B n, C c) WHERE [s] WITHIN 40ns")).base()
    header, tables = unpack(base)
    assert "text numbers" in tables
    refuses(lambda: EngineAssembly(pack(header, {name: table for name, table in tables.items() if name != "texts"})),
            "does not fit together")  # fmt: skip


@pytest.mark.thorough
def test_a_function_must_be_registered() -> None:
    @fc.function("int64(int64)")
    def only_at_the_old_host(value: Any) -> Any:
        return value

    engine = running("PATTERN SEQ(A a, B b) WHERE only_at_the_old_host(a.v) = b.v WITHIN 20ns")
    base = partition(engine).base()
    fc.functions()["only_at_the_old_host"].unregister()
    refuses(lambda: EngineAssembly(base), "cannot create an engine for the snapshot", "only_at_the_old_host")


def test_a_memory_limit_of_the_new_host() -> None:
    engine = running("PATTERN SEQ(A a, B b) WITHIN 200ns", store="rows")
    parts = partition(engine)
    assembly = EngineAssembly(parts.base(), {"memory_limit": "64KiB"})
    send(parts, assembly, list(range(len(parts.states))), random.Random(1))
    built = assembly.build()
    assert built.metrics()["live_partial_matches"] == len(parts.states)


def test_the_frame_is_the_first_row() -> None:
    batch = columns(partition(running(KLEENE)).encode(np.array([0])))
    assert batch["table"][0] == FRAME and FRAME not in batch["table"][1:]
    assert set(batch["state"]) == {0}
