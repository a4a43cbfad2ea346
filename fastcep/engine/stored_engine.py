"""Read a snapshot, and create the engine that it can be loaded into: its queries and options, without state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from fastcep.engine.queries import already_warned, built_queries
from fastcep.engine.state.container import unpack
from fastcep.engine.state.header import check_header
from fastcep.errors import FastcepError, ModelError, SnapshotError, ValidationError
from fastcep.overload.names import by_name
from fastcep.overload.protocols import Shedder
from fastcep.query import Document, ast, document_text, parse_document, to_text, traversal
from fastcep.query.user_functions.registry import functions
from fastcep.stored import Misfit

__all__ = [
    "StoredState", "called_functions", "changed_queries", "check_functions", "check_queries", "first_queries",
    "make_like", "name_model_steps", "read_snapshot", "report_misfits", "same_query", "stored_auto",
]  # fmt: skip

AnyEngine = TypeVar("AnyEngine")

_REMEDY = "Its checksums are right, so it was written like that; take the snapshot again, or use an older one"
#: Remedy for an engine that is restored with other queries over the same schema.
_MAY_CHANGE = ". Engine.restore(…, on_change='replace') keeps the state of the queries that are the same"
#: Remedy for an engine that is restored with another schema.
_SAME_SCHEMA = "; give the queries and the schema of that engine, or begin with a new engine"


def _parse_text(text: str) -> Document:
    """Parse the queries of a snapshot, whose calls are those of the functions that are registered now."""
    return _parse(text, tuple(function.signature for function in functions().values()))


@lru_cache(maxsize=64)
def _parse(text: str, _: tuple[ast.Signature, ...]) -> Document:
    """Parse queries; cached, because many snapshots have the same text, and queries are immutable."""
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


def called_functions(queries: Iterable[ast.Query]) -> dict[str, str]:
    """Return the signatures of the user functions that queries call, as text by name."""
    return {
        node.signature.name: str(node.signature)
        for query in queries
        for expression in traversal.expressions(query)
        for node in traversal.walk(expression)
        if isinstance(node, ast.UserCall)
    }


def changed_functions(header: dict[str, Any], now: dict[str, str]) -> dict[str, str]:
    """Return the functions of a snapshot whose signature is another one now, with a description of the change."""
    stored = header.get("functions", {})  # older snapshots lack it
    return {
        name: f"function {name!r} is {now[name]}, and was {signature} in the engine of the snapshot"
        for name, signature in stored.items()
        if now.get(name, signature) != signature
    }


def check_functions(header: dict[str, Any], now: dict[str, str], replaces: bool) -> str:
    """Return a text of the `changed_functions`; raise `SnapshotError` if there are any, unless ``replaces``."""
    changed = ", and ".join(changed_functions(header, now).values())
    if changed and not replaces:
        raise SnapshotError(
            f"{changed}; register it as it was. Engine.restore(…, queries, on_change='replace') starts the queries "
            "that call it without state"
        )
    return changed


def same_query(one: ast.Query, other: ast.Query) -> bool:
    """Return True if two queries over one schema are the same, so that one can use the other's state.

    They have the same name and text, and call functions of the same signatures.
    """
    same_text = one.name == other.name and to_text(one) == to_text(other)
    return same_text and called_functions([one]) == called_functions([other])


def changed_queries(header: dict[str, Any], stored: Sequence[ast.Query], wanted: Sequence[ast.Query]) -> list[str]:
    """Return the names of the queries that cannot use the state of a snapshot, which has the queries ``stored``."""
    functions_now = changed_functions(header, called_functions(stored))
    by_name = {query.name: query for query in stored}
    return [
        query.name
        for query in wanted
        if query.name not in by_name
        or not same_query(by_name[query.name], query)
        or not functions_now.keys().isdisjoint(called_functions([query]))
    ]


@contextmanager
def name_model_steps(header: dict[str, Any], changed: Sequence[str]) -> Iterator[None]:
    """Raise `ValidationError` with the steps that work if models of a shedder do not fit new or changed queries."""
    try:
        yield
    except (ModelError, SnapshotError) as error:
        control = header.get("control")
        shedder = control["specs"]["shedder"] if isinstance(control, dict) and "specs" in control else None
        has_models = isinstance(shedder, dict) and bool(shedder.get("models"))
        if not changed or not (has_models or isinstance(error, ModelError) or isinstance(error.__cause__, ModelError)):
            raise
        raise ValidationError(
            f"queries {', '.join(map(repr, changed))} are new or changed, and the shedder has no models of them: the "
            "models of a snapshot are those of its queries. Restore it without queries and on_change, with the "
            "original shedder and models; then call set_shedder(None), replace(), add() and remove() for the queries, "
            f"and set_shedder(…, model=…) with models of all of them. Details: {error}"
        ) from error


def first_queries(
    header: dict[str, Any], queries: Any, on_change: str
) -> tuple[Sequence[ast.Query] | None, Sequence[ast.Query] | None]:
    """Return the queries with which an engine is restored, in the order of the snapshot, and those that it has then.

    Parameters
    ----------
    header
        Header of the snapshot.
    queries
        The queries that the engine is to have; None: those of the snapshot.
    on_change
        ``"error"``: they are those of the snapshot, in any order. ``"replace"``: they may be others.

    Raises
    ------
    SnapshotError
        If they are invalid, are others with ``"error"``, or have another schema.
    """
    if queries is None:
        return None, None
    stored = _parse_text(header["text"]).queries
    try:
        wanted = built_queries(queries, header["options"]["attributes"])
    except FastcepError as error:
        raise SnapshotError(f"cannot create an engine for the snapshot: {error}") from error
    if on_change == "replace" and wanted[0].schema == stored[0].schema:
        return stored, wanted
    by_name = {query.name: query for query in wanted}
    in_order = [by_name[query.name] for query in stored if query.name in by_name]
    first = in_order if len(in_order) == len(stored) == len(wanted) else wanted
    same_schema = wanted[0].schema == stored[0].schema
    check_queries(header["text"], first, _MAY_CHANGE if on_change == "error" and same_schema else "")
    return first, wanted


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
        with already_warned(), report_misfits():
            return make(list(checked), **{**stored_options, **options})
    except SnapshotError:
        raise
    except FastcepError as error:
        reason = str(error)
        if " has nothing to hold: " in reason:  # there is no such option here: the snapshot has the bound
            reason = f"{reason.partition(': ')[0]}, as its engine had no latency bound; leave shedder out"
        raise SnapshotError(f"cannot create an engine for the snapshot: {reason}") from error


@contextmanager
def report_misfits() -> Iterator[None]:
    """Raise `SnapshotError` for data that no engine has written, although its checksums are right."""
    try:
        yield
    except Misfit as misfit:
        raise SnapshotError(f"the snapshot does not fit together: {misfit}. {_REMEDY}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError) as error:
        raise SnapshotError(f"the snapshot does not fit together ({error!r}). {_REMEDY}") from error


def check_queries(stored_text: str, queries: Sequence[ast.Query], remedy: str = "") -> None:
    """Check that queries and schema are those of a snapshot; `SnapshotError` has the first difference, a remedy."""
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
    raise SnapshotError(f"the snapshot is of other queries, or another schema: {difference}{remedy or _SAME_SCHEMA}")
