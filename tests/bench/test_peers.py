"""The parts of ``bench.peers`` that need no download."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from bench.peers import duckdb_, jvm, pandas_, siddhi
from bench.peers.fastcep_ import Fastcep
from bench.peers.protocol import FIRST, Result, Unavailable, median
from bench.peers.table import Row, rich_table
from bench.queries import QUERIES, events

EVENTS = 3000


@cache
def first(rows: int = EVENTS) -> pa.Table:
    return events().slice(0, rows)


def expected(query: str, rows: int = EVENTS, semantics: str = "") -> int:
    peer = Fastcep(semantics) if semantics else Fastcep()
    return peer.run(query, first(rows)).matches


@pytest.mark.sample(3)
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("peer", [pandas_.Pandas(), duckdb_.DuckDB()], ids=lambda peer: peer.name)
def test_self_joins_find_what_fastcep_finds(peer, query):
    rows = 30_000 if query == "QS" else EVENTS
    matches = peer.run(query, first(rows)).matches
    assert matches == expected(query, rows) > 0


def test_pandas_gives_every_subset_of_a_run():
    frame = first().to_pandas()
    matches = pandas_.find("QK", frame)
    assert not matches.duplicated().any()
    assert ((matches["b2"] > matches["b"]) | matches["b2"].isna()).all()
    assert (matches["c"] - matches["a"]).max() <= 1000


def test_first_of_every_a_is_one_match_per_a():
    frame = first().to_pandas()
    assert expected("Q1s", semantics=FIRST) == pandas_.find("Q1s", frame)["a"].nunique()


def test_the_first_run_warms_up_and_all_must_agree():
    assert median([Result(7, 9, 9), Result(7, 1, 4), Result(7, 2, 5), Result(7, 3, 6)]) == Result(7, 2, 5)
    assert median([Result(7, 9, 9)]) == Result(7, 9, 9)
    with pytest.raises(ValueError):
        median([Result(7, 1, 1), Result(8, 1, 1)])


def test_output_of_java_is_read_and_its_errors_are_raised():
    assert jvm.result("noise\nrun 5 9.0 9.0\nrun 5 0.5 0.25\n") == Result(5, 0.5, 0.25)
    with pytest.raises(Unavailable, match="sh failed: no such thing"):
        jvm.call(["sh", "-c", "echo first >&2; echo no such thing >&2; exit 3"])


def test_events_for_java_are_rows_of_integers(tmp_path):
    jvm.write_events(first(5), tmp_path / "events")
    rows = np.fromfile(tmp_path / "events", "<i8").reshape(5, 4)
    written = [["ABCD"[kind], *values] for kind, *values in rows.tolist()]
    assert written == [list(event.values()) for event in first(5).to_pylist()]


@pytest.mark.parametrize("app", [siddhi.pattern, siddhi.joins])
@pytest.mark.parametrize("query", QUERIES)
def test_siddhi_queries_have_the_window_and_the_values(app, query):
    text = app(query)
    assert f"<= {8000 if query == 'Q1' else 1000}" in text
    assert ("V == 10" in text) == (query == "QS")
    assert text.count("insert into Matches;") == (8 if query == "QK" and app is siddhi.pattern else 1)


def test_table_has_fastcep_first_and_ratios():
    fastcep, slow = Result(3, 0.5, 0.5), Result(3, 2.0, 2.5)
    rows = [
        Row("Q1", "slow", "all matches", 1_000_000, slow, fastcep),
        Row("Q1", "fastcep", "all matches", 1_000_000, fastcep, fastcep),
    ]
    assert rows[0].figures()["times_the_cpu_of_fastcep"] == 4
    assert rows[0].figures()["million_events_per_cpu_second"] == 0.5
    console = Console(width=140)
    with console.capture() as printed:
        console.print(rich_table(rows))
    lines = [line for line in printed.get().splitlines() if "Q1" in line]
    assert "fastcep" in lines[0] and "slow" in lines[1] and lines[1].split()[-2] == "4"


def test_a_wrong_count_is_an_error():
    fastcep = Result(3, 1, 1)
    assert Row("Q1", "peer", "all matches", 10, fastcep, fastcep).check() is None
    wrong = Row("Q1", "peer", "all matches", 10, Result(4, 1, 1), fastcep).check()
    assert wrong == "peer finds 4 matches in Q1, fastcep 3"
