"""The navigation of the site, links to sections, and the hooks of MkDocs."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import fastcep as fc

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "ci" / "site_hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def without_code(page: Path) -> str:
    return re.sub(r"^\s*```.*?^\s*```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def sections(page: Path) -> list[str]:
    """Return the anchors of the headings, as GitHub and the site make them."""
    headings = re.findall(r"^#{1,6} (.+)$", without_code(page), flags=re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_every_page_is_in_the_navigation_once(hooks: ModuleType) -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = re.findall(r"^ +- .+: (\S+\.md)$", navigation, flags=re.MULTILINE)
    written = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES[2:]]
    assert sorted(pages) == sorted([*written, hooks.REFERENCE])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_to_sections_resolve(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", without_code(page))
    missing = [
        f"{target}#{section}"
        for target, section in links
        if section not in sections((page.parent / target).resolve() if target else page)
    ]
    assert missing == []


def test_the_page_of_docstrings_has_every_public_name(hooks: ModuleType) -> None:
    assert sorted(hooks.public_names()) == sorted(fc.__all__)


def test_code_in_tables_is_shown_without_backslashes(hooks: ModuleType) -> None:
    page = "| `(T\\|U) x` | a \\| b | `c < d` |\nno table: `a\\|b`"
    assert hooks.on_page_markdown(page) == (
        "| <code>(T&#124;U) x</code> | a \\| b | `c < d` |\nno table: `a\\|b`"
    )  # fmt: skip


@pytest.mark.thorough
def test_the_site_builds(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="needs the extra 'docs'")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    run = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert 'id="fastcep.engine.Engine.process"' in (tmp_path / "site" / "reference.html").read_text(encoding="utf-8")
