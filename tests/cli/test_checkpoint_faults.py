"""``fastcep run --checkpoint`` when the disk is full, a folder cannot be written, or a file in it is damaged."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.shedding.shed_runs import Q1, cep_text
from support.waiting import wait_for
from support.warm_process import Warm

from fastcep import datasets
from fastcep.io import write_matches

RUN = ["run", "q.cep", "--input", "e.csv", "--batch-rows", "500", "--json", "--checkpoint-every", "0s"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    with Warm(tmp_path_factory.mktemp("faults")) as started:
        yield started


@pytest.fixture
def warm(server: Warm, tmp_path: Path) -> Warm:
    """Prepare a run that stopped in the middle, a valid input, and the output of an earlier run."""
    server.folder = tmp_path
    (tmp_path / "q.cep").write_text(cep_text(q=Q1.replace("2ms", "8ms")))
    write_matches(datasets.ds1(3000, seed=3), tmp_path / "e.csv")
    server.run(*RUN[:-2], "--output", "plain.csv")
    events = (tmp_path / "e.csv").read_text()
    lines = events.splitlines(keepends=True)
    (tmp_path / "e.csv").write_text("".join([*lines[:1501], "A,wrong,1,1\n", *lines[1502:]]))
    server.run(*RUN, "--checkpoint", "state", code=2)
    (tmp_path / "e.csv").write_text(events)
    (tmp_path / "m.csv").write_text("of an earlier run")
    return server


def files(warm: Warm) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (warm.folder / "state").iterdir()}


def errors(warm: Warm) -> str:
    return " ".join(warm.errors().split())


def finish(warm: Warm) -> None:
    """Resume the run, and compare its output with that of a run without a checkpoint."""
    warm.run(*RUN, "--checkpoint", "state", "--output", "m.csv")
    assert (warm.folder / "m.csv").read_bytes() == (warm.folder / "plain.csv").read_bytes()
    assert not [path.name for path in warm.folder.iterdir() if path.name.endswith(".part")]
    assert not [name for name in files(warm) if name.endswith((".part", ".fcs"))]


@pytest.mark.thorough
@pytest.mark.parametrize("room", [1000, 3000, 6000, 12_000, 25_000, 50_000, 100_000])
def test_a_disk_that_is_full(warm: Warm, room: int) -> None:
    """Each amount of disk space runs out at another place: in a segment, the state, the record, the output."""
    plain = (warm.folder / "plain.csv").stat().st_size
    assert plain > 2 * room
    rows = json.loads((warm.folder / "state" / "checkpoint.json").read_text())["rows"]
    warm.run(*RUN, "--checkpoint", "state", "--output", "m.csv", code=2, file_bytes=room)
    assert "cannot " in errors(warm) and "file too large" in errors(warm)
    assert (warm.folder / "m.csv").read_text() == "of an earlier run"
    assert json.loads((warm.folder / "state" / "checkpoint.json").read_text())["rows"] >= rows
    finish(warm)


@pytest.mark.sample(2)
@pytest.mark.parametrize("room", [1000, 2000, 6000, 20_000])
def test_a_disk_that_is_full_from_the_beginning(warm: Warm, room: int) -> None:
    shutil.rmtree(warm.folder / "state")
    warm.run(*RUN, "--checkpoint", "state", "--output", "m.csv", code=2, file_bytes=room)
    assert "file too large" in errors(warm)
    assert (warm.folder / "m.csv").read_text() == "of an earlier run"
    finish(warm)


@pytest.mark.sample(1)
def test_a_disk_without_any_room(warm: Warm) -> None:
    disk = warm.folder / "small"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        command = [*RUN, "--checkpoint", "small/state", "--output", "m.csv"]
        warm.run(*command, code=2)
        assert "no space left on device" in errors(warm)
        assert (warm.folder / "m.csv").read_text() == "of an earlier run"
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        warm.run(*command)
        assert (warm.folder / "m.csv").read_bytes() == (warm.folder / "plain.csv").read_bytes()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.sample(1)
def test_outputs_that_take_nothing(warm: Warm) -> None:
    """The run is finished, and only its outputs are missing."""
    with open(warm.folder / "e.csv", "a") as events:
        events.write("E,1,1,999999999\n")
    command = [*RUN, "--checkpoint", "other"]
    warm.run(*command, "--output", "/dev/full", "--output-format", "csv", "--bad-rows", "bad.jsonl", code=2)
    assert "cannot write '/dev/full': no space left on device" in errors(warm)
    assert not (warm.folder / "bad.jsonl").exists()
    warm.run(*command, "--output", "m.csv", "--bad-rows", "/dev/full", code=2)
    assert "cannot write '/dev/full': no space left on device" in errors(warm)
    warm.run(*command, "--output", "m.csv", "--bad-rows", "bad.jsonl")
    assert "commits" not in errors(warm), "the input was not read again"
    assert (warm.folder / "m.csv").read_bytes() == (warm.folder / "plain.csv").read_bytes()
    assert len((warm.folder / "bad.jsonl").read_text().splitlines()) == 1


@pytest.mark.sample(1)
def test_folders_that_cannot_be_written(warm: Warm) -> None:
    warm.run(*RUN, "--checkpoint", "/proc/none/state", code=2)
    assert "cannot use --checkpoint '/proc/none/state': " in errors(warm)
    warm.run(*RUN, "--checkpoint", "q.cep/state", code=2)
    assert "cannot use --checkpoint 'q.cep/state': not a directory; give another folder" in errors(warm)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["flipped", "cut", "empty", "missing", "longer"])
@pytest.mark.parametrize("prefix", ["state", "matches"])
def test_files_that_are_damaged(warm: Warm, prefix: str, kind: str) -> None:
    before = files(warm)
    name = next(name for name in sorted(before) if name.startswith(prefix))
    path = warm.folder / "state" / name
    damage(path, kind, random.Random(f"{prefix} {kind}"))
    damaged = files(warm)
    warm.run(*RUN, "--checkpoint", "state", "--output", "m.csv", code=2)
    assert f"'state/{name}' " in errors(warm)
    assert "restore a copy of the folder, or start over with another --checkpoint folder" in errors(warm)
    assert files(warm) == damaged and (warm.folder / "m.csv").read_text() == "of an earlier run"
    path.write_bytes(before[name])
    finish(warm)
    path = warm.folder / "state" / "matches-1.arrow"
    damage(path, kind, random.Random(7))
    (warm.folder / "m.csv").unlink()
    warm.run(*RUN, "--checkpoint", "state", "--output", "m.csv", code=2)
    assert "'state/matches-1.arrow' " in errors(warm)
    assert not (warm.folder / "m.csv").exists()


def damage(path: Path, kind: str, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if kind == "flipped":
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif kind == "cut":
        del data[draw.randrange(1, len(data)) :]
    elif kind == "empty":
        data.clear()
    elif kind == "longer":
        data += b"\0"
    path.unlink()
    if kind != "missing":
        path.write_bytes(data)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["cut", "empty", "flipped"])
def test_records_that_are_damaged(warm: Warm, kind: str) -> None:
    from fastcep.cli.durable.record import Record
    from fastcep.errors import SnapshotError

    path = warm.folder / "state" / "checkpoint.json"
    original = path.read_bytes()
    draw = random.Random(kind)
    for _ in range(300 if kind == "flipped" else 1):
        path.write_bytes(original)
        damage(path, kind, draw)
        with pytest.raises(SnapshotError, match=r"is damaged \(|use the newer fastcep that wrote it"):
            Record.from_bytes(path.read_bytes(), "checkpoint.json")
    damaged = files(warm)
    warm.run(*RUN, "--checkpoint", "state", "--output", "m.csv", code=2)
    assert "'state/checkpoint.json' " in errors(warm)
    assert files(warm) == damaged and (warm.folder / "m.csv").read_text() == "of an earlier run"
    path.write_bytes(original)
    assert Record.from_bytes(original, "").to_bytes() == original
    finish(warm)


def test_a_record_of_a_newer_version(warm: Warm) -> None:
    path = warm.folder / "state" / "checkpoint.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    warm.run(*RUN, "--checkpoint", "state", code=2)
    assert "has format 2, expected at most 1; use the newer fastcep that wrote it" in errors(warm)


def test_what_a_killed_run_left_is_removed_and_nothing_else(warm: Warm) -> None:
    state = warm.folder / "state"
    for name in (
        "state-98.fcs",
        "matches-98.arrow",
        "late-98.arrow",
        ".fastcep-0123abcd.part",
        "mine.txt",
        "matches.x",
    ):
        (state / name).write_text("left")
    finish(warm)
    left = {name for name in files(warm) if "98" in name or name.endswith((".part", ".txt", ".x"))}
    assert left == {"mine.txt", "matches.x"}


def test_a_folder_that_was_moved_goes_on(warm: Warm) -> None:
    shutil.move(warm.folder / "state", warm.folder / "elsewhere")
    warm.run(*RUN, "--checkpoint", "elsewhere", "--output", "m.csv")
    assert (warm.folder / "m.csv").read_bytes() == (warm.folder / "plain.csv").read_bytes()


def test_the_memory_limit(warm: Warm) -> None:
    """An engine that lost state cannot be committed; the previous commit stays valid."""
    limited = [*RUN, "--memory-limit", "100KiB", "--checkpoint", "limited", "--output", "m.csv"]
    warm.run(*limited, code=2)
    assert "over --memory-limit 102,400 bytes: " in errors(warm) and "are kept" not in errors(warm)
    assert "committed up to row 500; start the command again, with a larger --memory-limit if it" in errors(warm)
    record = json.loads((warm.folder / "limited" / "checkpoint.json").read_text())
    assert 0 < record["rows"] < 3000 and not record["finished"]
    assert (warm.folder / "m.csv").read_text() == "of an earlier run"
    warm.run(*limited, code=2)
    assert json.loads((warm.folder / "limited" / "checkpoint.json").read_text()) == record
    limited[limited.index("100KiB")] = "100MiB"
    warm.run(*limited)
    assert (warm.folder / "m.csv").read_bytes() == (warm.folder / "plain.csv").read_bytes()


@pytest.mark.sample(2)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_interrupted(warm: Warm, number: signal.Signals, code: int) -> None:
    process = warm.start(*RUN, "--checkpoint", "state", "--output", "m.csv", "--batch-rows", "5")
    record = warm.folder / "state" / "checkpoint.json"
    before = record.read_bytes()
    wait_for(lambda: record.read_bytes() != before, "commit", warm.errors)
    os.kill(process, number)
    assert warm.wait(process) == code, warm.errors()
    assert re.search(r"interrupted after [\d,]+ events; committed up to row [\d,]+: start the command", errors(warm))
    assert (warm.folder / "m.csv").read_text() == "of an earlier run"
    finish(warm)
