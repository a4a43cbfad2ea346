"""Partial matches that time out: when they are reported, in what order, and which options are rejected."""

from __future__ import annotations

from typing import Any

import pytest

import fastcep as fc
from fastcep.errors import ValidationError

SCHEMA = fc.Schema({name: {"k": "int64"} for name in "ABC"}, type="type")
RUN = "PATTERN SEQ(A a, B+ b[], C c) WHERE a.k = b[i].k WITHIN 10ns"


def query(text: str, name: str = "q") -> fc.Query:
    return fc.parse(text, SCHEMA, name=name)


def events(line: str, start: int = 0, step: int = 1) -> dict[str, Any]:
    """Return ``A1 B2`` as events: types and k, a step apart."""
    words = line.split()
    times = [start + step * n for n in range(len(words))]
    return {"type": [word[0] for word in words], "k": [int(word[1:]) for word in words], "ts": times}


def timed_out(engine: fc.Engine) -> list[str]:
    """Return each as ``q@10 a=0 b=[1] for b,c``."""
    rows = []
    for row in engine.timed_out().to_pylist():
        bound = " ".join(f"{name}={row[name]}" for name in "abc" if row.get(name) not in (None, []))
        window = "" if row["window_id"] is None else f" w{row['window_id']}"
        rows.append(f"{row['query']}{window}@{row['timed_out_at'].value} {bound} for {','.join(row['waits_for'])}")
    return rows


def test_by_advance() -> None:
    """The window includes its last moment; each partial match is returned once."""
    engine = fc.Engine(query(RUN), timed_out=True)
    engine.process(events("A1 B1 B2"))
    engine.advance(10)
    assert timed_out(engine) == []
    engine.advance(11)
    assert engine.metrics()["timed_out_waiting"] == 2
    assert timed_out(engine) == ["q@10 a=0 for b", "q@10 a=0 b=[1] for b,c"]
    assert timed_out(engine) == [] and engine.metrics()["timed_out_waiting"] == 0
    assert engine.metrics()["live_partial_matches"] == 0


def test_by_the_watermark() -> None:
    """Events out of order: the window ends when the watermark has passed it, not when the first later event arrives."""
    engine = fc.Engine(query("PATTERN SEQ(A a, B b) WITHIN 10ns"), timed_out=True, allowed_lateness="5ns")
    engine.process(events("A1"))
    engine.process(events("C1", start=14))
    assert timed_out(engine) == []
    found = engine.process({"type": ["B"], "k": [1], "ts": [10]})
    assert len(found) == 0 and timed_out(engine) == []
    assert len(engine.process(events("C1", start=16))) == 1
    assert timed_out(engine) == ["q@10 a=0 for b"]  # skip till any match: it could have met another b


@pytest.mark.parametrize("size", [1, 2, 8])
def test_events_that_nothing_may_bind_push_out_too(size: int) -> None:
    """For WITHIN n EVENTS the time is that of the event that ends the window, whatever its type."""
    engine = fc.Engine(query("PATTERN SEQ(A a, B b) WHERE a.k = b.k AND a.k > 0 WITHIN 2 EVENTS"), timed_out=True)
    words = ["A1", "C1", "C1", "A2", "A0", "C1"]
    for at in range(0, len(words), size):
        engine.process(events(" ".join(words[at : at + size]), start=10 * at, step=10))
    engine.flush()
    assert timed_out(engine) == ["q@20 a=0 for b", "q@50 a=3 for b"]


def test_at_the_end() -> None:
    """The end of the stream ends all windows; a stream that broke off does not."""
    for complete, rows in ((True, ["q@10 a=0 for b"]), (False, [])):
        engine = fc.Engine(query(RUN), timed_out=True)
        engine.process(events("A1"))
        engine.flush(complete=complete)
        assert timed_out(engine) == rows


@pytest.mark.filterwarnings("ignore:.*unbounded")
def test_without_a_window() -> None:
    """Only at the end of the stream, with the time of its last event."""
    engine = fc.Engine(query("PATTERN SEQ(A a, B b) WITHIN UNBOUNDED"), timed_out=True)
    engine.process(events("A1 C1", step=1000))
    assert timed_out(engine) == []
    engine.flush()
    assert timed_out(engine) == ["q@1000 a=0 for b"]


def test_a_run_is_told_once() -> None:
    """Under skip_till_next a run that has continued is gone; a match that may continue is not reported."""
    engine = fc.Engine(query(f"{RUN} STRATEGY skip_till_next"), timed_out=True)
    engine.process(events("A1 B1 B1 B2"))
    engine.flush()
    assert timed_out(engine) == ["q@10 a=0 b=[1, 2] for b,c"]
    engine = fc.Engine(query("PATTERN SEQ(A a, B+ b[]) WITHIN 10ns STRATEGY skip_till_next"), timed_out=True)
    assert len(engine.process(events("A1 B1"))) == 1
    engine.flush()
    assert timed_out(engine) == []


