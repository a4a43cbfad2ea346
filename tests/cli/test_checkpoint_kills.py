"""Runs with ``--checkpoint``, killed at random moments and at every step of a commit: nothing is lost or duplicated.

``FASTCEP_KILLS`` sets the number of kills; the default is ten.
"""

from __future__ import annotations

import gzip
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from support.warm_process import Warm

from fastcep import datasets
from fastcep.io import write_matches

pytestmark = pytest.mark.thorough

AT_ONCE = ["--checkpoint-every", "0s"]


@dataclass(frozen=True)
class Case:
    """Query and input of a run; ``files`` maps output options to file names."""

    query: str
    source: str
    options: list[str]
    files: dict[str, str] = field(default_factory=dict)

    def arguments(self, folder: str) -> list[str]:
        """Return the arguments of a run that writes its outputs to a folder."""
        outputs = [text for option, name in self.files.items() for text in (option, f"{folder}/{name}")]
        return ["run", self.query, "--input", self.source, *self.options, *outputs, "--json"]


DS1 = """\
STREAM TIME 'ts' UNIT us TYPE 'type'
EVENT A (ID int64, V int64)
EVENT B (ID int64, V int64)
EVENT C (ID int64, V int64)
EVENT D (ID int64, V int64)
"""
QUERIES = {
    "kleene": DS1
    + """\
QUERY runs PATTERN SEQ(A a, B+ k[], C c) WHERE a.ID = k[first].ID AND k[i+1].ID = k[i].ID AND c.ID = a.ID
WITHIN 800us RETURN a.V AS v, COUNT(k[]) AS n
QUERY sums PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 4ms
""",
    "absent": """\
STREAM TIME 'time' UNIT us TYPE 'kind' OTHER TYPES IGNORE
EVENT Su = 0 (job int64, task int64)
EVENT Sc = 1 (job int64, task int64)
EVENT Fi = 4 (job int64, task int64)
QUERY waiting PATTERN SEQ(Su a, NEG Sc b) WHERE [job, task] WITHIN 20s
QUERY short PATTERN SEQ(Su a, Sc b, Fi c) WHERE [job, task] WITHIN 90s
""",
    "trips": """\
STREAM TIME 'start_date'
EVENT Trip (bike int64 FROM 'bike_id', start int64 FROM 'start_terminal', finish int64 FROM 'end_terminal',
            place string FROM 'start_station')
QUERY paths PATTERN SEQ(Trip+ a[], Trip b)
WHERE a[i+1].bike = a[i].bike AND a[i+1].start = a[i].finish AND a[last].bike = b.bike AND b.start = a[last].finish
WITHIN 2h
""",
    "late": DS1
    + "QUERY late PATTERN SEQ(A a, B b, NEG C c) WHERE a.ID = b.ID AND a.V = b.V AND c.ID = a.ID WITHIN 2ms\n",
}
CASES = {
    "csv.gz, Kleene, two queries": Case(
        "kleene.cep", "ds1.csv.gz", ["--batch-rows", "1500"], {"--output": "matches.csv"}
    ),
    "parquet, NEG at the end": Case(
        "absent.cep", "google.parquet", ["--batch-rows", "2000"], {"--output": "matches.arrow"}
    ),
    "folder, strings, attributes": Case(
        "trips.cep", "trips", ["--batch-rows", "2000", "--attributes"], {"--output": "matches.jsonl"}
    ),
    "disorder, late events, bad rows": Case(
        "late.cep",
        "shuffled.jsonl",
        ["--batch-rows", "1500", "--allowed-lateness", "2ms"],
        {"--output": "matches.parquet", "--late": "late.csv", "--bad-rows": "bad.jsonl"},
    ),
    "sorted": Case("late.cep", "shuffled.csv", ["--batch-rows", "1500", "--sort"], {"--output": "matches.csv"}),
}


def make_inputs(folder: Path) -> None:
    for name, text in QUERIES.items():
        (folder / f"{name}.cep").write_text(text)
    table = datasets.ds1(12_000, seed=3)
    write_matches(table, folder / "ds1.csv")
    (folder / "ds1.csv.gz").write_bytes(gzip.compress((folder / "ds1.csv").read_bytes(), 1))
    parquet.write_table(parquet.read_table(datasets.path("google_2011")).slice(0, 16_000), folder / "google.parquet")
    trips = parquet.read_table(datasets.path("bayarea_2014"))
    (folder / "trips").mkdir()
    for number in range(3):
        parquet.write_table(trips.slice(6000 * number, 6000), folder / "trips" / f"part-{number}.parquet")
    positions = np.arange(len(table)) + np.random.default_rng(5).integers(0, 300, len(table))
    shuffled = table.take(pa.array(np.argsort(positions, kind="stable")))
    write_matches(shuffled, folder / "shuffled.csv")
    write_matches(shuffled, folder / "shuffled.jsonl")
    lines = (folder / "shuffled.jsonl").read_text().splitlines(keepends=True)
    for row in range(400, len(lines), 1300):
        lines[row] = '{"type": "E", "ts": 3}\n' if row % 3 else "{broken\n"
    (folder / "shuffled.jsonl").write_text("".join(lines))


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    folder = tmp_path_factory.mktemp("kills")
    make_inputs(folder)
    with Warm(folder) as started:
        yield started


