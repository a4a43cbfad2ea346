"""Text to checked queries: one query, or a whole ``.cep`` document."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from lark import Lark
from lark.exceptions import UnexpectedInput

from fastcep.errors import ParseError
from fastcep.query import ast
from fastcep.query.check import check
from fastcep.query.messages import explain
from fastcep.query.source import Problem, Source
from fastcep.query.transform import RawQuery, read_query
from fastcep.query.tree import Branch

if TYPE_CHECKING:
    from fastcep.events import Schema

__all__ = ["checked_query", "parse", "parse_tree"]

DEFAULT_NAME = "query"


@lru_cache(maxsize=1)
def _grammar() -> Lark:
    text = resources.files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(
        text,
        parser="lalr",
        start=["query", "document", "expression"],
        propagate_positions=True,
        maybe_placeholders=True,
        cache=_table_file() or False,
    )


def _table_file() -> str | None:
    """File in the user's cache that keeps the parse tables (150 ms to make, 15 ms to read); None if none can be had.

    lark itself checks that the file belongs to this grammar, its own version and this Python, and goes on without it
    if it cannot be read or written.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastcep"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return str(folder / f"grammar-{sys.version_info.major}.{sys.version_info.minor}.bin")


def parse_tree(source: Source, start: str) -> Branch:
    """Parse a text from ``start`` ("query", "document" or "expression"); ParseError in plain words."""
    try:
        return _grammar().parse(source.text, start=start)
    except UnexpectedInput as error:
        raise explain(error, source) from None


def checked_query(raw: RawQuery, schema: Schema, source: Source, name: str | None = None) -> ast.Query:
    """Resolve the names of a query that was read from ``source``; ParseError at the first fault."""
    query = ast.Query(
        raw.name or DEFAULT_NAME if name is None else name,
        raw.pattern,
        raw.window or ast.Unbounded(),
        raw.where,
        raw.partition,
        raw.returns,
        **raw.choices,
        schema=schema,
        text=source.text[raw.span.start : raw.span.end],
        span=raw.span,
    )
    try:
        return check(query, raw.spans)
    except Problem as problem:
        raise source.error(problem.message, problem.span) from None


def parse(
    text: str, schema: Schema | None = None, *, name: str | None = None, filename: str | None = None
) -> ast.Query:
    """Parse and check one query.

    Parameters
    ----------
    text
        ``PATTERN …``, or ``QUERY name PATTERN …``. Without a schema: a document with EVENT statements and one query.
    schema
        The events that the query speaks of.
    name
        Name of the query; by default the one in the text, or ``"query"``.
    filename
        Shown in errors.

    Returns
    -------
    Query
        Names resolved, types correct.

    Raises
    ------
    ParseError
        The text is wrong; the error shows where, what was expected and the closest known name.
    """
    if schema is None:
        from fastcep.query.document import parse_document

        queries = parse_document(text, filename).queries
        if len(queries) != 1:
            raise ParseError(f"the text holds {len(queries)} queries; expected one, or use parse_document")
        return queries[0] if name is None else replace(queries[0], name=name)
    source = Source(text, filename)
    return checked_query(read_query(parse_tree(source, "query"), source), schema, source, name)
