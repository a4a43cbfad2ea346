"""Hypothesis strategies for small schemas and streams with ties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from reference.matcher import Event, Value

from fastcep.events import Schema
from strategies.patterns import Draw

DTYPES = {"k": "int64", "v": "int64", "f": "float64", "s": "string", "b": "bool", "t": "timestamp"}
SMALL = [0, 1, 2]
VALUES: dict[str, list[Value]] = {
    "int64": [*SMALL, *SMALL, *SMALL, -1, 3, 2**53 + 1, 2**62, -(2**63)],
    "float64": [0.0, 1.0, 2.0, 0.5, 1.0, 0.0, -1.5, -0.0, float("nan"), float("inf"), 2.0**53],
    "string": ["x", "y", "x", "y", "z", ""],
    "bool": [False, True],
    "timestamp": [0, 1, 2, -1, 25 * 3600 * 10**9, 2**53 + 1, 2**62, 1 - 2**63],  # -2**63 is NaT in pandas
}


@st.composite
def schemas(draw: Draw, numbers: Sequence[int] = (2, 1, 3)) -> Schema:
    """Draw a few types, their number from ``numbers``.

    ``k`` is in all types, other attributes in some; sometimes there are own columns, codes or a sequence.
    """
    names = [*"ABCDE"][: draw(st.sampled_from(numbers))]
    types = {
        name: {key: dtype for key, dtype in DTYPES.items() if key == "k" or draw(st.sampled_from([False, True, True]))}
        for name in names
    }
    options: dict[str, Any] = {"type": "type" if len(names) > 1 or draw(st.booleans()) else None}
    if draw(rarely()):
        options["sources"] = {name: {key: f"{name}.{key}" for key in types[name]} for name in names}
    if options["type"] is not None and draw(rarely()):
        options["codes"] = {name: 7 * number - 3 for number, name in enumerate(names)}
    if draw(rarely()):
        options["sequence"] = "number"
    return Schema(types, time="ts", **options)


def rarely() -> st.SearchStrategy[bool]:
    """Draw True once in eight; shrinks to False."""
    return st.sampled_from([False] * 7 + [True])


@st.composite
def streams(draw: Draw, schema: Schema, most: int = 9, few: bool = False) -> list[Event]:
    """Draw up to ``most`` events in order, many at the same time; about one value in eight is null.

    ``few``: nearly all values of an attribute are one of two, so that many events agree in it.
    """
    events: list[Event] = []
    count = draw(st.integers(draw(st.sampled_from([0, *[min(4, most)] * 7])), most))
    time, seq = draw(st.sampled_from([0, 0, 5, -3])), -1
    for _ in range(count):
        name = draw(st.sampled_from(schema.type_names))
        time += draw(st.sampled_from([0, 0, 1, 1, 0, 2, 5]))
        seq += 1 if schema.sequence is None else draw(st.sampled_from([1, 1, 2, 5]))
        values = {key: draw(values_of(dtype, few)) for key, dtype in schema.attributes(name).items()}
        events.append(Event(name, time, seq, values))
    return events


def values_of(dtype: str, few: bool = False) -> st.SearchStrategy[Value]:
    """Draw a value of a dtype, or null."""
    if few:
        return st.sampled_from(VALUES[dtype][:2] * 8 + [VALUES[dtype][-1], None])
    return st.sampled_from(VALUES[dtype][:3] * 3 + VALUES[dtype] + [None, None])
