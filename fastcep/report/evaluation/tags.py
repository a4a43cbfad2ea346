"""HTML from parts: what comes from users goes through `safe` first."""

from __future__ import annotations

import re
from html import escape

from fastcep.plan.explain.text_helpers import shown

__all__ = ["glued", "safe", "safe_lines", "tag"]

_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s|[GMk]?/s)(?!\w))")


def safe(text: str) -> str:
    """Text that can stand in an element or attribute, on one line."""
    return escape(shown(text))


def glued(text: str) -> str:
    """The same; no number is parted from its unit at the end of a line."""
    return _UNIT.sub("\u00a0", safe(text))


def safe_lines(text: str) -> str:
    """The same, line by line; of several empty lines one is left."""
    return "\n".join(safe(line) for line in re.sub(r"\n{3,}", "\n\n", text.strip("\n")).split("\n"))


def tag(name: str, content: str, **attributes: str) -> str:
    """An element of HTML that is escaped already; attributes are escaped here, and left out if empty.

    ``_class`` stands for ``class``, and an underscore within a name for a dash.
    """
    told = "".join(
        f' {key.lstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items() if value
    )
    return f"<{name}{told}>{content}</{name}>"
