"""One page for people: everything in it, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastcep.report.evaluation import page_sections as parts
from fastcep.report.evaluation.cells import Evaluation
from fastcep.report.evaluation.tags import safe, tag

__all__ = ["html", "save_html"]


def save_html(document: Mapping[str, Any], path: str | Path) -> None:
    """Write the page of `html`.

    Parameters
    ----------
    document
        Of an evaluation.
    path
        The file to write (its folder must exist; an existing file is replaced).

    Raises
    ------
    ValidationError
        If the document is none of a known format, or the drawing library is not installed.
    OSError
        If the file cannot be written.
    """
    Path(path).write_text(html(document), encoding="utf-8", newline="\n")


def html(document: Mapping[str, Any]) -> str:
    """The page of an evaluation: findings, what does not count, pictures, tables, and the document itself.

    It is the same for the same document, loads nothing, and holds the document as JSON in the element ``document``.

    Parameters
    ----------
    document
        Of an evaluation.

    Raises
    ------
    ValidationError
        If the document is none of a known format, or the drawing library is not installed.
    """
    evaluation = Evaluation(document)
    title = f"Evaluation of {', '.join(document['query']['names'])}"
    body = [
        parts.head(evaluation, title),
        parts.winners(evaluation),
        parts.failures(evaluation),
        parts.pictures(evaluation),
        parts.over_time(evaluation),
        parts.shed(evaluation),
        parts.summary(evaluation),
        parts.rows(evaluation),
        _document(document),
    ]
    return _page(title, "\n".join(part for part in body if part))


def _page(title: str, body: str) -> str:
    style, script = _file("page.css"), _file("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            tag("title", safe(title)),
            f"<style>\n{style}</style>",
            "</head>",
            "<body>",
            tag("main", f"\n{body}\n"),
            f"<script>{script}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _file(name: str) -> str:
    return files("fastcep.report.evaluation").joinpath(name).read_text(encoding="utf-8")


def _document(document: Mapping[str, Any]) -> str:
    """The document as it is; no ``<`` in it, so that no text can end the element."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="document">{text}</script>'
