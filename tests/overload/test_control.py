"""Overload control of a real engine, on the virtual clock with the paper's cost table."""

from __future__ import annotations

import logging
import re
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.shedding.shed_runs import BASELINES, OF_MATCHES, Q1, SAME, assert_within, engine, found, mean, query

import fastcep as fc
from fastcep import shedding
from fastcep.datasets import ds1
from fastcep.overload.episodes import Episodes
from fastcep.shedding import Classes, FixedClasses, RandomEvents, RandomMatches


@pytest.fixture(scope="module")
def stream() -> pa.Table:
    return ds1(events=10_000, seed=11)


# --------------------------------------------------------------- metrics

FIVE = {"type": ["A", "A", "B", "C", "D"], "ts": [0, 1, 2, 3, 4], "ID": [1] * 5, "V": [1] * 5}


def test_latencies_are_those_counted_by_hand() -> None:
    """Two partial matches begin; both are visited and extended; both pairs are visited without a match; nothing."""
    live = engine(query())
    told: list[list[float]] = []
    live.listen(lambda processing, event: told.append([*processing, -1, *event]))
    live.process(FIVE)
    assert told == [[1, 1, 4, 2, 0, -1, 1, 1, 4, 2, 0]]
    assert live.now() == 8
    shed = live.metrics()["shedding"]
    assert shed["processing_latency"] == shed["event_latency"]
    assert shed["processing_latency"] == {
        "count": 5, "mean": 1.6, "p50": 1, "p95": 4, "p99": 4, "p999": 4, "max": 4, "mean_while_shedding": 0,
    }  # fmt: skip


def test_event_latency_has_the_time_in_the_queue() -> None:
    """Events are complete at 1, 2, 6, 12 and 12."""
    live = engine(query())
    told: list[list[float]] = []
    live.listen(lambda processing, event: told.append(event.tolist()))
    live.process(FIVE, arrivals=[0, 0, 0, 10, 10])
    assert told == [[1, 2, 6, 2, 2]]
    assert live.now() == 12
    shed = live.metrics()["shedding"]
    assert (shed["event_latency"]["mean"], shed["event_latency"]["max"]) == (2.6, 6)
    assert shed["processing_latency"]["mean"] == 1.6


NO_MATCHES = {
    "found": 0.0, "expected": 0.0, "expected_interval": [0.0, 0.0], "estimated_recall": None,
    "estimated_recall_interval": None,
}  # fmt: skip


def test_metrics_of_an_engine_that_sheds_nothing() -> None:
    live = engine(query(), RandomMatches(), 50)
    live.process(FIVE)
    shed = live.metrics()["shedding"]
    assert set(shed.pop("processing_latency")) == set(shed.pop("event_latency"))
    assert shed == {
        "clock": "virtual", "cost_table": {"name": "paper", "hash": live.metrics()["shedding"]["cost_table"]["hash"]},
        "latency_bound": 50.0, "shedder": "rs", "model": {}, "detectors": ["latency", "queue"], "active": False,
        "why": "", "since": None, "episodes": 0, "estimated_recall": 1.0, "estimated_recall_interval": None,
        "matches": NO_MATCHES, "recent_matches": NO_MATCHES, "demand": 0.0, "asleep": False, "decisions": 0,
        "overhead": 0.0, "decision_time": {"mean": 0.0, "max": 0.0}, "dropped_events": 0, "dropped_in_windows": 0,
        "dropped_windows": 0,
        "dropped_partial_matches": 0, "passed_over": 0, "backlog_limited": 0,
        "queries": {"q1": {
            "kept": 1.0, "dropped_events": dict.fromkeys("ABCD", 0), "withheld": {}, "matches": NO_MATCHES,
            "recent_matches": NO_MATCHES,
            "partial_matches": {
                "a": {"born": [2], "refused": [0], "dropped": [0]}, "b": {"born": [2], "refused": [0], "dropped": [0]},
            },
        }},
    }  # fmt: skip
    assert fc.Engine(query()).metrics()["shedding"] is None