@pytest.mark.parametrize(
    ("clause", "rows"),
    [
        ("", ["a=0 for b", "a=2 for b"]),
        ("AFTER MATCH SKIP TO NEXT", ["a=2 for b"]),
        ("AFTER MATCH SKIP PAST LAST", []),
        ("CONSUME consumed", ["a=2 for b"]),
    ],
)
def test_what_a_match_has_dropped_does_not_time_out(clause: str, rows: list[str]) -> None:
    """A partial match that a policy ended did not wait for its window's end; those beside it did."""
    text = f"PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 10ns {clause}"
    engine = fc.Engine(query(text), timed_out=True)
    assert len(engine.process(events("A1 C1 A2 B1"))) == 1
    engine.advance(1_000)
    assert [row.split(" ", 1)[1] for row in timed_out(engine)] == rows


def test_one_that_timed_out_does_not_hold_back_a_skip() -> None:
    """A start whose window has ended comes before the match; after the match's last event, matching starts again."""
    text = "PATTERN SEQ(A a, B b, C c) WITHIN 5ns AFTER MATCH SKIP PAST LAST"
    engine = fc.Engine(query(text), timed_out=True)
    found = engine.process(events("A1 B1 A1 B1 C1", step=2)).to_arrow()
    assert [(row["a"], row["b"], row["c"]) for row in found.to_pylist()] == [(2, 3, 4)]
    engine.process(events("A1 B1", start=20))
    engine.advance(100)
    assert [row.split()[0] for row in timed_out(engine)] == ["q@5", "q@5", "q@25", "q@25"]


def test_windows_and_queries_in_order() -> None:
    """By time, then query, then window; a variable that a query does not have is null."""
    window = "WINDOW OPEN EVERY 2ns CLOSE AFTER 10ns"
    both = [query(f"PATTERN SEQ(A a, B b) {window}", "w"), query("PATTERN SEQ(A a, C c) WITHIN 12ns", "s")]
    engine = fc.Engine(both, timed_out=True)
    engine.process(events("A1 A2 A3"))
    engine.advance(1_000)
    assert timed_out(engine) == [
        "w w0@10 a=0 for b",
        "w w0@10 a=1 for b",
        "w w0@10 a=2 for b",
        "w w2@12 a=2 for b",
        "s@12 a=0 for c",
        "s@13 a=1 for c",
        "s@14 a=2 for c",
    ]


def test_queries_whose_columns_differ() -> None:
    """One table cannot hold both; nothing is lost, and each query has a separate table."""
    pair = [query(RUN, "lists"), query("PATTERN SEQ(A a, B b, C c) WITHIN 10ns", "events")]
    engine = fc.Engine(pair, timed_out=True)
    engine.process(events("A1 B1"))
    engine.flush()
    with pytest.raises(ValidationError, match=r"column 'b' .* engine\.timed_out\(name\)"):
        engine.timed_out()
    assert engine.timed_out("lists")["b"].to_pylist() == [[], [1]]
    assert engine.timed_out("events")["b"].to_pylist() == [None, 1]
    assert len(engine.timed_out("lists")) == 0
    with pytest.raises(ValidationError, match="'other'"):
        engine.timed_out("other")


def test_the_limit_keeps_memory_bounded() -> None:
    """With too many waiting, the next batch is rejected as a whole, and accepted after they are taken."""
    engine = fc.Engine(query(RUN), timed_out=True, timed_out_limit=2)
    engine.process(events("A1 A1 A1 A1", step=20))
    with pytest.raises(ValidationError, match=r"3 partial matches .* timed_out_limit=2; call timed_out\(\)"):
        engine.process(events("A1", start=100))
    assert len(timed_out(engine)) == 3
    engine.process(events("A1", start=100))
    assert timed_out(engine) == ["q@70 a=3 for b"]


def test_refusals() -> None:
    """The option is off, a name is taken, or nearly all partial matches end before their window."""
    with pytest.raises(ValidationError, match=r"timed_out\(\) needs Engine\(…, timed_out=True\)"):
        fc.Engine(query(RUN)).timed_out()
    with pytest.raises(ValidationError, match="variable 'bound', which is the name of a column"):
        fc.Engine(query("PATTERN SEQ(A bound, B b) WITHIN 10ns"), timed_out=True)
    for clause in ("STRATEGY strict_contiguity", "PARTITION BY k STRATEGY partition_contiguity"):
        with pytest.raises(ValidationError, match="'q' requires contiguity"):
            fc.Engine(query(f"PATTERN SEQ(A a, B b) WITHIN 10ns {clause}"), timed_out=True)
