"""The places of texts in the tables of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.engine.earlier_values import is_earlier, text_columns_of
from fastcep.engine.running_query import RunningQuery
from fastcep.engine.state.stored_events import text_columns
from fastcep.engine.state.word_layout import WordLayout
from fastcep.events import Schema
from fastcep.plan.earlier import stored_texts

__all__ = ["event_places", "layout_of", "text_places"]

Tables = Mapping[str, Mapping[str, Any]]


def layout_of(item: RunningQuery) -> WordLayout:
    """Return the layout of the state of a query."""
    return WordLayout(item.plan, item.matcher)


def text_places(
    queries: Sequence[RunningQuery], schema: Schema, tables: Tables
) -> Iterator[tuple[str, str, npt.NDArray[np.bool_] | None]]:
    """Yield the places of the numbers of texts in tables: table, column, mask of its entries (None: all)."""
    for number, item in enumerate(queries):
        layouts = {f"{number} ": layout_of(item)}
        for place, matcher in enumerate([] if item.windows is None else item.windows.matchers):
            layouts[f"{number} {place} "] = WordLayout(matcher.plan, matcher)
        for prefix, layout in layouts.items():
            for table, row, mask in layout.texts(layout.from_tables(tables, prefix)):
                if prefix + table in tables:
                    yield prefix + table, str(row), mask
    for name in ("events", "held", "late"):
        if name in tables:
            rows, is_ring = tables[name], name == "events"
            for column, mask in event_places(queries, schema, rows) if is_ring else text_columns(schema, rows):
                yield name, column, mask
    for name in filter(is_earlier, tables):
        for column, mask in text_columns_of(tables[name]):
            yield name, column, mask


def event_places(
    queries: Sequence[RunningQuery], schema: Schema, rows: Mapping[str, Any]
) -> Iterator[tuple[str, npt.NDArray[np.bool_] | None]]:
    """Yield the places of the numbers of texts in the table of events: column, mask of its entries (None: all)."""
    return text_columns(schema, rows, stored_texts(schema, [item.query for item in queries]))
