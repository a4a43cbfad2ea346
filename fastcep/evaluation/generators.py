"""The generator that a stream seems to come from, and an independent draw of it."""

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
_ENOUGH = 200  # events of C of which the smallest and the largest of ten values are seen

_FIXED = {"ID": Values(1, 10), "x": Values(0, 4, whole=False), "y": Values(0, 4, whole=False), "v": Values(2, 5)}


@dataclass(frozen=True)
class Generator:
    """A generator with its options.

    Attributes
    ----------
    name
        ``ds1`` or ``ds2``.
    c_values
        The smallest and largest V of C, of ``ds1``.
    """

    name: str
    c_values: tuple[int, int] = C_VALUES

    @property
    def values(self) -> Mapping[str, Values]:
        """What values the attributes have, but the key."""
        if self.name == "ds2":
            return {name: _FIXED[name] for name in _DS2 - {"ID"}}
        return {"V": Values(min(1, self.c_values[0]), max(10, self.c_values[1]))}

    def draw(self, events: int, seed: int) -> pa.Table:
        """Generate a stream."""
        return ds2(events, seed) if self.name == "ds2" else ds1(events, seed, c_values=self.c_values)


def generator_of(events: pa.Table, schema: Schema) -> Generator:
    """Tell which generator a stream is of, by its columns and the values in them.

    Raises
    ------
    ValidationError
        If it is of none.
    """
    names = {name for kind in schema.type_names for name in schema.attributes(kind)}
    columns = set(events.column_names)
    if (schema.type, schema.time, schema.sequence) == ("type", "ts", None) and set(schema.type_names) <= set("ABCD"):
        for name, attributes in (("ds1", _DS1), ("ds2", _DS2)):
            if names <= attributes <= columns:
                return _checked(name, events, names)
    raise ValidationError(
        "shedders: 'informed' knows the generators ds1 (events A to D with type, ID, V, ts) and ds2 (with x, y and v), "
        f"and the events have {', '.join(events.column_names)}; leave it out"
    )


def _checked(name: str, events: pa.Table, names: set[str]) -> Generator:
    """The generator, if the values of the attributes are its own."""
    found = Generator(name)
    rest, expected = events, _FIXED
    if name == "ds1":
        of_c = pc.field("type") == "C"
        rest, expected = events.filter(~of_c), {"ID": Values(1, 10), "V": Values(1, 10)}
        if "V" in names:
            found = Generator(name, _values_of_c(events.filter(of_c)))
    for column in sorted(expected.keys() & names):
        of = expected[column]
        low, high = _ends(rest, column)
        if low is not None and not of.low <= low <= high <= of.high:
            raise ValidationError(
                f"shedders: 'informed' knows the generator {name}, where {column!r} goes from {of.low:g} to "
                f"{of.high:g}, and the events have {low} to {high}; leave it out"
            )
    return found


def _values_of_c(events: pa.Table) -> tuple[int, int]:
    """The range that V is drawn from: the usual one, unless there are other values, or enough and never all of it."""
    low, high = _ends(events, "V")
    usual = low is None or C_VALUES[0] <= low <= high <= C_VALUES[1]
    return C_VALUES if usual and len(events) < _ENOUGH else (low, high)


def _ends(events: pa.Table, column: str) -> tuple[Any, Any]:
    """The smallest and the largest value; None of none."""
    values = events[column].drop_null().to_numpy()
    return (values.min().item(), values.max().item()) if len(values) else (None, None)
