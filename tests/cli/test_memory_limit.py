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
    """A match of each query early, then ever more pairs of `large`; at the end one more match of `small`."""
    rows = ["A,1,0", "B,1,1", "B,2,2", "C,3,3"]
    rows += [f"{'AB'[k % 2]},{k},{k}" for k in range(4, 4000)]
    rows += ["A,7,4000", "B,7,4001"]
    (tmp_path / "events.csv").write_text("\n".join(["kind,id,ts", *rows, ""]))
    (tmp_path / "q.cep").write_text(QUERIES)
    return [str(tmp_path / "q.cep"), str(tmp_path / "events.csv")]


def expected(files: list[str], rows: int, **options: Any) -> list[tuple[str, int, int]]:
    """What an engine gives until its first error, the matches of the error included."""
    document = fc.parse_file(files[0])
    engine = fc.Engine(document.queries, memory_limit="1MiB", **options)
    found: list[tuple[str, int, int]] = []

    def note(matches: fc.Matches) -> None:
        for row in matches.to_arrow().to_pylist():
            found.append((row["query"], row["a"], row["b"]))

    with open_source(files[1], document.schema, chunk_rows=rows) as source:
        try:
            for batch in source:
                note(engine.process(batch))
        except fc.MemoryLimitError as error:
            note(error.matches)
            try:
                note(engine.flush())
            except fc.MemoryLimitError as second:
                note(second.matches)
        else:
            pytest.fail("expected the limit to be reached")
    return found


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
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["query"], row["a"], row["b"]) for row in found] == expected(
        files, rows, **({"allowed_lateness": late[1]} if late else {})
    )
    assert ("large", 0, 2) in [(row["query"], row["a"], row["b"]) for row in found]
    last = [row["b"] for row in found if row["query"] == "small"][-1]
    assert (last == 4001) == (rows == 10_000)


def test_a_batch_that_does_not_fit_is_refused(files: list[str]) -> None:
    options = ["--memory-limit", "100KiB", "--allowed-lateness", "4000s"]
    result = runner.invoke(app, ["run", files[0], "--input", files[1], *options])
    assert result.exit_code == 2
    assert f"error: {files[1]}: no room for 4,002 more events" in result.stderr
    assert "--memory-limit is 102,400; nothing of the batch was taken. Raise it, hand over fewer rows" in result.stderr


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
    """30 events of A, so 2^30 partial matches of `big`; from second 40 on a pair of `small` every other second."""
    (tmp_path / "q.cep").write_text(KLEENE)
    rows = [f"A,{n},{n}" for n in range(30)] + [f"{'AB'[n % 2]},{n // 2},{n}" for n in range(40, 60)]
    (tmp_path / "e.csv").write_text("\n".join(["kind,id,ts", *rows, ""]))
    return ["run", str(tmp_path / "q.cep"), "--input", str(tmp_path / "e.csv")]


@pytest.mark.parametrize("lateness", [[], ["--allowed-lateness", "5s"], ["--allowed-lateness", "1h"]])
def test_a_kleene_that_explodes(kleene: list[str], tmp_path: Path, lateness: list[str]) -> None:
    """Found in the batch that comes to the limit, or when what is held back is matched at the end."""
    output = tmp_path / "m.parquet"
    result = runner.invoke(app, [*kleene, "--memory-limit", "1MiB", "--output", str(output), *lateness])
    assert result.exit_code == 2
    assert "over --memory-limit 1,048,576 bytes: 'big' at event" in result.stderr
    rows = pq.read_table(output).to_pylist()
    assert [(row["a"], row["b"]) for row in rows if row["query"] == "small"] == [(n, n + 1) for n in range(30, 50, 2)]
