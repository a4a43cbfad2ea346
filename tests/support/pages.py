"""Tables in docs/ that are generated from tests."""

from __future__ import annotations

from pathlib import Path


def with_table(page: Path, start: str, table: str, end: str) -> str:
    """Return a page with ``table`` between two markers."""
    head, rest = page.read_text(encoding="utf-8").split(start)
    return f"{head}{start}\n{table}\n{end}{rest.split(end)[1]}"
