"""A small operator with partial states: it counts events by key, and returns each key with its count so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.errors import DataError, SnapshotError
from fastcep.migration import States

SCHEMA = pa.schema([("number", pa.int64()), ("key", pa.int64()), ("count", pa.int64()), ("filling", pa.binary())])
STRUCTURE = 700  # bytes of an IPC stream with one state, without the filling


class Counter:
    """Counts events by key; the state of a key has a filling, so that it can have any size."""

    def __init__(self, position: int = 0) -> None:
        self.counts: dict[int, int] = {}
        self.fillings: dict[int, bytes] = {}
        self.position = position

    def process(self, data: Any, start: int = 0) -> list[tuple[int, int]]:
        keys = pa.table(data)["key"].to_pylist()
        if None in keys:
            raise DataError("key: null, expected a number")
        matches = []
        for key in keys:
            self.counts[key] = self.counts.get(key, start) + 1
            matches.append((key, self.counts[key]))
        self.position += len(keys)
        return matches

    @property
    def state(self) -> tuple[int, dict[int, int], dict[int, bytes]]:
        return self.position, dict(self.counts), dict(self.fillings)


class CounterStates:
    """The state of a counter; a partial state is a key."""

    kind = "counter"

    def __init__(self, counter: Counter, utility: Mapping[int, float] | None = None) -> None:
        self.position = counter.position
        self.keys = sorted(counter.counts)
        self._counts, self._fillings = dict(counter.counts), dict(counter.fillings)
        sizes = [STRUCTURE + len(self._fillings.get(key, b"")) for key in self.keys]
        utilities = [1.0 if utility is None else utility[key] for key in self.keys]
        self.states = States(sizes, utilities)
        self.encoded: list[int] = []

    def base(self) -> bytes:
        return b"base %d" % self.position

    def encode(self, numbers: Any) -> bytes:
        self.encoded += numbers.tolist()
        keys = [self.keys[number] for number in numbers.tolist()]
        columns = [numbers, keys, [self._counts[key] for key in keys], [self._fillings.get(key, b"") for key in keys]]
        batch = pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, SCHEMA) as writer:
            writer.write_batch(batch)
        return sink.getvalue().to_pybytes()


class CounterAssembly:
    """Collects the keys of a counter."""

    def __init__(self, base: bytes, options: Mapping[str, Any]) -> None:
        if not base.startswith(b"base "):
            raise SnapshotError("the base is no counter")
        self._counter = Counter(int(base[5:]))
        self._options = options

    def add(self, batch: bytes | memoryview) -> Any:
        try:
            table = pa.ipc.open_stream(pa.py_buffer(batch)).read_all()
        except (pa.ArrowException, OSError) as error:
            raise SnapshotError(f"no states of a counter: {error}") from None
        for _, key, count, filling in zip(*(column.to_pylist() for column in table.columns), strict=True):
            self._counter.counts[key] = count
            if filling:
                self._counter.fillings[key] = filling
        return np.array(table["number"], np.int64)

    def build(self) -> Counter:
        if "build_error" in self._options:
            raise SnapshotError(self._options["build_error"])
        return self._counter


ASSEMBLIES = {"counter": CounterAssembly}


def filled(keys: int, size: int = 0, seed: int = 0) -> Counter:
    """Return a counter with keys 0, 1, … and random fillings of a mean size."""
    random = np.random.default_rng(seed)
    counter = Counter()
    for key in range(keys):
        counter.counts[key] = int(random.integers(1, 100))
        if size:
            counter.fillings[key] = random.bytes(int(random.integers(1, 2 * size)))
    counter.position = sum(counter.counts.values())
    return counter


def events(*keys: int) -> pa.Table:
    return pa.table({"key": pa.array(keys, pa.int64())})
