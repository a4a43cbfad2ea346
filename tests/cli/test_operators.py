"""``fastcep run`` on all operators: lists with nulls, pending matches, every output format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.formats import BINARY, TEXT, read_binary, read_text
from typer.testing import CliRunner

from fastcep.cli import app

runner = CliRunner()

STREAM = """\
STREAM TIME 'ts' UNIT s TYPE 'kind'
EVENT A (v int64, s string)
EVENT B (v int64, s string)
EVENT C (v int64, s string)
EVENT N (v int64, s string)
"""
ROUNDS = "QUERY rounds PATTERN SEQ((SEQ(A a, B? b))+ g[], C c) WITHIN 10s RETURN g[].b.s AS bs, COUNT(g[]) AS n"
UNANSWERED = "QUERY unanswered PATTERN SEQ(A a, NEG N n) WHERE n.v = a.v WITHIN 4s"
TICK = "QUERY tick PATTERN PERIODIC(A a, 2s, N n) WITHIN 6s RETURN a.s AS s"
ALL = f"""\
{ROUNDS}
{UNANSWERED}
{TICK}
QUERY both PATTERN AND(A a, B b) WITHIN 10s
QUERY either PATTERN OR(SEQ(A a, B b), C c) WITHIN 10s
QUERY two PATTERN ANY(2, A a, B b, C c) WITHIN 10s
QUERY differ PATTERN ANY(2, A d[] DISTINCT s) WITHIN 10s
QUERY once PATTERN SEQ((SEQ(A a, B b))? o, C c) WITHIN 10s
QUERY fresh PATTERN SEQ(NEG N n, A a) WITHIN 4s
QUERY still PATTERN APERIODIC(A a, B b, N n) WITHIN 10s
"""
COUNTS = {
    "rounds": 5, "unanswered": 2, "tick": 4, "both": 2, "either": 2, "two": 5, "differ": 1, "once": 2, "fresh": 3,
    "still": 1,
}  # fmt: skip
EVENTS = "kind,ts,v,s\nA,0,1,x\nB,1,1,y\nA,2,2,z\nN,3,2,n\nC,4,3,\nA,20,4,w\n"


def write(folder: Path, queries: str, events: str = EVENTS) -> list[str]:
    (folder / "q.cep").write_text(STREAM + queries)
    (folder / "events.csv").write_text(events)
    return ["run", str(folder / "q.cep"), "--input", str(folder / "events.csv")]


def run(*arguments: str) -> str:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def seconds(row: dict[str, object]) -> int:
    """Return the detection time of a match in seconds; in JSON it is a text with nine decimals."""
    text = str(row["detected_at"])
    assert text.startswith("1970-01-01T00:00:") and text.endswith(".000000000Z")
    return int(text[17:19])


@pytest.mark.parametrize("rows", ["1", "2", "100"])
def test_matches_that_wait_come_at_the_end_of_the_input(tmp_path: Path, rows: str) -> None:
    command = [*write(tmp_path, UNANSWERED + "\n" + TICK), "--batch-rows", rows, "--output", "-", "--output-format"]
    lines = [json.loads(line) for line in run(*command, "jsonl").splitlines()]
    assert [(row["query"], row["a"], seconds(row), row["s"]) for row in lines] == [
        ("tick", 0, 2, "x"),
        ("unanswered", 0, 4, None),
        ("tick", 5, 22, "w"),
        ("unanswered", 5, 24, None),
        ("tick", 5, 24, "w"),
        ("tick", 5, 26, "w"),
    ]


@pytest.mark.parametrize("rows", ["1", "3", "100"])
def test_late_events_do_not_undo_a_match_that_waits(tmp_path: Path, rows: str) -> None:
    """N at 2 arrives in time for A at 0; N at 21 is late, as the last event is 9 s ahead of it."""
    events = "kind,ts,v,s\nA,0,1,\nN,2,1,\nA,1,5,\nA,20,4,\nB,30,0,\nN,21,4,\n"
    late = tmp_path / "late.csv"
    command = [*write(tmp_path, UNANSWERED, events), "--allowed-lateness", "5s", "--batch-rows", rows]
    lines = run(*command, "--late", str(late), "--output", "-", "--output-format", "csv").splitlines()
    assert lines[1:] == [
        '"unanswered",,1970-01-01 00:00:05.000000000Z,2',
        '"unanswered",,1970-01-01 00:00:24.000000000Z,3',
    ]
    assert late.read_text().splitlines()[1:] == ['1970-01-01 00:00:21.000000000Z,"N",5,4,']


@pytest.mark.parametrize("lateness", [[], ["--allowed-lateness", "3s"]])
def test_an_error_in_the_input_does_not_decide_what_comes_after(tmp_path: Path, lateness: list[str]) -> None:
    """The last row is bad, so it is unknown if N occurs until 24; it does not occur until 4."""
    events = "kind,ts,v,s\nA,0,1,\nA,20,4,\nB,22,0,\nX,23,0,\n"
    out = tmp_path / "m.jsonl"
    result = runner.invoke(app, [*write(tmp_path, UNANSWERED, events), *lateness, "--output", str(out)])
    assert result.exit_code == 2 and "undeclared event type 'X'" in result.stderr
    assert [json.loads(line)["a"] for line in out.read_text().splitlines()] == [0]


def test_a_limit_on_memory_ends_with_the_matches_found(tmp_path: Path) -> None:
    events = "kind,ts,v,s\n" + "".join(f"A,{n},{n},\n" for n in (*range(4), *range(100, 103), *[200] * 50_000))
    out = tmp_path / "m.jsonl"
    command = [*write(tmp_path, UNANSWERED, events), "--memory-limit", "1MiB", "--output", str(out)]
    result = runner.invoke(app, command)
    assert result.exit_code == 2 and "over --memory-limit" in result.stderr
    assert [json.loads(line)["a"] for line in out.read_text().splitlines()] == list(range(7))


@pytest.mark.sample(4)
@pytest.mark.parametrize("ending", [*BINARY, *TEXT])
def test_rounds_have_lists_with_nulls_in_every_format(tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"m.{ending}"
    run(*write(tmp_path, ROUNDS), "--output", str(out))
    expected = [
        ([0], [None], [None], 1),
        ([0], [1], ["y"], 1),
        ([2], [None], [None], 1),
        ([0, 2], [None, None], [None, None], 2),
        ([0, 2], [1, None], ["y", None], 2),
    ]
    if ending in BINARY:
        rows = read_binary(out).to_pylist()
    elif "csv" not in ending:
        rows = [json.loads(line) for line in read_text(out).splitlines()]
    else:
        assert read_text(out).splitlines()[5] == (
            '"rounds",,1970-01-01 00:00:04.000000000Z,"[0,2]","[1,null]",4,"[""y"",null]",2'
        )
        return
    assert [(row["g.a"], row["g.b"], row["bs"], row["n"]) for row in rows] == expected


@pytest.mark.parametrize("ending", ["parquet", "arrows", "csv", "jsonl"])
def test_all_operators_at_once(tmp_path: Path, ending: str) -> None:
    """Run all operators, also with all attributes and in batches of one event."""
    out, plain = tmp_path / f"m.{ending}", tmp_path / "plain.jsonl"
    command = write(tmp_path, ALL)
    summary = json.loads(run(*command, "--attributes", "--batch-rows", "1", "--json", "--output", str(out)))
    assert summary["matches_by_query"] == COUNTS
    run(*command, "--output", str(plain))
    rows = [json.loads(line) for line in plain.read_text().splitlines()]
    assert len(rows) == sum(COUNTS.values())
    assert [seconds(row) for row in rows] == sorted(map(seconds, rows))
    if ending == "jsonl":
        full = [json.loads(line) for line in out.read_text().splitlines()]
        assert [{name: row[name] for name in rows[0]} for row in full] == rows
        assert not {name for name in full[0] if name == "n.v" or ".n." in name}, "a negated variable has no column"
        row = next(row for row in full if row["query"] == "once" and row["o.a"] == 0)
        assert (row["o.a.time"], row["o.a.s"], row["o.b.v"]) == ("1970-01-01T00:00:00.000000000Z", "x", 1)
        row = next(row for row in full if row["g.b"] == [1, None])
        assert (row["g.b.time"], row["g.b.s"], row["g.a.v"]) == (
            ["1970-01-01T00:00:01.000000000Z", None], ["y", None], [1, 2]
        )


def test_two_kinds_of_a_column_are_refused_by_name(tmp_path: Path) -> None:
    queries = ROUNDS + "\nQUERY one PATTERN SEQ((SEQ(A a, B b))? g, C c) WITHIN 10s"
    result = runner.invoke(app, write(tmp_path, queries))
    assert result.exit_code == 2
    assert "column 'g.a' is large_list<item: int64> in query 'rounds' and int64 in query 'one'" in result.stderr
