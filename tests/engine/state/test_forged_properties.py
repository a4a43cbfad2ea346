"""Snapshots forged in any field, with correct checksums: rejected by `SnapshotError`, or loaded without harm."""

from __future__ import annotations

import functools
import zlib

import pytest
from conftest import EXAMPLES
from support.forged_engines import EVENTS, KINDS, go_on, made, restored, stream
from support.forging import forge_snapshot, forgeries

from fastcep.errors import SnapshotError

SEED = 26
#: Number of forgeries for each kind of engine.
COUNT = max(5, EXAMPLES // 4)


@functools.cache
def snapshot_of(name: str) -> bytes:
    return made(KINDS[name]).snapshot()


def seed_of(name: str) -> int:
    return SEED + zlib.crc32(name.encode()) % 1000


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", KINDS)
def test_what_is_not_forged_is_taken(name: str) -> None:
    kind = KINDS[name]
    engine = restored(kind, snapshot_of(name))
    assert engine is not None
    assert engine.metrics()["live_partial_matches"] > 0 or "factorised" in name
    go_on(kind, engine)


@pytest.mark.sample(7)
@pytest.mark.property
@pytest.mark.parametrize("name", KINDS)
def test_forged(name: str) -> None:
    kind, data, taken = KINDS[name], snapshot_of(name), 0
    for forged, change in forgeries(COUNT, seed_of(name), lambda draw: forge_snapshot(data, draw)):
        try:
            engine = restored(kind, forged)
            if engine is not None:
                taken += 1
                go_on(kind, engine)
        except Exception as error:
            raise AssertionError(change) from error
    assert taken < COUNT, "nothing was refused"


@pytest.mark.property
@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.groups])
def test_forged_groups_are_merged(name: str) -> None:
    """An engine that rejects a part has not changed."""
    kind, whole = KINDS[name], snapshot_of(name)

    def parted():  # type: ignore[no-untyped-def]
        engine = restored(kind, whole)
        assert engine is not None
        return engine, engine.extract(range(32))

    plain, part = parted()
    expected = plain.process(stream(kind, EVENTS, EVENTS + 20)).to_arrow()
    for forged, change in forgeries(COUNT, seed_of(name), lambda draw: forge_snapshot(part, draw)):
        engine, _ = parted()
        try:
            try:
                engine.merge(forged)
            except SnapshotError:
                assert engine.process(stream(kind, EVENTS, EVENTS + 20)).to_arrow() == expected
            go_on(kind, engine)
        except Exception as error:
            raise AssertionError(change) from error
