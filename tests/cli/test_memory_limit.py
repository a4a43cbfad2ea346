"""``fastcep run --memory-limit``: an error that keeps the matches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fastcep as fc
from fastcep.cli import app
from fastcep.io import open_source

runner = CliRunner()

QUERIES = """\
STREAM TIME 'ts' UNIT s TYPE 'kind'
EVENT A (id int64)
EVENT B (id int64)
EVENT C (id int64)
QUERY large PATTERN SEQ(A a, B b, C c) WHERE a.id < b.id AND b.id < c.id WITHIN 30h
QUERY small PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 3s
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Write a match of each query, then ever more pairs of `large`, and at the end another match of `small`."""
    rows = ["A,1,0", "B,1,1", "B,2,2", "C,3,3"]
    rows += [f"{'AB'[k % 2]},{k},{k}" for k in range(4, 4000)]
    rows += ["A,7,4000", "B,7,4001"]
    (tmp_path / "events.csv").write_text("\n".join(["kind,id,ts", *rows, ""]))
    (tmp_path / "q.cep").write_text(QUERIES)
    return [str(tmp_path / "q.cep"), str(tmp_path / "events.csv")]


def expected(files: list[str], rows: int, **options: Any) -> list[tuple[str, int, int]]:
    """Return the matches of an engine until its first error, those of the error included."""
    document = fc.parse_file(files[0])
    engine = fc.Engine(document.queries, memory_limit="1MiB", **options)
    collected: list[tuple[str, int, int]] = []

    def collect(matches: fc.Matches) -> None:
        for row in matches.to_arrow().to_pylist():
            collected.append((row["query"], row["a"], row["b"]))

    with open_source(files[1], document.schema, chunk_rows=rows) as source:
        try:
            for batch in source:
                collect(engine.process(batch))
        except fc.MemoryLimitError as error:
            collect(error.matches)
            try:
                collect(engine.flush())
            except fc.MemoryLimitError as flush_error:
                collect(flush_error.matches)
        else:
            pytest.fail("expected the limit to be reached")
    return collected


@pytest.mark.parametrize("rows", [500, 10_000])
@pytest.mark.parametrize("late", [[], ["--allowed-lateness", "500s"]])
def test_matches_found_until_then_are_kept(files: list[str], tmp_path: Path, rows: int, late: list[str]) -> None:
    out = tmp_path / "m.jsonl"
    options = ["--memory-limit", "1MiB", "--batch-rows", str(rows), "--output", str(out), *late]
    result = runner.invoke(app, ["run", files[0], "--input", files[1], *options])
    assert result.exit_code == 2
    assert "error: over --memory-limit 1,048,576 bytes: 'large' at event" in result.stderr
    assert "partial matches dropped). Matches found until then are kept. Raise it" in result.stderr
    assert ".matches" not in result.stderr
    assert "First matches" in result.stdout
    matches = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["query"], row["a"], row["b"]) for row in matches] == expected(
        files, rows, **({"allowed_lateness": late[1]} if late else {})
    )
    assert ("large", 0, 2) in [(row["query"], row["a"], row["b"]) for row in matches]
    last = [row["b"] for row in matches if row["query"] == "small"][-1]
    assert (last == 4001) == (rows == 10_000)


def test_a_batch_that_does_not_fit_is_refused(files: list[str]) -> None:
    options = ["--memory-limit", "100KiB", "--allowed-lateness", "4000s"]
    result = runner.invoke(app, ["run", files[0], "--input", files[1], *options])
    assert result.exit_code == 2
    assert f"error: {files[1]}: no room for 4,002 more events" in result.stderr
    assert "--memory-limit is 102,400; nothing of the batch was taken. Raise it, pass fewer rows" in result.stderr


def test_enough_memory_and_wrong_sizes(files: list[str]) -> None:
    result = runner.invoke(app, ["run", files[0], "--input", files[1], "--query", "small", "--memory-limit", "64MiB"])
    assert result.exit_code == 0, result.stderr
    for size, message in (("many", "--memory-limit: 'many' is no size"), ("1B", "--memory-limit='1B' is too small")):
        result = runner.invoke(app, ["run", files[0], "--input", files[1], "--memory-limit", size])
        assert result.exit_code == 2
        assert f"error: {message}" in result.stderr


KLEENE = """\
STREAM TIME 'ts' UNIT s TYPE 'kind'
EVENT A (id int64)
EVENT B (id int64)
QUERY big PATTERN SEQ(A+ x[], B y) WITHIN 1h
QUERY small PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 1s
"""


@pytest.fixture
def kleene(tmp_path: Path) -> list[str]:
    """Write 30 events of A, so 2^30 partial matches of `big`; from 40 s, a pair of `small` every two seconds."""
    (tmp_path / "q.cep").write_text(KLEENE)
    rows = [f"A,{n},{n}" for n in range(30)] + [f"{'AB'[n % 2]},{n // 2},{n}" for n in range(40, 60)]
    (tmp_path / "e.csv").write_text("\n".join(["kind,id,ts", *rows, ""]))
    return ["run", str(tmp_path / "q.cep"), "--input", str(tmp_path / "e.csv")]


@pytest.mark.parametrize("lateness", [[], ["--allowed-lateness", "5s"], ["--allowed-lateness", "1h"]])
def test_a_kleene_that_explodes(kleene: list[str], tmp_path: Path, lateness: list[str]) -> None:
    """The limit is reached in a batch, or when held events are matched at the end."""
    output = tmp_path / "m.parquet"
    result = runner.invoke(app, [*kleene, "--memory-limit", "1MiB", "--output", str(output), *lateness])
    assert result.exit_code == 2
    assert "over --memory-limit 1,048,576 bytes: 'big' at event" in result.stderr
    rows = pq.read_table(output).to_pylist()
    assert [(row["a"], row["b"]) for row in rows if row["query"] == "small"] == [(n, n + 1) for n in range(30, 50, 2)]
