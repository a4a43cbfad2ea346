"""Parse text into syntax trees, and turn a parsed query into a checked one."""

from __future__ import annotations

import os
import sys
import warnings
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedInput

from fastcep.errors import QueryWarning
from fastcep.query import ast
from fastcep.query.checks.query import check
from fastcep.query.parsing.messages import explain
from fastcep.query.parsing.transform import RawQuery
from fastcep.query.parsing.tree import Branch
from fastcep.query.remarks.remarks import remarks
from fastcep.query.source import Problem, Source

if TYPE_CHECKING:
    from fastcep.events import Schema

__all__ = ["checked_query", "parse_tree"]

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
    """Return the file in the user's cache for the parse tables; None if the folder cannot be created.

    Building the tables takes 150 ms, reading them 15 ms. lark checks that the file belongs to this grammar, its own
    version and this Python, and works without the file if it cannot be read or written.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastcep"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return str(folder / f"grammar-{sys.version_info.major}.{sys.version_info.minor}.bin")


def parse_tree(source: Source, start: str) -> Branch:
    """Parse a text from ``start`` ("query", "document" or "expression"); raise ParseError if it is invalid."""
    try:
        return _grammar().parse(source.text, start=start)
    except UnexpectedCharacters as error:
        raise explain(error, source, _accepted(source.text[: error.pos_in_stream or 0], start)) from None
    except UnexpectedInput as error:
        raise explain(error, source) from None


def _accepted(text: str, start: str) -> set[str]:
    """Return the types of the tokens that could follow the beginning of a text."""
    parser: Any = _grammar().parse_interactive(text, start=start)
    parser.exhaust_lexer()
    return set(parser.accepts())


def checked_query(raw: RawQuery, schema: Schema, source: Source, name: str | None = None) -> ast.Query:
    """Resolve the names of a query that was read from ``source``; ParseError at the first fault; warn of remarks."""
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
        checked = check(query, raw.spans)
    except Problem as problem:
        raise source.error(problem.message, problem.span) from None
    for remark in remarks(checked):
        warnings.warn(QueryWarning(str(source.error(remark.message, remark.span))), stacklevel=3)
    return checked
