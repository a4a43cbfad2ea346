"""``on_memory_limit="shed"``: a shedder drops partial matches that exceed the limit, without an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.shedding.shed_runs import SCHEMA, found

import fastcep as fc
from fastcep import shedding
from fastcep.errors import MemoryLimitError, ValidationError
from fastcep.shedding import MemoryUse

TEXT = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND b.ID = c.ID AND a.V > b.V WITHIN 4ms"
QUERY = fc.parse(TEXT, SCHEMA, name="q")
STEP = 200


@pytest.fixture(scope="module")
def stream() -> pa.Table:
    draw = np.random.default_rng(3)
    types = draw.choice(list("ABC"), 10_000, p=[0.49, 0.49, 0.02])
    ids, values = draw.integers(0, 100, 10_000), draw.integers(0, 10, 10_000)
    return pa.table({"type": pa.array(types), "ts": np.arange(10_000), "ID": ids, "V": values})


@pytest.fixture(scope="module")
def truth(stream: pa.Table) -> set[tuple[Any, ...]]:
    return set(found(fc.Engine(QUERY, index="key").process(stream)))


def run(stream: pa.Table, limit: int, shedder: str | None, **options: Any) -> tuple[fc.Engine, list[Any], int]:
    """Return the engine, its matches, and the number of batches with an error; check that it stays below the limit."""
    own = {} if shedder is None else {"on_memory_limit": "shed", "shedder": shedding.by_name(shedder)}
    live = fc.Engine(QUERY, memory_limit=limit, index="key", clock="virtual", cost_table="paper", **own, **options)
    matches, errors = [], 0
    for first in range(0, len(stream), STEP):
        try:
            matches += found(live.process(stream.slice(first, STEP)))
        except MemoryLimitError as error:
            matches += found(error.matches)
            errors += 1
        assert live.metrics()["memory_bytes"] <= limit
    return live, matches, errors


@pytest.mark.thorough
@pytest.mark.parametrize("shedder", ["ri", "rs", "pm-bl"])
@pytest.mark.parametrize("limit", [300_000, 400_000, 500_000])
def test_an_engine_goes_on_where_it_would_raise(
    stream: pa.Table, truth: set[tuple[Any, ...]], limit: int, shedder: str
) -> None:
    _, without, errors = run(stream, limit, None)
    assert errors >= 1
    live, matches, errors = run(stream, limit, shedder)
    assert errors == 0
    assert len(set(matches)) == len(matches) < len(truth) and set(matches) <= truth
    told = live.metrics()["shedding"]
    assert told["detectors"] == ["memory"] and told["episodes"] >= 1
    assert told["dropped_events"] + told["dropped_partial_matches"] > 0
    if shedder != "ri":  # dropping events frees no memory at once
        assert live.metrics()["dropped_partial_matches"] == 0
        assert len(matches) > len(without)


@pytest.mark.parametrize("shedder", ["rs", "pm-bl"])
def test_the_estimated_recall_knows_what_was_dropped_at_once(
    stream: pa.Table, truth: set[tuple[Any, ...]], shedder: str
) -> None:
    live, matches, _ = run(stream, 400_000, shedder)
    assert live.metrics()["shedding"]["estimated_recall"] == pytest.approx(len(matches) / len(truth), abs=0.2)


def test_what_is_held_is_why(stream: pa.Table) -> None:
    live, _, _ = run(stream.slice(0, 4000), 400_000, "rs")
    told = live.metrics()["shedding"]
    assert told["active"]
    assert told["why"].endswith("bytes are held, limit 360,000 (0.9 of memory_limit)")


def test_nothing_is_shed_while_there_is_room(stream: pa.Table, truth: set[tuple[Any, ...]]) -> None:
    live, matches, errors = run(stream, 4_000_000, "rs")
    assert set(matches) == truth and errors == 0
    told = live.metrics()["shedding"]
    assert (told["episodes"], told["dropped_partial_matches"], told["estimated_recall"]) == (0, 0, 1)


def test_an_episode_ends_when_the_memory_is_free_again(stream: pa.Table) -> None:
    """The arrival rate falls to a hundredth."""
    times = np.concatenate([np.arange(5000), 5000 + np.arange(5000) * 100])
    slow = stream.set_column(stream.column_names.index("ts"), "ts", pa.array(times))
    live, _, _ = run(slow, 400_000, "rs")
    told = live.metrics()["shedding"]
    assert told["episodes"] == 1 and not told["active"] and told["demand"] == 0


def test_latency_and_memory_are_held_together(stream: pa.Table, truth: set[tuple[Any, ...]]) -> None:
    for bound, why in ((1e6, "bytes are held"), (3, "processing latency")):
        live, matches, errors = run(stream.slice(0, 4000), 400_000, "rs", latency_bound=bound)
        assert errors == 0 and set(matches) <= truth
        assert live.metrics()["shedding"]["detectors"] == ["latency", "queue", "memory"]
        assert why in live.metrics()["shedding"]["why"]


def test_a_snapshot_goes_on_with_memory_control(stream: pa.Table) -> None:
    whole, _, _ = run(stream, 480_000, "rs")
    live, _, _ = run(stream.slice(0, 5000), 480_000, "rs")
    again = fc.Engine.restore(live.snapshot(), shedder=shedding.by_name("rs"))
    for first in range(5000, len(stream), STEP):
        again.process(stream.slice(first, STEP))
        assert again.metrics()["memory_bytes"] <= 480_000
    assert again.metrics()["dropped_partial_matches"] == whole.metrics()["dropped_partial_matches"] == 0
    assert again.metrics()["shedding"]["dropped_partial_matches"] > 0


def test_shedding_for_memory_needs_a_shedder_and_a_limit() -> None:
    live = fc.Engine(QUERY, memory_limit="1MiB", on_memory_limit="shed", clock="virtual")
    assert live.metrics()["shedding"]["shedder"] == "auto"
    with pytest.raises(ValidationError, match="on_memory_limit='shed' needs a shedder"):
        fc.Engine(QUERY, memory_limit="1MiB", on_memory_limit="shed", shedder=None)
    with pytest.raises(ValidationError, match="on_memory_limit='shed' needs memory_limit"):
        fc.Engine(QUERY, on_memory_limit="shed", shedder=shedding.by_name("rs"))
    with pytest.raises(ValidationError, match="detector 'memory' has no limit"):
        fc.Engine(QUERY, latency_bound="1ms", shedder=shedding.by_name("rs"), detector=MemoryUse())