def results(folder: Path, case: Case) -> dict[str, Any]:
    """Return the contents of the outputs: the bytes of text files, the rows of Parquet and Arrow files."""
    contents: dict[str, Any] = {}
    for option, name in case.files.items():
        path = folder / name
        if path.suffix == ".parquet":
            contents[option] = parquet.read_table(path).to_pylist()
        elif path.suffix == ".arrow":
            with pa.ipc.open_file(str(path)) as reader:
                contents[option] = reader.read_all().to_pylist()
        else:
            contents[option] = path.read_bytes()
    return contents


def counts(summary: str) -> dict[str, Any]:
    """Return the counts of a summary that do not depend on the machine or on batch boundaries."""
    import json

    parts = json.loads(summary)
    return {key: parts[key] for key in ("events", "matches", "matches_by_query", "late", "bad_rows")}


@dataclass(frozen=True)
class Expected:
    """Results of a case without a checkpoint, and its time in seconds with one."""

    results: dict[str, Any]
    counts: dict[str, Any]
    seconds: float


@pytest.fixture(scope="module")
def expected(warm: Warm) -> dict[str, Expected]:
    runs = {}
    for number, (name, case) in enumerate(CASES.items()):
        (warm.folder / f"whole-{number}").mkdir()
        summary = counts(warm.run(*case.arguments(f"whole-{number}")))
        assert summary["matches"] > 100, (name, summary)
        for option in ("late", "bad_rows"):
            assert summary[option] > 0 or f"--{option.replace('_', '-')}" not in case.files, (name, summary)
        (warm.folder / f"time-{number}").mkdir()
        start = time.perf_counter()
        warm.run(*case.arguments(f"time-{number}"), "--checkpoint", f"time-{number}/state", *AT_ONCE)
        seconds = time.perf_counter() - start
        runs[name] = Expected(results(warm.folder / f"whole-{number}", case), summary, seconds)
        assert results(warm.folder / f"time-{number}", case) == runs[name].results
    return runs


def test_runs_killed_at_random_moments_end_as_if_they_had_not_been(
    warm: Warm, expected: dict[str, Expected], kills: int
) -> None:
    draw = random.Random(f"kills {kills}")
    killed, case_number = 0, 0
    while killed < kills:
        name = list(CASES)[case_number % len(CASES)]
        case, reference = CASES[name], expected[name]
        folder = f"case_number-{case_number}"
        (warm.folder / folder).mkdir()
        command = [*case.arguments(folder), "--checkpoint", f"{folder}/state", *AT_ONCE]
        for _ in range(draw.randint(1, 4)):
            process = warm.start(*command)
            time.sleep(draw.uniform(0, reference.seconds * 0.9))
            os.kill(process, signal.SIGKILL)  # valid even if the process has ended: it has not been waited for
            code = warm.wait(process)
            assert code in (0, -signal.SIGKILL), warm.errors()
            killed += code != 0
        assert counts(warm.run(*command)) == reference.counts, (name, case_number)
        assert results(warm.folder / folder, case) == reference.results, (name, case_number)
        left = {path.name for path in (warm.folder / folder).iterdir()}
        assert left == {"state", *case.files.values()}, "a temporary file is left"
        case_number += 1


@pytest.mark.parametrize("name", ["disorder, late events, bad rows"])
def test_runs_killed_at_every_step_of_a_commit(
    warm: Warm, expected: dict[str, Expected], name: str, kills: int
) -> None:
    """Kill at each opening, renaming, removal and sync of a file; with few kills, at some of them."""
    case, reference = CASES[name], expected[name]
    options = ["--batch-rows", "9000", *AT_ONCE]
    step, at = max(1, 110 // kills), 1
    while True:
        folder = f"step-{at}"
        (warm.folder / folder).mkdir()
        command = [*case.arguments(folder), *options, "--checkpoint", f"{folder}/state"]
        code = warm.wait(warm.start(*command, die_at=at, within=folder))
        if code == 0:
            break
        assert code == -signal.SIGKILL, warm.errors()
        assert counts(warm.run(*command)) == reference.counts, at
        assert results(warm.folder / folder, case) == reference.results, at
        assert {path.name for path in (warm.folder / folder).iterdir()} == {"state", *case.files.values()}, at
        at += step
    assert at > 60, "a commit has more steps"
