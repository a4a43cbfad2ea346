"""Build HTML elements. Text from users must pass through `safe` first."""

from __future__ import annotations

import re
from html import escape

from fastcep.plan.explain.text_helpers import shown

__all__ = ["glued", "safe", "safe_lines", "tag"]

_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s|[GMk]?/s)(?!\w))")


def safe(text: str) -> str:
    """Escape text for an element or attribute, on one line."""
    return escape(shown(text))


def glued(text: str) -> str:
    """Escape text as `safe` does, with non-breaking spaces between numbers and units."""
    return _UNIT.sub("\u00a0", safe(text))


def safe_lines(text: str) -> str:
    """Escape text as `safe` does, line by line. Consecutive empty lines become one."""
    return "\n".join(safe(line) for line in re.sub(r"\n{3,}", "\n\n", text.strip("\n")).split("\n"))


def tag(name: str, content: str, **attributes: str) -> str:
    """Return an HTML element with escaped content. Attributes are escaped here, and omitted if empty.

    A leading underscore of an attribute name is removed, as in ``_class``; other underscores become dashes.
    """
    attribute_text = "".join(
        f' {key.lstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items() if value
    )
    return f"<{name}{attribute_text}>{content}</{name}>"
