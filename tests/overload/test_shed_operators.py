"""Shedding with every store and operator; a monotonic query has no false matches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from support.shedding.shed_runs import BASELINES, OF_MATCHES, SAME, assert_within, engine, found, mean, query

from fastcep import shedding
from fastcep.datasets import ds1
from fastcep.shedding import RandomEvents, RandomMatches


@pytest.fixture(scope="module")
def stream() -> pa.Table:
    return ds1(events=10_000, seed=11)


def test_events_are_dropped_from_the_factorised_store(stream: pa.Table) -> None:
    text = f"PATTERN {SAME} WITHIN 2ms"
    plain = engine(query(text), store="factorised", index="full")
    truth = found(plain.process(stream))
    live = engine(query(text), RandomEvents(), mean(plain) / 2, store="factorised", index="full")
    matches = found(live.process(stream))
    assert_within(matches, truth)
    assert 0 < len(matches) < len(truth)
    assert mean(live) < 0.6 * mean(plain)
    assert live.metrics()["queries"]["q1"]["store"] == "factorised"


@pytest.mark.thorough
@pytest.mark.parametrize("name", BASELINES)
def test_skip_till_next_match(stream: pa.Table, name: str) -> None:
    """It runs; without monotonicity nothing is guaranteed about the matches."""
    text = f"PATTERN {SAME} WITHIN 2ms STRATEGY skip_till_next"
    plain = engine(query(text))
    plain.process(stream)
    live = engine(query(text), shedding.by_name(name), mean(plain) / 2)
    assert len(live.process(stream)) > 0
    assert live.metrics()["shedding"]["episodes"] >= 1
    assert mean(live) < 0.7 * mean(plain)
    live.flush()
    assert live.metrics()["live_partial_matches"] == 0


NEGATED = {
    "between": "SEQ(A a, NEG D d, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND d.ID = a.ID WITHIN 2ms",
    "at the end": "SEQ(A a, B b, NEG D d) WHERE a.ID = b.ID AND d.ID = a.ID AND d.V = a.V WITHIN 2ms",
    "in windows": "SEQ(A a, B b, NEG D d) WHERE a.ID = b.ID AND d.ID = a.ID WINDOW OPEN ON A o CLOSE AFTER 500us",
    "at the begin": "SEQ(NEG D d, A a, B b) WHERE a.ID = b.ID AND d.ID = a.ID WINDOW OPEN ON C o CLOSE AFTER 500us",
    "Kleene": "SEQ(A a, NEG D d, B+ k[], C c) WHERE a.ID = k[i].ID AND c.ID = a.ID AND d.ID = a.ID AND k[i].V = a.V "
    "WITHIN 2ms",
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", OF_MATCHES)
@pytest.mark.parametrize("kind", NEGATED)
def test_dropped_partial_matches_bring_no_match_that_negation_forbids(stream: pa.Table, kind: str, name: str) -> None:
    text = f"PATTERN {NEGATED[kind]}"
    plain = engine(query(text))
    truth = set(found(plain.process(stream.slice(0, 6000))) + found(plain.flush()))
    live = engine(query(text), shedding.by_name(name), mean(plain) / 2)
    parts = [live.process(block) for block in stream.slice(0, 6000).to_batches(max_chunksize=777)]
    matches = {match for part in (*parts, live.flush()) for match in found(part)}
    assert live.metrics()["shedding"]["dropped_partial_matches"] > 0
    assert matches < truth and matches
    assert live.metrics()["live_partial_matches"] == live.metrics()["waiting_matches"] == 0


def test_what_is_shed_does_not_time_out(stream: pa.Table) -> None:
    """The timed-out partial matches are a subset of those without shedding."""
    text = f"PATTERN {SAME} WITHIN 1ms"
    plain = engine(query(text), timed_out=True)
    live = engine(query(text), RandomMatches(), 1, timed_out=True)
    rows = []
    for one in (plain, live):
        one.process(stream.slice(0, 5000))
        one.flush()
        rows.append([(row["timed_out_at"], row["a"], row["b"]) for row in one.timed_out().to_pylist()])
    assert_within(rows[1], rows[0])
    assert 0 < len(rows[1]) < len(rows[0])


def test_calls_without_events(stream: pa.Table) -> None:
    live = engine(query(), RandomMatches(), 4)
    live.process(stream.slice(0, 5000))
    before = live.metrics()["shedding"]
    live.process(stream.slice(0, 0))
    live.process(stream.slice(0, 0), arrivals=np.zeros(0, np.int64))
    assert live.metrics()["shedding"] == before
    live.advance((stream["ts"][4999].as_py() + 5000) * 1000)
    assert live.metrics()["live_partial_matches"] == 0
    assert live.metrics()["shedding"] == before
