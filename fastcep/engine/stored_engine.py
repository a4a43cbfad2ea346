"""Read a snapshot, and create the engine that it can be loaded into: its queries and options, without state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from fastcep.engine.queries import built_queries
from fastcep.engine.state.container import unpack
from fastcep.engine.state.header import check_header
from fastcep.errors import FastcepError, SnapshotError
from fastcep.overload.names import by_name
from fastcep.overload.protocols import Shedder
from fastcep.query import Document, ast, document_text, parse_document, to_text
from fastcep.stored import Misfit

__all__ = [
    "StoredState", "check_queries", "first_queries", "make_like", "read_snapshot", "report_misfits", "same_query",
    "stored_auto",
]  # fmt: skip

AnyEngine = TypeVar("AnyEngine")

_REMEDY = "Its checksums are right, so it was written like that; take the snapshot again, or use an older one"


@lru_cache(maxsize=64)
def _parse_text(text: str) -> Document:
    """Parse the queries of a snapshot; cached, because many snapshots have the same text, and queries are immutable."""
    try:
        return parse_document(text, "snapshot")
    except FastcepError as error:
        raise SnapshotError(f"cannot create an engine for the snapshot: {error}") from error


class StoredState(NamedTuple):
    """An unpacked snapshot: its header, and its tables by name."""

    header: dict[str, Any]
    tables: Any


def read_snapshot(snapshot: bytes | bytearray | memoryview) -> StoredState:
    """Unpack a snapshot of an engine, and check its header.

    Raises
    ------
    SnapshotError
        The snapshot is damaged, of another version, or not of an engine.
    """
    header, tables = unpack(snapshot)
    with report_misfits():
        check_header(header)
    return StoredState(header, tables)


def stored_auto(header: dict[str, Any]) -> Shedder | None:
    """Return a new shedder ``auto`` if the engine of a snapshot had it, otherwise None."""
    control = header.get("control")
    with report_misfits():
        spec = None if control is None else control["specs"]["shedder"]
        if not isinstance(spec, dict) or spec.get("name") != "auto":
            return None
        return by_name("auto", **{name: value for name, value in spec.items() if name != "name"})


def same_query(one: ast.Query, other: ast.Query) -> bool:
    """Return True if two queries over one schema have the same name and text, so that one can use the other's state."""
    return one.name == other.name and to_text(one) == to_text(other)


def first_queries(header: dict[str, Any], queries: Sequence[ast.Query], on_change: str) -> tuple[ast.Query, ...]:
    """Return the queries with which an engine is restored, in the order of the snapshot, before it changes to others.

    Parameters
    ----------
    header
        Header of the snapshot.
    queries
        The queries that the engine is to have.
    on_change
        ``"error"``: they are those of the snapshot, in any order. ``"replace"``: they may be others.

    Raises
    ------
    SnapshotError
        If they are others with ``"error"``, or have another schema.
    """
    stored = _parse_text(header["text"]).queries
    if on_change == "replace" and queries[0].schema == stored[0].schema:
        return stored
    by_name = {query.name: query for query in queries}
    in_order = [by_name[query.name] for query in stored if query.name in by_name]
    checked = in_order if len(in_order) == len(stored) == len(queries) else list(queries)
    check_queries(header["text"], checked)
    return tuple(checked)


def make_like(
    make: Callable[..., AnyEngine], header: dict[str, Any], queries: Any, options: dict[str, Any]
) -> AnyEngine:
    """Create an engine without state, with the queries and options of a snapshot.

    Parameters
    ----------
    make
        The class of the engine.
    header
        Header of the snapshot.
    queries
        The queries; None: those of the snapshot.
    options
        Options that replace those of the snapshot.

    Raises
    ------
    SnapshotError
        The snapshot has other queries than ``queries``, or they cannot run here.
    """
    stored_options = header["options"]
    try:
        if queries is None:
            checked = _parse_text(header["text"]).queries
        else:
            checked = tuple(built_queries(queries, stored_options["attributes"]))
            check_queries(header["text"], checked)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user was warned when the first engine was created
            with report_misfits():
                return make(list(checked), **{**stored_options, **options})
    except SnapshotError:
        raise
    except FastcepError as error:
        raise SnapshotError(f"cannot create an engine for the snapshot: {error}") from error


@contextmanager
def report_misfits() -> Iterator[None]:
    """Raise `SnapshotError` for data that no engine has written, although its checksums are right."""
    try:
        yield
    except Misfit as misfit:
        raise SnapshotError(f"the snapshot does not fit together: {misfit}. {_REMEDY}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError) as error:
        raise SnapshotError(f"the snapshot does not fit together ({error!r}). {_REMEDY}") from error


def check_queries(stored_text: str, queries: Sequence[ast.Query]) -> None:
    """Check that queries and schema are those of a snapshot; `SnapshotError` shows the first difference."""
    text = document_text(Document(queries[0].schema, tuple(queries)))
    if text == stored_text:
        return
    stored_text = document_text(_parse_text(stored_text))  # in the form that this version writes
    if text == stored_text:
        return
    stored_lines, lines = stored_text.splitlines(), text.splitlines()
    differing = [(stored, line) for stored, line in zip(stored_lines, lines, strict=False) if stored != line]
    difference = f"found {differing[0][0]!r}, expected {differing[0][1]!r}" if differing else (
        f"found {len(stored_lines)} lines of schema and queries, expected {len(lines)}"
    )  # fmt: skip
    raise SnapshotError(
        f"the snapshot is of other queries, or another schema: {difference}. Engine.restore(…, on_change='replace') "
        "keeps the state of the queries that are the same"
    )
