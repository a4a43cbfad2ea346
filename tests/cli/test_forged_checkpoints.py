"""Forged checkpoints with valid checksums: no traceback, and no change outside their folder."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import EXAMPLES
from support.forging import forge_record, forge_snapshot
from support.pipe import NAMED_PAIRS
from typer.testing import CliRunner
from xxhash import xxh64_hexdigest

from fastcep.cli import app

SEED = 28
COUNT = max(10, EXAMPLES // 3)

RUN = ["run", "q.cep", "--input", "e.csv", "--json", "--batch-rows", "10", "--checkpoint", "state"]
runner = CliRunner()


def run() -> Any:
    return runner.invoke(
        app, [*RUN, "--checkpoint-every", "0s", "--allowed-lateness", "3s", "--late", "late.csv", "--output", "m.csv"],
        catch_exceptions=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepare a run that stopped at a bad row, a valid input, and an unrelated file beside the folder of the run."""
    home = tmp_path_factory.mktemp("forged")
    rows = [f"{'AB'[k % 3 == 0]},{k % 5},n{k % 7},{k - (5 if k % 8 == 0 else 0)}\n" for k in range(60)]
    (home / "q.cep").write_text(NAMED_PAIRS)
    before = Path.cwd()
    try:
        os.chdir(home)
        (home / "e.csv").write_text("kind,id,name,ts\n" + "".join([*rows[:40], "A,wrong,n,1\n"]))
        assert run().exit_code == 2
    finally:
        os.chdir(before)
    (home / "e.csv").write_text("kind,id,name,ts\n" + "".join(rows))
    (home / "x").write_text("not to be touched")
    return home


@pytest.fixture
def folder(stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(stopped, tmp_path / "home")
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home" / "state"


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the record, and update its checksum."""
    path = folder / "checkpoint.json"
    record = json.loads(path.read_text())
    record.pop("checksum")
    change(record)
    record["checksum"] = xxh64_hexdigest(json.dumps(record, sort_keys=True).encode())
    path.write_text(json.dumps(record))


def error(result: Any) -> str:
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def test_a_run_that_is_not_forged_resumes(folder: Path) -> None:
    assert run().exit_code == 0


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", ["../x", "/x", "..", ".", "", "lock", "checkpoint.json", "a/b", "x.txt", "x\0"])
@pytest.mark.parametrize("part", ["state", "matches", "late", "bad_rows"])
def test_a_part_is_a_file_of_the_folder(folder: Path, part: str, name: str) -> None:
    """A name such as ``../x`` would let a commit remove a file outside."""
    text = (folder.parent / "x").read_bytes()
    forged = {"name": name, "bytes": len(text), "checksum": xxh64_hexdigest(text)}
    edit(folder, lambda record: record.update({part: [forged] if part in ("matches", "late") else forged}))
    assert "the name of a file of the folder" in error(run())
    assert (folder.parent / "x").read_bytes() == text


@pytest.mark.parametrize("name", ["checkpoint.json", "lock", ".fastcep-bad-rows.part", "matches-1.arrow"])
def test_links_that_lead_out_are_refused(folder: Path, name: str) -> None:
    outside = folder.parent / "outside"
    if (folder / name).exists():
        (folder / name).rename(outside)
    else:
        outside.write_text("not to be touched")
    text = outside.read_bytes()
    (folder / name).symlink_to(outside)
    assert f"'{name}' is a symbolic link, expected a regular file" in error(run())
    assert outside.read_bytes() == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record.update(number=1), "number: found 1 with the file"),
        (lambda record: record.update(number="7"), "number: found '7' (str), expected an int from 1"),
        (lambda record: record.update(rows=True), "rows: found True (bool), expected an int from 0"),
        (lambda record: record.update(state=None), "state: found null, expected a file, as the run is not finished"),
        (lambda record: record.pop("late"), "late: found nothing, expected a value"),
        (lambda record: record.update(more=1), "found the field 'more' (str), expected only format, number"),
        (lambda record: record["matches"].append(record["matches"][0]), "found a duplicate file"),
        (lambda record: record["summary"].update(seconds="1"), "summary.seconds: found '1' (str), expected a number"),
        (lambda record: record["settings"].update(queries=[1]), "settings.queries[0]: found 1 (int), expected a list"),
    ],
)
def test_the_error_names_the_fault(folder: Path, change: Callable[[dict[str, Any]], Any], message: str) -> None:
    edit(folder, change)
    text = error(run())
    assert message in text
    assert "restore a copy of the folder, or start over with another --checkpoint folder" in text


def test_a_part_that_is_no_arrow_file(folder: Path) -> None:
    """Its checksum in the record is valid."""

    def forge(record: dict[str, Any]) -> None:
        (folder / record["matches"][0]["name"]).write_bytes(b"nothing")
        record["matches"][0] |= {"bytes": 7, "checksum": xxh64_hexdigest(b"nothing")}

    edit(folder, forge)
    assert "is not a valid Arrow file" in error(run())


@pytest.mark.property
def test_forged(stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forge one field of the record or of the engine's state: the run resumes, or reports an error."""
    refused = 0
    for number in range(COUNT):
        draw, home = random.Random(SEED * 1_000_003 + number), tmp_path / str(number)
        shutil.copytree(stopped, home)
        monkeypatch.chdir(home)
        if draw.random() < 0.7:
            forgery = forge_record(home / "state" / "checkpoint.json", draw)
        else:
            forgery = _forge_state(home / "state", draw)
        try:
            refused += run().exit_code == 2
            assert (home / "x").read_text() == "not to be touched"
            assert {path.name for path in home.iterdir()} <= {"q.cep", "e.csv", "x", "state", "m.csv", "late.csv"}
        except Exception as failure:
            raise AssertionError(f"seed {SEED}, number {number}: {forgery}") from failure
        shutil.rmtree(home)
    assert 0 < refused <= COUNT


def _forge_state(folder: Path, draw: random.Random) -> str:
    forgery = ""

    def forge(record: dict[str, Any]) -> None:
        nonlocal forgery
        path = folder / record["state"]["name"]
        data, forgery = forge_snapshot(path.read_bytes(), draw)
        path.write_bytes(data)
        record["state"] |= {"bytes": len(data), "checksum": xxh64_hexdigest(data)}

    edit(folder, forge)
    return forgery
