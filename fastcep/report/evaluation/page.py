"""The HTML page of an evaluation, in one file without external resources."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastcep.report.evaluation import page_sections as sections
from fastcep.report.evaluation.cells import Evaluation
from fastcep.report.evaluation.colours import dark_values
from fastcep.report.evaluation.tags import safe, tag

__all__ = ["html", "save_html"]


def save_html(document: Mapping[str, Any], path: str | Path) -> None:
    """Write the page of an evaluation; see `html`.

    Parameters
    ----------
    document
        Document of an evaluation.
    path
        File to write. Its folder must exist; an existing file is replaced.

    Raises
    ------
    ValidationError
        If the document has an unknown format, or the drawing library is not installed.
    OSError
        If the file cannot be written.
    """
    Path(path).write_text(html(document), encoding="utf-8", newline="\n")


def html(document: Mapping[str, Any]) -> str:
    """Return the page of an evaluation: findings, rows that do not count, charts, tables, and the document itself.

    The same document gives the same page. The page loads nothing, and has the document as JSON in the element
    ``document``.

    Parameters
    ----------
    document
        Document of an evaluation.

    Raises
    ------
    ValidationError
        If the document has an unknown format, or the drawing library is not installed.
    """
    evaluation = Evaluation(document)
    title = f"Evaluation of {', '.join(document['query']['names'])}"
    body = [
        sections.head(evaluation, title),
        sections.winners(evaluation),
        sections.failures(evaluation),
        sections.pictures(evaluation),
        sections.over_time(evaluation),
        sections.shed(evaluation),
        sections.summary(evaluation),
        sections.rows(evaluation),
        _document(document),
    ]
    return _page(title, "\n".join(part for part in body if part))


def _page(title: str, body: str) -> str:
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark_values(body)} }} }}\n"
    style, script = _file("page.css") + dark, _file("page.js")
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
    """Return the document as a JSON element. ``<`` is escaped, so that no text can end the element."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="document">{text}</script>'
