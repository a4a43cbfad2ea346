"""The pages for users of other systems: every foreign query is followed by its translation, which test_docs runs."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from test_docs import blocks

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = sorted(DOCS.glob("coming_from_*.md"))
FOREIGN = ("java", "sql")


def pairs(page: Path) -> list[tuple[str, str]]:
    """Return each foreign query of a page with the code after it."""
    found = list(blocks(page.read_text(encoding="utf-8")))
    return [(block.text, found[n + 1].text) for n, block in enumerate(found) if block.language in FOREIGN]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_foreign_query_has_a_translation_with_its_matches(page: Path) -> None:
    found = list(blocks(page.read_text(encoding="utf-8")))
    for block, after in itertools.pairwise(found):
        assert block.language not in FOREIGN or after.language == "python", f"{page.name}:{block.line}"
    assert [query for query, code in pairs(page) if "assert " not in code] == []


def test_there_are_many_pairs() -> None:
    assert len(PAGES) == 4
    assert sum(len(pairs(page)) for page in PAGES) >= 60
