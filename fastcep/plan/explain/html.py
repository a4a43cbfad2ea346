"""HTML of a query for notebooks: its text, its schema and the picture of its plan."""

from __future__ import annotations

from html import escape

from fastcep.errors import FastcepError
from fastcep.events import Schema
from fastcep.plan.explain.facts import facts
from fastcep.plan.explain.svg import svg
from fastcep.plan.explain.text_helpers import shown
from fastcep.plan.make import make_plan
from fastcep.query import ast, to_text
from fastcep.query.printer import name_text

__all__ = ["query_html"]


def query_html(query: ast.Query) -> str:
    """Return HTML without scripts, in which every name is escaped."""
    lines = map(shown, to_text(query).rstrip("\n").split("\n"))
    try:
        drawing = svg([facts(make_plan(query))], with_text=False, background=False)
        picture = f'<div style="overflow-x:auto">{drawing}</div>'
    except FastcepError as error:  # a query without a plan is displayed with the error
        picture = f"<p>{_safe(str(error))}</p>"
    return f"<div><pre>{escape(chr(10).join(lines))}</pre>{_schema(query.schema)}{picture}</div>"


def _schema(schema: Schema) -> str:
    rows = []
    for name in schema.type_names:
        attributes = [
            f"{name_text(attribute, anywhere=True)} {dtype}" for attribute, dtype in schema.attributes(name).items()
        ]
        rows.append(f"<tr><td>{_safe(name_text(name))}</td><td>{_safe(', '.join(attributes))}</td></tr>")
    sources = [f"time: {schema.time!r}", f"type: {schema.type!r}", f"sequence number: {schema.sequence!r}"]
    if schema.sequence is None:
        sources.pop()
    return (
        f"<table><caption>{_safe('; '.join(sources))}</caption>"
        f"<tr><th>event type</th><th>attributes</th></tr>{''.join(rows)}</table>"
    )


def _safe(text: str) -> str:
    return escape(shown(text))
