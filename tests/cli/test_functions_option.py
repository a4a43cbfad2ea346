"""``--functions FILE.py`` of ``fastcep run`` and ``fastcep explain``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from reference.user_functions import own_registry
from typer.testing import CliRunner, Result

from fastcep.cli import app

QUERY = """\
STREAM TIME 'ts' UNIT s TYPE 'kind'
EVENT A (x float64)
EVENT B (x float64)
QUERY near
PATTERN SEQ(A a, B b) WHERE gap(a.x, b.x) < 2 WITHIN 10s RETURN gap(a.x, b.x) AS gap
"""
GOOD = """\
import fastcep
from neighbour import FACTOR

@fastcep.function("float64(float64, float64)")
def gap(x, y):
    return FACTOR * abs(x - y)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "q.cep").write_text(QUERY)
    (tmp_path / "events.csv").write_text("kind,x,ts\nA,1,0\nA,2.5,1\nB,3,2\n")
    (tmp_path / "neighbour.py").write_text("FACTOR = 1.0\n")
    with own_registry():
        yield tmp_path


def run(folder: Path, text: str | None, name: str = "mine.py") -> Result:
    options = []
    if text is not None:
        (folder / name).write_text(text)
        options = ["--functions", str(folder / name)]
    command = ["run", str(folder / "q.cep"), "--input", str(folder / "events.csv"), "--json", *options]
    return CliRunner().invoke(app, command)


def test_run_and_explain(folder: Path) -> None:
    for _ in range(2):  # the same file may be loaded again
        result = run(folder, GOOD)
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)["matches"] == 1
    result = CliRunner().invoke(app, ["explain", str(folder / "q.cep"), "--functions", str(folder / "mine.py")])
    assert result.exit_code == 0 and "gap(a.x, b.x) < 2.0" in result.stdout


def test_without_the_option_the_function_is_unknown(folder: Path) -> None:
    result = run(folder, None)
    assert result.exit_code == 2
    assert "q.cep:5:29: unknown function 'gap'" in result.stderr
    assert "register your own functions with @fastcep.function" in result.stderr


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("x = 1\n", "mine.py", "mine.py' registers no function; put @fastcep.function"),
        ("import fastcep\nx = (\n", "mine.py", "mine.py', line 2: '(' was never closed; the file must be Python: fix "),
        ("x = 1\ny = x / 0\n", "mine.py", "mine.py', line 2: the file fails with ZeroDivisionError: division by zero"),
        ("import nowhere_at_all\n", "mine.py", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("import sys\nsys.exit(3)\n", "mine.py", "mine.py', line 2: the file fails with SystemExit: 3"),
        (
            "import fastcep\n\n@fastcep.function('bytes(int64)')\ndef f(k):\n    return k\n",
            "mine.py",
            "mine.py', line 3: function 'f': unknown dtype 'bytes'",
        ),
        ("x = 1\n", "mine.txt", "mine.txt' is not a Python file; expected a file such as my_functions.py"),
        (GOOD.replace("abs(x - y)", "x.foo"), "mine.py", "mine.py, line 6, `return FACTOR * x.foo`: Unknown attribute"),
    ],
)
def test_a_file_that_cannot_be_used(folder: Path, text: str, name: str, message: str) -> None:
    result = run(folder, text, name)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_that_is_not_there(folder: Path) -> None:
    result = CliRunner().invoke(app, ["explain", str(folder / "q.cep"), "--functions", str(folder / "none.py")])
    assert result.exit_code == 2
    assert "none.py" in re.sub(r"[│\s]", "", result.stderr), "typer wraps its lines"
