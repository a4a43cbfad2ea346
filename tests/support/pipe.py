"""Run ``fastcep run`` as a process that reads events from a pipe; queries for tests of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PAIRS = """\
STREAM TIME 'ts' UNIT s TYPE 'kind'
EVENT A (id int64)
EVENT B (id int64)
QUERY pairs
PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 10s
"""

#: For events with a text, which is returned; and with a negation.
NAMED_PAIRS = """\
STREAM TIME 'ts' UNIT s TYPE 'kind'
EVENT A (id int64, name string)
EVENT B (id int64, name string)
QUERY pairs
PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 10s RETURN a.name AS name
QUERY alone
PATTERN SEQ(A a, NEG B c) WHERE a.id = c.id WITHIN 4s
"""

_CTRL_C_RAISES = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # a shell may have ignored it
)


def start(query: str | Path, *options: str, folder: Path | None = None) -> subprocess.Popen[str]:
    """Run a query over standard input, in a folder."""
    program = f"{_CTRL_C_RAISES}; from fastcep.cli import main; main()"
    command = [sys.executable, "-c", program, "run", str(query), "--input", "-", *options]
    environment = os.environ | {"PYTHONIOENCODING": "utf-8"}
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, cwd=folder, env=environment, encoding="utf-8", **pipes)


def feed(process: subprocess.Popen[str], text: str) -> None:
    """Write to the process."""
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def wait_for_match(process: subprocess.Popen[str]) -> str:
    """Read the output until it shows a match."""
    assert process.stdout is not None
    for line in process.stdout:
        if "pairs" in line:
            return line
    raise AssertionError(f"no match: {process.stderr.read() if process.stderr else ''}")
