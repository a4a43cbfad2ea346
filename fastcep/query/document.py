"""Parse queries, and ``.cep`` documents, which hold the schema and the queries of a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any

from lark import Tree

from fastcep.errors import ParseError, SchemaError
from fastcep.events.hints import dtype_hint, unit_hint
from fastcep.events.schema import DTYPES, Schema
from fastcep.events.units import NANOSECONDS
from fastcep.query import ast
from fastcep.query.parsing.parser import checked_query, parse_tree
from fastcep.query.parsing.transform import read_query
from fastcep.query.parsing.tree import Branch, integer, leaves, name_of, span_of, string_of
from fastcep.query.printer import name_text, string_text, to_text
from fastcep.query.source import Source, suggest

__all__ = ["Document", "document_text", "parse", "parse_document", "parse_file"]


@dataclass(frozen=True, slots=True)
class Document:
    """A schema and the queries over it, the content of a ``.cep`` file."""

    schema: Schema
    queries: tuple[ast.Query, ...]


def parse(
    text: str, schema: Schema | None = None, *, name: str | None = None, filename: str | None = None
) -> ast.Query:
    """Parse and check one query.

    Parameters
    ----------
    text
        ``PATTERN …``, or ``QUERY name PATTERN …``. Without a schema, a document with EVENT statements and one query.
    schema
        The event types that the query uses.
    name
        Name of the query; by default the one in the text, or ``"query"``.
    filename
        Shown in errors.

    Returns
    -------
    Query
        The query, with names resolved and types checked.

    Raises
    ------
    ParseError
        The text is invalid. The error shows the position, what was expected and the closest known name.
    """
    _check_arguments(text, schema)
    if schema is None:
        queries = parse_document(text, filename).queries
        if len(queries) != 1:
            raise ParseError(f"the text holds {len(queries)} queries; expected one, or use parse_document")
        return queries[0] if name is None else replace(queries[0], name=name)
    source = Source(text, filename)
    return checked_query(read_query(parse_tree(source, "query"), source), schema, source, name)


def _check_arguments(text: object, schema: object) -> None:
    """Raise ParseError if the arguments of `parse` have the wrong types, for example because they are swapped."""
    if isinstance(text, Schema) and isinstance(schema, str):
        raise ParseError("the text of the query comes first; write fastcep.parse(text, schema)")
    if not isinstance(text, str):
        raise ParseError(f"the query is of type {type(text).__name__}, expected a text such as 'PATTERN SEQ(A a) …'")
    if schema is not None and not isinstance(schema, Schema):
        raise ParseError(
            f"the schema is of type {type(schema).__name__}, expected a fastcep.Schema, such as "
            "Schema({'A': {'v': 'int64'}})"
        )


def parse_file(path: str | PathLike[str]) -> Document:
    """Read a ``.cep`` file (UTF-8).

    Raises
    ------
    ParseError
        The text is invalid or not UTF-8.
    OSError
        The file cannot be read.
    """
    name = fspath(path)
    try:
        with open(name, "rb") as file:
            data = file.read()
    except OSError as error:
        reason = f"cannot read the query file: {error.strerror}; check the path"
        raise type(error)(error.errno, reason, name) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ParseError(f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8", filename=name) from None
    return parse_document(text, name)


def parse_document(text: str, filename: str | None = None) -> Document:
    """Parse and check a document.

    Parameters
    ----------
    text
        ``STREAM …`` (at most one), ``EVENT …`` and ``QUERY …`` statements, in any order.
    filename
        Shown in errors.

    Raises
    ------
    ParseError
        The text or the schema that it declares is invalid.
    """
    source = Source(text, filename)
    return _read(parse_tree(source, "document"), source)


def _read(tree: Branch, source: Source) -> Document:
    statements = [child for child in tree.children if isinstance(child, Tree)]
    streams = [child for child in statements if child.data == "stream"]
    events = [child for child in statements if child.data == "event"]
    queries = [child for child in statements if child.data == "named_query"]
    if len(streams) > 1:
        raise source.error("STREAM is written twice; keep one", span_of(streams[1]))
    if not events:
        raise source.error("the document declares no events; add EVENT Name (attribute int64, …)", source.end())
    schema = _schema(streams[0] if streams else None, events, source)
    if not queries:
        raise source.error("the document has no query; add QUERY name PATTERN …", source.end())
    checked: list[ast.Query] = []
    for query in queries:
        raw = read_query(query, source)
        if any(raw.name == other.name for other in checked):
            raise source.error(f"two queries are called '{raw.name}'; give each its own name", raw.name_span)
        checked.append(checked_query(raw, schema, source))
    return Document(schema, tuple(checked))


# ------------------------------------------------------------------------------ schema


def _schema(stream: Branch | None, events: list[Branch], source: Source) -> Schema:
    options = _stream_options(stream, source)
    types: dict[str, dict[str, str]] = {}
    sources: dict[str, dict[str, str | int]] = {}
    codes: dict[str, int] = {}
    for event in events:
        name_token, _, sign, code, *declarations = event.children
        name = name_of(name_token)
        if name in types:
            raise source.error(f"event type '{name}' is declared twice; keep one", span_of(name_token))
        if code is not None:
            codes[name] = integer(code, source, 1 if sign is None else -1)  # type: ignore[arg-type]
        types[name], sources[name] = _attributes(name, declarations, source)
        # Checked one type at a time, so that an error can point to the statement.
        _build(source, span_of(event), {name: types[name]}, sources={name: sources[name]}, header=True, time=0)
    place = span_of(events[0] if stream is None or not stream.children else stream)
    if codes and len(codes) < len(types):
        missing = next(event for event in events if name_of(event.children[0]) not in codes)
        raise source.error(
            f"{name_of(missing.children[0])} has no code, but other event types have one; write EVENT "
            f"{name_of(missing.children[0])} = 7 (…), with its own number",
            span_of(missing.children[0]),
        )
    if codes and "type" not in options:
        raise source.error("event codes need a column that holds them; add TYPE 'column' to STREAM", place)
    if len(types) > 1 and "type" not in options:
        raise source.error(
            f"{len(types)} event types need a column that holds the type; add TYPE 'column' to STREAM", place
        )
    return _build(source, place, types, sources=sources, codes=codes or None, **options)


def _build(source: Source, place: ast.Span, types: dict[str, dict[str, str]], **options: Any) -> Schema:
    try:
        return Schema(types, **options)
    except SchemaError as error:
        raise source.error(str(error), place) from None


def _stream_options(stream: Branch | None, source: Source) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for option in [] if stream is None else stream.children:
        assert isinstance(option, Tree)
        key, value = _stream_option(option, source)
        if key in options:
            raise source.error("this option is written twice; keep one", span_of(option))
        options[key] = value
    return options


def _stream_option(option: Branch, source: Source) -> tuple[str, Any]:
    kind = option.data
    if kind == "no_header":
        return "header", False
    token = leaves(option)[0]
    if kind in ("time", "type", "sequence"):
        return kind, _column(token, source)
    if kind in ("time_format", "time_zone"):
        return kind, string_of(token)
    word = name_of(token).lower()
    choices = tuple(NANOSECONDS) if kind == "time_unit" else ("error", "ignore")
    if word not in choices:
        keyword = "UNIT" if kind == "time_unit" else "OTHER TYPES"
        hint = unit_hint(word) if kind == "time_unit" else suggest(word, choices)
        raise source.error(f"unknown {keyword} '{name_of(token)}'; expected {', '.join(choices)}{hint}", span_of(token))
    return kind, word


def _column(token: Any, source: Source) -> str | int:
    return integer(token, source) if token.type == "INT" else string_of(token)


def _attributes(event: str, declarations: list[Any], source: Source) -> tuple[dict[str, str], dict[str, str | int]]:
    dtypes: dict[str, str] = {}
    columns: dict[str, str | int] = {}
    for declaration in declarations:
        if declaration is None:
            continue
        name_token, dtype_token, column = declaration.children
        name, dtype = name_of(name_token), name_of(dtype_token).lower()
        if name in dtypes:
            raise source.error(f"{event} declares '{name}' twice; keep one", span_of(name_token))
        if dtype not in DTYPES:
            hint = dtype_hint(dtype) or suggest(dtype, DTYPES, "the types are")
            hint = f"; the name comes first: write {dtype_token} {name}" if name.lower() in DTYPES else hint
            raise source.error(f"unknown type '{name_of(dtype_token)}' of {event}.{name}{hint}", span_of(dtype_token))
        if name in Schema.BUILTINS:
            raise source.error(
                f"'{name}' is built in for every event; choose another name and read the column with FROM '{name}'",
                span_of(name_token),
            )
        dtypes[name] = dtype
        if column is not None:
            columns[name] = _column(column, source)
    return dtypes, columns


# ------------------------------------------------------------------------------ printing


def document_text(document: Document) -> str:
    """Return the canonical text of a document; parsing it gives an equal document."""
    schema = document.schema
    stream = [f"TIME {_column_text(schema.time)}"]
    if schema.time_format is not None:
        stream.append(f"FORMAT {string_text(schema.time_format)}")
    if schema.time_zone is not None:
        stream.append(f"ZONE {string_text(schema.time_zone)}")
    if schema.time_unit != "ns":
        stream.append(f"UNIT {schema.time_unit}")
    if schema.type is not None:
        stream.append(f"TYPE {_column_text(schema.type)}")
    if schema.sequence is not None:
        stream.append(f"SEQUENCE {_column_text(schema.sequence)}")
    if not schema.header:
        stream.append("NO HEADER")
    if schema.other_types == "ignore":
        stream.append("OTHER TYPES IGNORE")
    lines = [f"STREAM {' '.join(stream)}"]
    lines += [_event_text(schema, name) for name in schema.type_names]
    return "\n".join(lines) + "\n\n" + "\n".join(map(to_text, document.queries))


def _event_text(schema: Schema, name: str) -> str:
    code = "" if schema.codes is None else f" = {schema.codes[name]}"
    parts = []
    for attribute, dtype in schema.attributes(name).items():
        column = schema.columns[schema.column_of(name, attribute)].source
        origin = "" if column == attribute else f" FROM {_column_text(column)}"
        parts.append(f"{name_text(attribute)} {dtype}{origin}")
    return f"EVENT {name_text(name)}{code} ({', '.join(parts)})"


def _column_text(column: str | int) -> str:
    return str(column) if isinstance(column, int) else string_text(column)
