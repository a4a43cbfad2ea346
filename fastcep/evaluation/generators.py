"""Recognise the generator of a stream, and generate an independent stream from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fastcep.datasets import ds1, ds2
from fastcep.datasets.generate import C_VALUES
from fastcep.errors import ValidationError
from fastcep.evaluation.features import Values
from fastcep.events import Schema

__all__ = ["Generator", "generator_of"]

_DS1, _DS2 = {"ID", "V"}, {"ID", "x", "y", "v"}
_MIN_SAMPLE = 200  # events of C that are sure to contain the smallest and the largest of ten values

_FIXED = {"ID": Values(1, 10), "x": Values(0, 4, integral=False), "y": Values(0, 4, integral=False), "v": Values(2, 5)}


@dataclass(frozen=True)
class Generator:
    """Generator with its options.

    Attributes
    ----------
    name
        ``ds1`` or ``ds2``.
    c_values
        Smallest and largest V of events C, for ``ds1``.
    """

    name: str
    c_values: tuple[int, int] = C_VALUES

    @property
    def values(self) -> Mapping[str, Values]:
        """Ranges of the attributes, without the key."""
        if self.name == "ds2":
            return {name: _FIXED[name] for name in _DS2 - {"ID"}}
        return {"V": Values(min(1, self.c_values[0]), max(10, self.c_values[1]))}

    def draw(self, events: int, seed: int) -> pa.Table:
        """Generate a stream."""
        return ds2(events, seed) if self.name == "ds2" else ds1(events, seed, c_values=self.c_values)


def generator_of(events: pa.Table, schema: Schema) -> Generator:
    """Recognise the generator of a stream by its columns and values.

    Raises
    ------
    ValidationError
        If the stream comes from no known generator.
    """
    names = {name for kind in schema.type_names for name in schema.attributes(kind)}
    columns = set(events.column_names)
    if (schema.type, schema.time, schema.sequence) == ("type", "ts", None) and set(schema.type_names) <= set("ABCD"):
        for name, attributes in (("ds1", _DS1), ("ds2", _DS2)):
            if names <= attributes <= columns:
                return _checked(name, events, names)
    raise ValidationError(
        "shedders: 'informed' knows the generators ds1 (events A to D with type, ID, V, ts) and ds2 (with x, y and v), "
        f"and the events have {', '.join(events.column_names)}; omit it"
    )


def _checked(name: str, events: pa.Table, names: set[str]) -> Generator:
    """Return the generator if the values of the attributes are within its ranges."""
    generator = Generator(name)
    fixed_events, ranges = events, _FIXED
    if name == "ds1":
        of_c = pc.field("type") == "C"
        fixed_events, ranges = events.filter(~of_c), {"ID": Values(1, 10), "V": Values(1, 10)}
        if "V" in names:
            generator = Generator(name, _values_of_c(events.filter(of_c)))
    for column in sorted(ranges.keys() & names):
        expected = ranges[column]
        low, high = _range(fixed_events, column)
        if low is not None and not expected.low <= low <= high <= expected.high:
            raise ValidationError(
                f"shedders: 'informed' knows the generator {name}, where {column!r} ranges from {expected.low:g} to "
                f"{expected.high:g}, and the events have {low} to {high}; omit it"
            )
    return generator


def _values_of_c(events: pa.Table) -> tuple[int, int]:
    """Return the range of V: the default one if the events are few and fit it, otherwise the observed one."""
    low, high = _range(events, "V")
    fits_default = low is None or C_VALUES[0] <= low <= high <= C_VALUES[1]
    return C_VALUES if fits_default and len(events) < _MIN_SAMPLE else (low, high)


def _range(events: pa.Table, column: str) -> tuple[Any, Any]:
    """Return the smallest and the largest value; None without values."""
    values = events[column].drop_null().to_numpy()
    return (values.min().item(), values.max().item()) if len(values) else (None, None)
