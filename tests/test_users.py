"""Scripts of five users, written from what the docs say; each section that they name exists and contains the call."""

from __future__ import annotations

import os
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted(Path(__file__).with_name("users").glob("*.py"))


def lookups(script: Path) -> Iterator[tuple[str, str, str]]:
    """Yield code, page and section (or an empty text) of each look-up."""
    for line in script.read_text(encoding="utf-8").splitlines():
        for page, section in re.findall(r"\bdocs/(\w+\.md)(?:#([\w-]+))?", line):
            yield line.split(" # ")[0].split(" -- ")[0], page, section


def section_text(page: str, section: str) -> str:
    """Return the text of a section with its subsections, or of the whole page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    if not section:
        return text
    for heading in re.finditer(r"^(#+) (.+)$", text, flags=re.MULTILINE):
        if re.sub(r"[^\w -]", "", heading[2].lower()).strip().replace(" ", "-") == section:
            rest = text[heading.end() :]
            end = re.search(rf"^#{{1,{len(heading[1])}}} ", rest, flags=re.MULTILINE)
            return rest[: end.start()] if end else rest
    raise AssertionError(f"{page} has no section #{section}")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_look_ups_are_in_the_docs(script: Path) -> None:
    found = list(lookups(script))
    assert len(found) > 5
    for code, page, section in found:
        if code.lstrip().startswith(("Each comment", "``docs")):
            continue
        text = section_text(page, section)
        # Calls of fastcep, its options, and names with a dot must be on the page; the rest is the user's own.
        names = re.findall(r"\b(?:fc|fastcep|engine|second|matches|report)\.(?:\w+\.)?(\w+)\(|\b([a-z_]+)=(?!=)", code)
        for name in (one or other for one, other in names):
            assert re.search(rf"\b{name}\b", text), f"{script.name}: {page}#{section} does not have {name}: {code}"


def test_the_page_has_the_number_of_look_ups() -> None:
    page = (ROOT / "docs" / "users.md").read_text(encoding="utf-8")
    for script in SCRIPTS:
        found = {(page, section) for code, page, section in lookups(script) if "PAGE" not in page}
        pages = sorted({page for page, _ in found})
        row = next(line for line in page.splitlines() if f"users/{script.name}" in line)
        assert f"| {len(found)} |" in row, f"{script.name}: {len(found)} look-ups"
        assert re.findall(r"\]\((\w+\.md)\)", row) == pages


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, marks=[pytest.mark.spark, pytest.mark.thorough] if script.stem.startswith("spark")
                     else [pytest.mark.thorough] if script.stem in ("flink_switcher", "researcher") else [])
        for script in SCRIPTS
    ],
    ids=lambda script: script.stem,
)
def test_the_script_runs(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if script.stem.startswith("spark"):
        request.getfixturevalue("spark")  # it uses the existing session
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
    runpy.run_path(str(script), run_name="__main__")
