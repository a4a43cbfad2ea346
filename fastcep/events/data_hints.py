"""Remedies for data that holds no columns, lacks one of them, or has values of another type."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from fastcep.events.hints import suggestion

__all__ = ["event_remedy", "missing_column", "no_columns", "no_values", "spark_remedy"]

_COLUMN_OPTIONS = {"time", "type", "sequence"}


def no_columns(data: object) -> str:
    """Return the remedy for an object that holds no table."""
    if isinstance(data, str | PathLike):
        return "for a file use fastcep.io.open_source(path, schema)"
    if isinstance(data, list | tuple) and data and isinstance(data[0], Mapping):
        return "for a list of dicts use pyarrow.Table.from_pylist(events)"
    if callable(getattr(data, "collect", None)):
        return "call its collect() first"
    if type(data).__name__ == "ndarray":
        return "name the columns, as in {'ts': array[:, 0], 'x': array[:, 1]}"
    return "give a DataFrame, or columns such as {'ts': [1, 2], 'x': [5, 7]}"


def no_values(values: object) -> str:
    """Return the remedy for an object that is not a column."""
    if not hasattr(values, "__len__"):
        return "give a list with one value per event, or send one event with Engine.send"
    return "give a list or an array with one value per event, all of one type"


def missing_column(source: str, needed_for: str, names: list[str]) -> str:
    """Return the end of a message on a missing column: a similar name, and how to name another column."""
    if needed_for in _COLUMN_OPTIONS:
        option = f"{needed_for}='…'"
    else:
        type_name, _, attribute = needed_for.partition(".")
        option = f"sources={{{type_name!r}: {{{attribute!r}: '…'}}}}"
    return f"{_columns(source, names)}; for another column give the schema {option}"


def _columns(source: str, names: list[str]) -> str:
    return suggestion(source, names).removesuffix("; choose one of them").removesuffix("; write that")


def event_remedy(role: str, remedy: str) -> str:
    """Return the remedy for a value of one event, given that for a column."""
    declare = remedy.partition(", or ")[0] if remedy.startswith("declare") else ""
    target = "an int or a datetime" if role in ("time", "timestamp") else role
    return f"give {target}" + (f", or {declare}" if declare else "")


def spark_remedy(role: str, column: str | int, remedy: str) -> str:
    """Return the remedy for a column of a Spark DataFrame, given that for a column of Arrow."""
    if "cast" not in remedy and role not in ("time", "timestamp"):
        return remedy
    declare = remedy.partition(", or ")[0] + ", or " if ", or cast" in remedy else ""
    kind = {
        "float64": "double", "bool": "boolean", "string": "string", "type": "string", "time": "timestamp",
        "timestamp": "timestamp",
    }.get(role)  # fmt: skip
    return f"{declare}cast it: frame.withColumn({column!r}, F.col({column!r}).cast({kind or 'bigint'!r}))"
