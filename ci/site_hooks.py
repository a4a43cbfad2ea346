"""Hooks of MkDocs: the page of docstrings, and tables as GitHub reads them."""

from __future__ import annotations

import ast
import re
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = "reference.md"

INTRODUCTION = """# Docstrings

The docstrings of all public names, in alphabetical order. [The Python API](api.md) describes them with examples.

"""


def public_names() -> dict[str, str]:
    """Return the module of each public name, from the source: the package need not be compiled."""
    tree = ast.parse((ROOT / "fastcep" / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="_MODULE_OF")], value=table):
                modules: dict[str, str] = ast.literal_eval(table)
                return modules
    raise LookupError("fastcep/__init__.py: no table _MODULE_OF of the public names")


def on_files(files: Any, config: Any) -> Any:
    """Add the page of docstrings."""
    from mkdocs.structure.files import File

    text = "".join(f"::: {module}.{name}\n\n" for name, module in sorted(public_names().items()))
    files.append(File.generated(config, REFERENCE, content=INTRODUCTION + text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    r"""Replace ``\|`` in code in tables: Python-Markdown shows the backslash, GitHub does not."""
    return "\n".join(_unescaped(line) if line.startswith("|") else line for line in markdown.split("\n"))


def _unescaped(row: str) -> str:
    def code(found: re.Match[str]) -> str:
        text = escape(found[1].replace("\\|", "|"), quote=False)
        return f"<code>{text}</code>".replace("|", "&#124;")

    return re.sub(r"`([^`]*\\\|[^`]*)`", code, row)
