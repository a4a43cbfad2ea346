"""``fastcep run`` that is interrupted: a real process, a real signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.csv as csv
import pytest

QUERY = """\
STREAM TIME 'ts' UNIT s TYPE 'kind'
EVENT A (id int64)
EVENT B (id int64)
QUERY pairs
PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 10s
"""
CODES = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    """Run on a pipe, from which rows are taken when it is silent."""
    (folder / "q.cep").write_text(QUERY)
    ctrl_c = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # which a shell may ignore
    program = f"{ctrl_c}; from fastcep.cli import main; main()"
    command = [sys.executable, "-c", program, "run", "q.cep", "--input", "-", "--allowed-lateness", "0s"]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = os.environ | {"PYTHONIOENCODING": "utf-8"}
    return subprocess.Popen(
        [*command, "--idle-timeout", "20ms", *options], cwd=folder, env=environment, encoding="utf-8", **pipes
    )


def wait_for_match(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("kind,id,ts\nA,1,1\nB,1,2\n")
    process.stdin.flush()
    assert any("pairs" in line for line in process.stdout)


@pytest.mark.parametrize(("number", "code"), CODES)
def test_its_files_are_finished(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with start(tmp_path, "--output", "m.csv", "--late", "late.csv") as process:
        wait_for_match(process)
        process.send_signal(number)
        out, errors = process.communicate()
    assert process.returncode == code, errors
    assert "interrupted after 2 events" in errors and "2 events, 1 matches" in out
    assert csv.read_csv(tmp_path / "m.csv").select(["a", "b"]).to_pylist() == [{"a": 0, "b": 1}]
    assert {path.name for path in tmp_path.iterdir()} <= {"q.cep", "m.csv", "late.csv"}


def test_sigterm_is_left_to_a_program_that_handles_it() -> None:
    from fastcep.cli.interrupted import Terminated, terminable

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with terminable():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with pytest.raises(Terminated), terminable():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
