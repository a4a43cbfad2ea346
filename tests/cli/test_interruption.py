"""``fastcep run``, interrupted: a real process, a real signal."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pyarrow.csv as csv
import pytest
from support.pipe import PAIRS, feed, start, wait_for_match

CODES = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


def start_on_silent_pipe(folder: Path, *options: str) -> subprocess.Popen[str]:
    """Start a run that has matched two events and waits for more."""
    (folder / "q.cep").write_text(PAIRS)
    process = start("q.cep", "--allowed-lateness", "0s", "--idle-timeout", "20ms", *options, folder=folder)
    feed(process, "kind,id,ts\nA,1,1\nB,1,2\n")
    wait_for_match(process)
    return process


@pytest.mark.sample(1)
@pytest.mark.parametrize(("number", "code"), CODES)
def test_its_files_are_finished(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with start_on_silent_pipe(tmp_path, "--output", "m.csv", "--late", "late.csv") as process:
        process.send_signal(number)
        out, errors = process.communicate()
    assert process.returncode == code, errors
    assert "interrupted after 2 events" in errors and "2 events, 1 matches" in out
    assert csv.read_csv(tmp_path / "m.csv").select(["a", "b"]).to_pylist() == [{"a": 0, "b": 1}]
    assert {path.name for path in tmp_path.iterdir()} <= {"q.cep", "m.csv", "late.csv"}


def test_sigterm_is_left_to_a_program_that_handles_it() -> None:
    from fastcep.cli.interruption import Terminated, terminable

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