def test_metrics_while_it_sheds(stream: pa.Table) -> None:
    live = engine(query(), RandomEvents(), 4)
    live.process(stream)
    shed = live.metrics()["shedding"]
    assert shed["active"] and shed["episodes"] == 1 and 0 < shed["since"] < live.now()
    assert shed["why"].startswith("processing latency (mean) ") and shed["why"].endswith("set point 3.94ns")
    assert 0 < shed["demand"] < 1 and 0 < shed["estimated_recall"] < 1
    own = shed["queries"]["q1"]
    assert 0 < own["kept"] < 1
    assert shed["dropped_events"] == sum(own["dropped_events"].values()) > 0
    assert own["dropped_events"]["D"] == shed["dropped_partial_matches"] == shed["dropped_in_windows"] == 0


def test_mean_latency_while_load_is_shed(stream: pa.Table) -> None:
    """It is that of the events between two decisions of which the first has a demand, also after a restart."""
    live, stretches = engine(query(), RandomEvents(), 8), list[tuple[int, float, np.ndarray]]()

    def note(processing: np.ndarray, _: np.ndarray) -> None:
        shed = live.metrics()["shedding"]
        stretches.append((shed["decisions"], shed["demand"], processing.copy()))

    for first in range(0, len(stream), 2_600):
        live.listen(note)
        live.process(stream.slice(first, 2_600))
        live = fc.Engine.restore(live.snapshot(), shedder=RandomEvents())
    shed = live.metrics()["shedding"]
    demands = [demand for _, demand, _ in stretches]
    assert min(demands[len(demands) // 4 :]) == 0 < max(demands)
    judged = [values for decisions, demand, values in stretches if demand > 0 and decisions < shed["decisions"]]
    assert shed["processing_latency"]["mean_while_shedding"] == pytest.approx(np.concatenate(judged).mean(), rel=1e-12)


@pytest.mark.parametrize(("events", "apart"), [(800, 100), (80, 32), (40_000, 5_000), (100_000, 4096)])
def test_decisions_are_an_eighth_of_a_window_apart(
    stream: pa.Table, events: int, apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if apart == 4096:  # largest number of events between two decisions
        monkeypatch.setattr("fastcep.overload.decision_schedule.MOST_EVENTS", apart)
    live = engine(query(f"PATTERN {SAME} AND a.V + b.V = c.V WITHIN {events} EVENTS"), RandomMatches())
    for block in stream.to_batches(max_chunksize=333):
        live.process(block)
    assert live.metrics()["shedding"]["decisions"] == len(stream) // apart


def test_what_fixed_classes_refuse_is_counted_by_class(stream: pa.Table) -> None:
    classes = {"b": Classes(("a.V + b.V",), (2,), np.array([0, 1, 2] * 6 + [0], np.uint8))}
    born = {}
    for chance in (0.0, 1.0):
        live = engine(query(), FixedClasses(classes, {"b": [0, chance, 0]}), 0.001)
        live.process(stream)
        shed = live.metrics()["shedding"]
        born[chance] = shed["queries"]["q1"]["partial_matches"]
        assert shed["dropped_partial_matches"] == sum(map(sum, (own["refused"] for own in born[chance].values())))
    plain, shed = born[0.0]["b"], born[1.0]["b"]
    assert plain["refused"] == [0, 0, 0] and plain["dropped"] == shed["dropped"] == [0, 0, 0]
    assert shed["refused"][1] > 100 and shed["refused"][::2] == [0, 0]
    assert [one + other for one, other in zip(shed["born"], shed["refused"], strict=True)] == plain["born"]
    begun = Counter(stream["type"].to_pylist())["A"]
    assert born[0.0]["a"] == born[1.0]["a"] == {"born": [begun, 0, 0], "refused": [0] * 3, "dropped": [0] * 3}


# --------------------------------------------------------------- episodes


def bursts(stream: pa.Table) -> pa.Table:
    """Return the stream with every other quarter stretched to thirty times its duration."""
    gaps = np.diff(stream["ts"].to_numpy(), prepend=0)
    quarter = np.arange(len(gaps)) * 4 // len(gaps)
    times = pa.array(np.cumsum(np.where(quarter % 2, gaps * 30, gaps)))
    return stream.set_column(stream.column_names.index("ts"), "ts", times)


@pytest.mark.parametrize("name", ["rs", "ri"])
def test_episodes_close_together_are_told_as_one(stream: pa.Table, name: str, caplog: pytest.LogCaptureFixture) -> None:
    live = engine(query(), shedding.by_name(name), 6)
    with caplog.at_level(logging.INFO, "fastcep.shedding"):
        live.process(bursts(stream))
        assert live.metrics()["shedding"]["episodes"] == 2 and not live.metrics()["shedding"]["active"]
        assert len(caplog.records) == 1
        live.flush()
    start, end = caplog.records
    assert (start.levelname, end.levelname) == ("WARNING", "INFO")
    assert start.getMessage().startswith("load is shed: ") and "set point 5.91ns" in start.getMessage()
    line, shed = end.getMessage(), live.metrics()["shedding"]
    assert line.startswith("load was shed for ") and "set point 5.91ns" in line and "estimated recall 0." in line
    numbers = [int(line.split(f" {what}")[0].split()[-1].replace(",", "")) for what in ("events", "partial matches")]
    assert numbers == [shed["dropped_events"], shed["dropped_partial_matches"]]


SECOND = 1_000_000_000


def test_episodes_far_from_each_other_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    episodes, now = Episodes(), 0
    with caplog.at_level(logging.INFO, "fastcep.shedding"):
        for step, sheds in ((1, True), (9 * SECOND, False), (1, True), *[(SECOND, False)] * 11, (1, True)):
            now += step
            for _ in range(1 if sheds else 8):
                episodes.record_decision(now, sheds, "too much", 1 / 8, (0, 0), lambda: (3, 4))
        episodes.end(lambda: (3, 4))
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING", "INFO"]
    assert caplog.messages[1] == (
        "load was shed for 9 s: too much; dropped 3 events and 4 partial matches; estimated recall n/a"
    )


def test_a_bound_that_cannot_be_held_is_told_once(stream: pa.Table, caplog: pytest.LogCaptureFixture) -> None:
    """A shedder of partial matches cannot save the fixed cost of an event."""
    live = fc.Engine(query(), clock="virtual", cost_table="paper", latency_bound=0.01, shedder=RandomMatches())
    live.process(stream)
    before = [record.levelname for record in caplog.records]
    live.process(
        stream.set_column(stream.column_names.index("ts"), "ts", pc.add(stream["ts"], pc.add(pc.max(stream["ts"]), 1)))
    )
    live.flush()
    assert before == ["WARNING", "WARNING"] and caplog.messages[:2] == caplog.messages
    cost = re.fullmatch(
        r"the latency bound of 0.01 ns cannot be held: with all shed that the shedder can, an event costs at least "
        r"([0-9.]+) ns; give a larger bound, a simpler query, or a shedder that drops events", caplog.messages[1]
    )  # fmt: skip
    assert cost is not None and float(cost[1]) > 0.01


def test_flush_ends_the_episode(stream: pa.Table, caplog: pytest.LogCaptureFixture) -> None:
    live = engine(query(), RandomMatches(), 4)
    with caplog.at_level(logging.INFO, "fastcep.shedding"):
        live.process(stream)
        assert live.metrics()["shedding"]["active"] and len(caplog.records) == 1
        live.flush()
    assert len(caplog.records) == 2 and not live.metrics()["shedding"]["active"]


# --------------------------------------------------------------- windows

CHOSEN = f"PATTERN {SAME} AND a.V + b.V = c.V"
WINDOWS = {
    "count": f"{CHOSEN} WITHIN 300 EVENTS",
    "unbounded": f"{CHOSEN} AND a.V = 3 AND b.V = 4 WITHIN UNBOUNDED",
    "shared": f"{CHOSEN} WINDOW OPEN ON A o CLOSE AFTER 1ms",
    "isolated": f"{CHOSEN} WINDOW OPEN ON A o CLOSE AFTER 1ms LIMIT 1000000 PER WINDOW",
    "by events": f"{CHOSEN} WINDOW EVERY 100 EVENTS CLOSE AFTER 300 EVENTS",
}


@pytest.fixture(scope="module")
def unshed(stream: pa.Table) -> dict[str, tuple[list[tuple[Any, ...]], float]]:
    told = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engines = {kind: engine(query(text)) for kind, text in WINDOWS.items()}
    for kind, live in engines.items():
        told[kind] = found(live.process(stream.slice(0, 5000))), mean(live)
    return told


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:.*its state grows with the stream")
@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("kind", WINDOWS)
def test_every_baseline_sheds_in_every_window(
    stream: pa.Table, unshed: dict[str, tuple[list[tuple[Any, ...]], float]], kind: str, name: str
) -> None:
    truth, without = unshed[kind]
    live = engine(query(WINDOWS[kind]), shedding.by_name(name), without / 2)
    matches = found(live.process(stream.slice(0, 5000)))
    shed = live.metrics()["shedding"]
    explicit = kind not in ("count", "unbounded")
    assert_within(matches, truth)
    assert len(matches) < len(truth) and shed["episodes"] >= 1
    assert (shed["dropped_partial_matches"] > 0) == (name in OF_MATCHES)
    assert (shed["dropped_in_windows"] > 0) == (name == "bl" and explicit)
    assert (shed["dropped_events"] > 0) == (name not in OF_MATCHES and not (name == "bl" and explicit))
    assert ("isolated" in live.explain()) == (kind == "isolated" or (name == "bl" and explicit))


def test_an_event_is_kept_out_of_some_of_its_windows_only(stream: pa.Table) -> None:
    """With overlapping windows, some matches are in one window and missing from another."""
    text = WINDOWS["isolated"]
    live = engine(query(text), shedding.by_name("bl"), 8)
    windows = Counter(match[1:] for match in found(live.process(stream.slice(0, 5000))))
    whole = Counter(match[1:] for match in found(engine(query(text)).process(stream.slice(0, 5000))))
    assert any(0 < count < whole[match] for match, count in windows.items())


# --------------------------------------------------------------- several queries

PAIR = "PATTERN SEQ(A a, B b) WHERE a.ID = b.ID AND a.V > 2 AND b.V > 2 WITHIN 1ms"
TRIPLE = f"PATTERN {SAME} AND a.V > 2 AND b.V > 2 AND a.V + b.V = c.V WITHIN 2ms"


def two() -> list[fc.Query]:
    return [query(TRIPLE, "triple"), query(PAIR, "pair")]


@pytest.mark.thorough
@pytest.mark.parametrize("name", BASELINES)
def test_several_queries_share_a_shedder(stream: pa.Table, name: str) -> None:
    """With shared filters, every match of each query is true, and events dropped by type are dropped for both."""
    plain = engine(two())
    truth = plain.process(stream)
    live = engine(two(), shedding.by_name(name), mean(plain) / 2)
    parts = [live.process(block) for block in stream.to_batches(max_chunksize=700)]
    for of in ("triple", "pair"):
        matches = [match for part in parts for match in found(part, of)]
        assert_within(matches, found(truth, of))
        assert 0 < len(matches) < len(found(truth, of))
    triple, pair = (live.metrics()["shedding"]["queries"][of]["dropped_events"] for of in ("triple", "pair"))
    assert (triple["A"], triple["B"]) == (pair["A"], pair["B"])
    assert (triple["A"] > 0) == (name not in OF_MATCHES) and pair["C"] == 0


def test_an_event_costs_once_however_many_queries_there_are() -> None:
    table = fc.overload.costs.CostTable("events", event=5)
    live = engine(two(), cost_table=table)
    live.process(FIVE)
    assert live.now() == 25
    live.remove("triple")
    live.process(FIVE | {"ts": [5, 6, 7, 8, 9]})
    assert live.now() == 50


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["rs", "ri", "bl"])
def test_queries_come_and_go_while_load_is_shed(stream: pa.Table, name: str, caplog: pytest.LogCaptureFixture) -> None:
    live = engine(two(), shedding.by_name(name), 4)
    parts = [live.process(stream.slice(0, 4000))]
    before = live.metrics()["shedding"]
    assert before["active"]
    live.remove("pair")
    gone = live.metrics()["shedding"]
    assert list(gone["queries"]) == ["triple"]
    assert gone["queries"]["triple"] == before["queries"]["triple"]
    parts.append(live.process(stream.slice(4000, 2000)))
    live.add(query(PAIR, "pair"))
    parts.append(live.process(stream.slice(6000, 2000)))
    live.replace("pair", query(PAIR.replace("1ms", "2ms"), "longer"))
    parts.append(live.process(stream.slice(8000)))
    told = live.metrics()["shedding"]
    assert list(told["queries"]) == ["triple", "longer"]
    assert 0 < told["estimated_recall"] < 1
    truth = engine(two()).process(stream)
    assert_within([match for part in parts for match in found(part, "triple")], found(truth, "triple"))
    pairs = set(found(truth, "pair"))
    assert pairs >= {match for part in (parts[0], parts[2]) for match in found(part, "pair")}
    with caplog.at_level(logging.INFO, "fastcep.shedding"):
        live.flush()
    assert caplog.messages and not any(" -" in line for line in caplog.messages)


def test_the_estimate_survives_a_query_that_goes(stream: pa.Table, caplog: pytest.LogCaptureFixture) -> None:
    """Matches that the removed query found before shedding are not subtracted from those of the others."""
    gaps = np.diff(stream["ts"].to_numpy(), prepend=0)
    times = pa.array(np.cumsum(np.where(np.arange(len(gaps)) < 5000, gaps * 3, gaps)))
    late = stream.set_column(stream.column_names.index("ts"), "ts", times)
    live = engine([query(), query(PAIR, "pair")], RandomMatches(), 5)
    live.process(late.slice(0, 9000))
    before = live.metrics()["shedding"]
    assert before["active"] and before["estimated_recall"] < 1
    live.remove("pair")
    live.process(late.slice(9000))
    assert live.metrics()["shedding"]["estimated_recall"] == pytest.approx(before["estimated_recall"], abs=0.05)
    with caplog.at_level(logging.INFO, "fastcep.shedding"):
        live.flush()
    assert caplog.messages and not any(" -" in line for line in caplog.messages)


def test_counters_stay_when_key_groups_move(stream: pa.Table) -> None:
    keyed = query(Q1.replace("a.ID = b.ID AND a.ID = c.ID", "[ID]"))
    one, other = engine(keyed, RandomMatches(), 4), engine(keyed, RandomMatches(), 4)
    other.extract(range(64))
    for live in (one, other):
        live.process(stream.slice(0, 5000))
    before = one.metrics()["shedding"]
    assert before["active"] and before["dropped_partial_matches"] > 0
    other.merge(one.extract(range(32)))
    assert one.metrics()["shedding"] == before
    assert one.metrics()["shedding"]["queries"]["q1"]["kept"] < 1
    truth = engine(keyed).process(stream)
    matches = sorted(match for live in (one, other) for match in found(live.process(stream.slice(5000))))
    assert set(matches) <= set(found(truth))
    assert 0 < one.metrics()["shedding"]["estimated_recall"] <= 1
    assert 0 < other.metrics()["shedding"]["estimated_recall"] <= 1


def test_key_groups_move_only_between_engines_with_the_same_classes(stream: pa.Table) -> None:
    """A row carries the number of its class."""
    keyed = query(Q1.replace("a.ID = b.ID AND a.ID = c.ID", "[ID]"))
    tables = [np.array([0, 7], np.uint8), np.array([0, 1], np.uint8)]
    shedders = [FixedClasses({"b": Classes(("a.V",), (0,), of)}, {"b": [0] * (int(of.max()) + 1)}) for of in tables]
    one = engine(keyed, shedders[0])
    one.process(stream.slice(0, 2000))
    for shedder in (shedders[1], RandomMatches(), None):
        other = engine(keyed, shedder)
        other.extract(range(64))
        other.process(stream.slice(0, 2000))
        with pytest.raises(fc.SnapshotError, match="distinguishes partial matches differently"):
            other.merge(one.extract(range(8)))
        assert other.metrics()["live_partial_matches"] == 0
        one = engine(keyed, shedders[0])
        one.process(stream.slice(0, 2000))
    with pytest.raises(fc.SnapshotError, match="distinguishes partial matches differently"):
        fc.Engine.restore(one.snapshot(), shedder=shedders[1])
    again = fc.Engine.restore(one.snapshot(), shedder=shedders[0])
    assert again.metrics()["live_partial_matches"] == one.metrics()["live_partial_matches"] > 0


def test_a_shedder_learns_before_it_decides_and_rests_when_nothing_is_demanded(stream: pa.Table) -> None:
    calls: list[str] = []

    class Told(RandomMatches):
        def learn(self, views: Any) -> None:
            calls.append("learn")

        def decide(self, demand: float, before: float, views: Any) -> Any:
            calls.append("decide")
            return super().decide(demand, before, views)

        def stop_shedding(self) -> None:
            calls.append("rest")

    class Wanted(shedding.Detector):
        name = "wanted"
        amounts = iter([0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.3] + [0.0] * 1000)

        def read(self, load: Any) -> Any:
            return shedding.DetectorReading(0.0, amount=next(self.amounts))

        def spec(self) -> dict[str, Any]:
            return {}

    live = engine(query(), Told(), detector=Wanted())
    live.process(stream)
    assert calls == ["learn", "decide"] * 2 + ["rest"] + ["learn", "decide"] + ["rest"]
