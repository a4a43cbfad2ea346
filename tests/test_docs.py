"""Run every fenced code block of README and docs in order, with one namespace and one folder for each file.

========= =================================================================================================
python    executed; warnings are errors
console   each ``$ fastcep ...`` and ``$ python examples/...`` is run; lines below it are its standard output (``...``
          matches anything)
bash      run as a script
cep       parsed as a document
text      not run
java      not run; code of other systems
sql       not run; queries of other systems
========= =================================================================================================
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from typing import Any, NamedTuple

import pytest
from reference.user_functions import own_registry
from support.command_server import Server
from support.waiting import LIMIT

ROOT = Path(__file__).resolve().parent.parent
SERVERS = ExitStack()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

# Set-up that a reader types and that CI does itself; everything else in a console block must be one of RUN.
NOT_RUN = ("cd ", "git clone ", "make ", "pip install ", "python3 -m venv ", "source ")
RUN = ("fastcep ", "python examples/")
#: Pages whose examples take long: they are run by `make ci`.
LONG = {
    "cli", "datasets", "degree", "espice", "evaluation", "functions", "hybrid", "migration", "reliability", "spark",
    "time",
}  # fmt: skip


class Block(NamedTuple):
    language: str
    line: int
    text: str


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page; ``line`` is the number of the block's first line of text."""
    lines = page.splitlines()
    start = 0
    while start < len(lines):
        fence = re.match(r"\s*(`{3,})\s*(\S*)", lines[start])
        start += 1
        if not fence:
            continue
        closing = (end for end in range(start, len(lines)) if lines[end].strip() == fence[1])
        end = next(closing, None)
        assert end is not None, f"line {start}: the fence is never closed"
        yield Block(fence[2], start + 1, dedent("\n".join(lines[start:end])) + "\n")
        start = end + 1


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block (a trailing backslash continues it) with the output shown below it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, shown = re.fullmatch(r"((?:.*\\\n)*.*)\n((?:.*\n)*)", part).groups()  # type: ignore[union-attr]
        yield command, shown


@cache
def command() -> str:
    """Return the words of a shell that run ``fastcep``; start the server that runs its commands."""
    folder = SERVERS.enter_context(TemporaryDirectory(prefix="fastcep-"))  # short: the length of addresses is limited
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'tests'}")
        return SERVERS.enter_context(Server(f"{folder}/socket")).command


@pytest.fixture(scope="module", autouse=True)
def _stop_server() -> Iterator[None]:
    with SERVERS:
        yield
    command.cache_clear()


def run_bash(script: str, where: str) -> str:
    """Run a script in the page's folder and return its standard output; ``fastcep`` is this interpreter's."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    python = f'python() {{ {shlex.quote(sys.executable)} "$@"; }}'
    script = f'set -euo pipefail\nfastcep() {{ {command()} "$@"; }}\n{python}\n{script}\n'
    run = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert run.returncode == 0, f"{where}:\n{script}\n{run.stdout}{run.stderr}"
    return run.stdout


def run_console(block: Block, where: str) -> None:
    assert block.text.startswith("$ "), f"{where}: a console block starts with '$ '"
    for command, shown in commands(block):
        if command.startswith(NOT_RUN):
            continue
        assert command.startswith(RUN), f"{where}: run or list in NOT_RUN: {command}"
        printed = run_bash(command, where)
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if shown.strip() and not doctest.OutputChecker().check_output(shown, printed, flags):
            pytest.fail(f"{where}: {command}\nshown:\n{shown}\nprinted:\n{printed}")


def run_page(page: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        where = f"{page.name}:{block.line}"
        match block.language:
            case "python":
                # Blank lines in front, so that a traceback names the page's own line.
                exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)
            case "console":
                run_console(block, where)
            case "bash":
                run_bash(block.text, where)
            case "cep":
                from fastcep.query import parse_document

                parse_document(block.text, filename=where)
            case "text" | "java" | "sql":
                pass
            case language:
                known = "python, console, bash, cep, text, java or sql"
                pytest.fail(f"{where}: unknown fence language {language!r}; use {known}")


def marks_of(page: Path) -> list[pytest.MarkDecorator]:
    """Return the marks of a page: its examples need Spark, or take long."""
    marks = [pytest.mark.spark] if page.stem.startswith("spark") else []
    return [*marks, pytest.mark.thorough] if page.stem in LONG else marks


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=marks_of(page), id=page.relative_to(ROOT).as_posix()) for page in PAGES]
)
def test_code_blocks_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if page.stem.startswith("spark"):
        request.getfixturevalue("spark")  # its examples use the existing session
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    with own_registry():
        run_page(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_pictures_exist(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_a_false_example_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    wrong = ("```python\nassert 1 == 2\n```", "```console\n$ rm x\n```", "```\nno language\n```", "```python\nopen")
    for text in wrong:
        page.write_text(text, encoding="utf-8")
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            run_page(page)


def test_commands_are_split_from_their_output() -> None:
    block = Block("console", 1, "$ fastcep a \\\n    --b\nout 1\nout 2\n$ fastcep c\n")
    assert list(commands(block)) == [("fastcep a \\\n    --b", "out 1\nout 2\n"), ("fastcep c", "")]


def test_the_api_page_has_every_public_name() -> None:
    import fastcep

    headings = re.findall(r"^#{2,3} (.+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(set(fastcep.__all__) - set(headings)) == []
