"""Columns of attributes of earlier events, ``prev(x.a, k)``, which are computed before a batch is matched.

Such a column has, for every event, the attribute of the event ``places`` before it. Its number follows those of the
schema, so that all that reads attributes of an event reads it in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fastcep.events import Schema
from fastcep.plan.contiguity import partition_plan
from fastcep.plan.ir import DTYPES, Earlier
from fastcep.plan.plan import PartitionPlan
from fastcep.query import ast
from fastcep.query.previous import previous_attributes, previous_dtype

__all__ = ["EarlierColumn", "EarlierColumns", "attribute_of", "stored_texts"]


@dataclass(frozen=True, slots=True)
class EarlierColumn:
    """A column with the attribute of the event ``places`` before each event.

    Attributes
    ----------
    name, places
        Name of the attribute, and the number of places.
    dtype
        Physical type (`fastcep.plan.ir`).
    values
        Per type id the column of the attribute; -1: the type has none. Empty for a built-in attribute.
    partition
        The partitions in which places count; None: the stream.
    keys
        Names of the attributes of the partition.
    """

    name: str
    places: int
    dtype: str
    values: tuple[int, ...]
    partition: PartitionPlan | None
    keys: tuple[str, ...]


class EarlierColumns:
    """The columns of an engine that hold attributes of earlier events, in the order of their numbers.

    Parameters
    ----------
    schema
        Schema of the events.

    Attributes
    ----------
    first
        Number of the first column.
    columns
        The columns.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.first = len(schema.columns)
        self.columns: list[EarlierColumn] = []

    def number(self, query: ast.Query, attr: Earlier) -> int:
        """Return the number of the column for an attribute that a query reads, as an index like that of the schema."""
        schema = self._schema
        node = ast.Attribute("x", attr.name, places=attr.places)
        values: tuple[int, ...] = ()
        if attr.name not in ("time", "type"):
            values = tuple(
                schema.column_of(kind, attr.name) if attr.name in schema.attributes(kind) else -1
                for kind in schema.type_names
            )
        column = EarlierColumn(
            attr.name, attr.places, DTYPES[previous_dtype(node, schema)], values, partition_plan(query), query.partition
        )
        if column not in self.columns:
            self.columns.append(column)
        return self.first + self.columns.index(column)

    def numbers(self, query: ast.Query) -> list[int]:
        """Return the numbers of all columns that a query reads, in the order in which it mentions them."""
        return [self.number(query, Earlier(node.name, node.places)) for node in previous_attributes(query)]

    def stored_numbers(self, queries: Iterable[ast.Query]) -> dict[int, int]:
        """Return, by the number that a column has in a snapshot of an engine with these queries, its number here."""
        stored = _of_queries(self._schema, queries)
        return {stored.first + place: self.first + self.columns.index(column)
                for place, column in enumerate(stored.columns)}  # fmt: skip

    def is_float(self, number: int) -> bool:
        """Return whether the column with this number has float64 values; it may be a column of the schema."""
        if number < self.first:
            return self._schema.columns[number].dtype == "float64"
        return self.columns[number - self.first].dtype == "f"

    @property
    def texts(self) -> list[int]:
        """Numbers of the columns with strings."""
        return [self.first + place for place, column in enumerate(self.columns) if column.dtype == "s"]


def attribute_of(node: ast.Attribute | ast.AttributeList | ast.Aggregate) -> str | Earlier | None:
    """Return what a node reads of an event: the name of an attribute, or that of an earlier event."""
    if isinstance(node, ast.Attribute) and node.places:
        return Earlier(node.name, node.places)
    return node.name


def stored_texts(schema: Schema, queries: Iterable[ast.Query]) -> list[int]:
    """Return the numbers of the columns with strings, in a snapshot of an engine with these queries."""
    return _of_queries(schema, queries).texts


def _of_queries(schema: Schema, queries: Iterable[ast.Query]) -> EarlierColumns:
    columns = EarlierColumns(schema)
    for query in queries:
        columns.numbers(query)
    return columns
