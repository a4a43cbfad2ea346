"""Sections of documentation pages that commands write from their results."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Section", "wrapped"]


@dataclass(frozen=True)
class Section:
    """The part of a page between two comments.

    Attributes
    ----------
    page
        Path of the page.
    begin, end
        The comments; each is in the page once.
    """

    page: Path
    begin: str
    end: str

    def page_with(self, text: str) -> str:
        """Return the page with another text in the section."""
        old = self.page.read_text(encoding="utf-8")
        return f"{old.split(self.begin)[0]}{self.begin}\n{text}\n{self.end}{old.split(self.end)[1]}"

    def write(self, text: str) -> None:
        """Replace the text of the section in the page."""
        self.page.write_text(self.page_with(text), encoding="utf-8")


def wrapped(paragraphs: Iterable[str]) -> str:
    """Return paragraphs as Markdown: their lines wrapped, except those of tables, headings and pictures."""
    return "\n".join(
        line if line.startswith(("|", "#", "!")) else "\n".join(textwrap.wrap(line, 120, break_on_hyphens=False))
        for line in "\n\n".join(paragraphs).split("\n")
    )
