import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.errors import ValidationError
from fastcep.events import EventBatch, EventRing, Schema, StringTable

SCHEMA = Schema({"A": {"x": "int64", "y": "float64", "z": "int64"}, "B": {}}, type="type")


def batch(start, n, nulls=()):
    rows = range(start, start + n)
    data = {
        "ts": [10 * i for i in rows],
        "type": ["AB"[i % 2] for i in rows],
        "x": [None if i in nulls else i for i in rows],
        "y": [i / 2 for i in rows],
        "z": [0] * n,
    }
    return EventBatch.from_data(SCHEMA, data, StringTable())


def check(ring, nulls=()):
    positions = np.arange(ring.head, ring.tail)
    assert ring.take("time", positions)[0].tolist() == (10 * positions).tolist()
    assert ring.take("seq", positions)[0].tolist() == positions.tolist()
    assert ring.take("type", positions)[0].tolist() == (positions % 2).tolist()
    assert ring.take(1, positions)[0].tolist() == (positions / 2).tolist()
    values, missing = ring.take(0, positions)
    expected = np.isin(positions, list(nulls))
    assert values.tolist() == np.where(expected, 0, positions).tolist()
    assert (missing is None and not expected.any()) or missing.tolist() == expected.tolist()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12)), max_size=12), st.sets(st.integers(0, 60)))
def test_holds_what_was_appended_and_not_reclaimed(steps, nulls):
    ring = EventRing([0, 1], SCHEMA, capacity=3)
    head = tail = 0
    for n, free in steps:
        ring.append(batch(tail, n, nulls))
        tail += n
        check(ring, nulls)
        ring.reclaim(head + free)
        head = min(head + free, tail)
        assert (ring.head, ring.tail, len(ring)) == (head, tail, tail - head)
        check(ring, nulls)
        assert ring.capacity & (ring.capacity - 1) == 0


def test_wraps_without_growing():
    ring = EventRing([0, 1], SCHEMA, capacity=8)
    before = ring.nbytes
    for start in range(0, 60, 6):
        ring.append(batch(start, 6, {7, 13}))
        check(ring, {7, 13})
        ring.reclaim(ring.tail)
    assert ring.capacity == 8 and ring.nbytes == before


def test_positions_outside():
    ring = EventRing([0], SCHEMA)
    ring.append(batch(0, 5))
    ring.reclaim(2)
    ring.reclaim(1)
    assert ring.head == 2
    for wrong in (1, 5, -1):
        with pytest.raises(IndexError, match=f"position {wrong} "):
            ring.take(0, np.array([3, wrong]))
    assert len(ring.take(0, [])[0]) == 0


def test_raw_buffers():
    ring = EventRing([1], SCHEMA, capacity=4)
    ring.append(batch(0, 3))
    ring.reclaim(2)
    ring.append(batch(3, 2))
    values, nulls = ring.arrays(1)
    assert len(values) == len(nulls) == ring.capacity == 4 and nulls.dtype == np.uint8
    assert values[4 & 3] == 2.0
    for name, dtype in (("time", np.int64), ("seq", np.int64), ("type", np.uint16)):
        values, nulls = ring.arrays(name)
        assert values.dtype == dtype and not nulls.any()
    with pytest.raises(KeyError, match="does not keep column 0"):
        ring.arrays(0)


def test_sequence_of_the_data():
    schema = Schema({"A": {}}, sequence="n")
    ring = EventRing([], schema)
    ring.append(EventBatch.from_data(schema, {"ts": [1, 2], "n": [5, 9]}, StringTable()))
    assert ring.take("seq", [0, 1])[0].tolist() == [5, 9]


def test_other_schema_and_pickle():
    ring = EventRing([0, 1], SCHEMA)
    ring.append(batch(0, 5, {3}))
    with pytest.raises(ValidationError, match="different schema"):
        ring.append(EventBatch.from_data(Schema({"A": {}}), {"ts": [1]}, StringTable()))
    check(pickle.loads(pickle.dumps(ring)), {3})


def test_put_restores_older_events():
    """Restored events have their old values; attributes at positions between them are null."""
    ring = EventRing([0, 1, 2], SCHEMA, capacity=16)
    ring.append(batch(0, 16))
    kept = ring.rows(np.array([9, 12]))
    ring.reclaim(16)
    ring.append(batch(16, 12, nulls={20}))
    ring.reclaim(14)
    ring.put(kept)
    assert (ring.head, ring.tail, ring.capacity) == (9, 28, 32)
    for position in (9, 12):
        assert ring.take(0, [position])[0].tolist() == [position]
        assert ring.take(1, [position])[0].tolist() == [position / 2]
    assert ring.take(0, [10, 11, 13])[1].tolist() == [1, 1, 1]
    assert ring.take(0, range(16, 28))[0].tolist() == [0 if at == 20 else at for at in range(16, 28)]
    assert np.flatnonzero(ring.take(0, range(16, 28))[1]).tolist() == [4]
    ring.append(batch(28, 4))
    assert ring.take(0, range(28, 32))[0].tolist() == [28, 29, 30, 31]
