"""Cut engines into partial states, send these in random order, and check what arrives."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from fastcep.engine.state.container import unpack
from fastcep.migration.partial_states.assembly import EngineAssembly
from fastcep.migration.partial_states.engine_partition import EnginePartition, partition
from fastcep.migration.partial_states.entries import FIXED, FRAME, SCHEMA
from fastcep.migration.partial_states.owners import WAYS
from fastcep.migration.states import Ints


def ways(engine: fc.Engine) -> list[str]:
    """Return the ways in which the state of an engine can be cut."""
    found = []
    for by in WAYS:
        try:
            partition(engine, by)
        except fc.ValidationError as error:
            assert "its state cannot be cut by " + by in str(error), error
        else:
            found.append(by)
    return found


def rebuilt(engine: fc.Engine, choices: random.Random, options: Mapping[str, Any]) -> fc.Engine:
    """Cut an engine in a random way, send all states in random order, and return the engine that is built from them."""
    parts = partition(engine, choices.choice(ways(engine)))
    assembly = EngineAssembly(parts.base(), options)
    send(parts, assembly, shuffled(len(parts.states), choices), choices)
    assert_same_snapshot(assembly.snapshot(), engine.snapshot())
    return assembly.build()


def shuffled(count: int, choices: random.Random) -> list[int]:
    """Return the numbers below ``count`` in random order."""
    return choices.sample(range(count), count)


def send(parts: EnginePartition, assembly: EngineAssembly, numbers: list[int], choices: random.Random) -> None:
    """Send states in this order, a random number at once; check the sizes."""
    sent = 0
    rest = numbers
    while rest:
        count = choices.choice([1, 1, 2, 3, len(rest)])
        part, rest = np.array(rest[:count]), rest[count:]
        batch = parts.encode(part)
        sent += payload(batch)
        assert assembly.add(batch).tolist() == sorted(part.tolist())
    assert sent <= int(parts.states.size[numbers].sum())


def payload(batch: bytes) -> int:
    """Return the bytes of the entries in a batch, counted one by one."""
    size = 0
    for row in pa.ipc.read_record_batch(pa.py_buffer(batch), SCHEMA).to_pylist():
        if row["table"] != FRAME:
            size += FIXED + 8 * len(row["words"]) + sum(4 + len(text.encode()) for text in row["texts"])
    return size


def assert_same_snapshot(found: bytes, expected: bytes) -> None:
    """Check that two snapshots have the same content."""
    (header, tables), (other_header, other_tables) = unpack(found), unpack(expected)
    assert header == other_header
    assert set(tables) == set(other_tables)
    for name, table in tables.items():
        assert list(table) == list(other_tables[name]), name
        for column, values in table.items():
            assert same(values, other_tables[name][column]), (name, column, values, other_tables[name][column])


def same(values: Any, others: Any) -> bool:
    if isinstance(values, pa.Array):
        return bool(values.equals(others))
    return values.dtype == others.dtype and values.tobytes() == others.tobytes()


def assert_exact_sizes(engine: fc.Engine, by: str, numbers: Ints) -> None:
    """Check that each of these states, sent alone, has exactly its size."""
    for number in numbers.tolist():
        parts = partition(engine, by)
        assert payload(parts.encode(np.array([number]))) == parts.states.size[number], (by, number)
