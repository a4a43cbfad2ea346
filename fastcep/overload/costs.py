"""Cost tables: nanoseconds per counted operation on the virtual clock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh64_hexdigest

from fastcep.errors import ValidationError
from fastcep.io.write.target import write_text

__all__ = ["NAMES", "OPERATIONS", "CostTable", "cost_table"]

#: Names of the built-in tables.
NAMES = ("measured", "paper")

_MOST = 1e12  # nanoseconds, about a quarter of an hour; a larger cost is a mistake, and a few would overflow the clock
_EXPECTED = f"expected a number of nanoseconds from 0 to {_MOST:g}"


@dataclass(frozen=True)
class CostTable:
    """Nanoseconds per counted operation.

    Attributes
    ----------
    name
        Name for reports.
    event
        Cost of an event of the stream.
    relevant
        Cost of an event that some variable may bind.
    visited
        Cost of visiting a partial match.
    created
        Cost of storing a partial match.
    refused
        Cost of a partial match that a shedder refuses at birth.
    match
        Cost of a match.
    purged
        Cost of visiting a partial match when shedding drops live partial matches.
    decision
        Cost of a decision of a shedder.

    Raises
    ------
    ValidationError
        If a number is negative, not finite or too large.
    """

    name: str
    event: float = 0.0
    relevant: float = 0.0
    visited: float = 0.0
    created: float = 0.0
    refused: float = 0.0
    match: float = 0.0
    purged: float = 0.0
    decision: float = 0.0

    def __post_init__(self) -> None:
        for key in OPERATIONS:
            _check_number(getattr(self, key), f"CostTable({self.name!r}): {key}")

    @classmethod
    def named(cls, name: str) -> CostTable:
        """Return a built-in table.

        Parameters
        ----------
        name
            ``"measured"``: calibrated constants. ``"paper"``: 1 per partial match visited, 1 per partial match created,
            and 0 for all other operations.

        Raises
        ------
        ValidationError
            If there is no such table.
        """
        if name == "paper":
            return cls("paper", visited=1.0, created=1.0)
        if name == "measured":
            return _measured()
        raise ValidationError(f"cost table {name!r}: expected {' or '.join(map(repr, NAMES))}")

    @property
    def nanoseconds(self) -> dict[str, float]:
        """Costs by operation, in the order of the attributes."""
        return {key: float(getattr(self, key)) for key in OPERATIONS}

    @property
    def hash(self) -> str:
        """The xxhash64 of the costs, in hex: tables of equal hash give equal latencies, whatever their names."""
        return xxh64_hexdigest(self.picoseconds().astype("<i8").tobytes())

    def picoseconds(self) -> npt.NDArray[np.int64]:
        """Return the costs in the order of the attributes: int64[8], rounded to picoseconds."""
        return np.array([round(value * 1000) for value in self.nanoseconds.values()], dtype=np.int64)

    def write(self, path: str | PathLike[str], about: Mapping[str, Any] | None = None) -> None:
        """Write the table as JSON, for `cost_table` to read.

        Parameters
        ----------
        path
            File to write; an existing file is replaced.
        about
            Further information to store, such as the machine on which the costs were measured.

        Raises
        ------
        ValidationError
            If the file cannot be written.
        """
        write_text(path, self.as_json(about) + "\n")

    def as_json(self, about: Mapping[str, Any] | None = None) -> str:
        """Return the text that `write` writes."""
        data = {"name": self.name, "nanoseconds": self.nanoseconds, "hash": self.hash}
        return json.dumps(data | ({} if about is None else {"about": dict(about)}), indent=2)


#: Names of the operations, in the order of `CostTable.picoseconds`.
OPERATIONS = tuple(field.name for field in fields(CostTable) if field.name != "name")


def cost_table(spec: CostTable | str | PathLike[str]) -> CostTable:
    """Return a cost table by name or from a file.

    Parameters
    ----------
    spec
        A table, the name of a built-in one (``"measured"``, ``"paper"``), or the path of a JSON file that
        ``fastcep calibrate`` or `CostTable.write` wrote.

    Raises
    ------
    ValidationError
        If there is no such table or file, or the file is not a cost table.
    """
    if isinstance(spec, CostTable):
        return spec
    if not isinstance(spec, str | PathLike):
        names = _builtin_names()
        raise ValidationError(f"cost table {spec!r}: expected a CostTable, {names} or the path of a JSON file")
    path = fspath(spec)
    if path in NAMES:
        return CostTable.named(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        names = _builtin_names()
        raise ValidationError(f"cost table '{path}': there is no such file; expected {names} or a file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError(f"cost table '{path}' cannot be read: {error}") from None
    return _parse_table(text, path)


@cache
def _measured() -> CostTable:
    file = resources.files("fastcep.overload") / "measured.json"
    return _parse_table(file.read_text(encoding="utf-8"), "measured.json")


def _builtin_names() -> str:
    return ", ".join(f'"{name}"' for name in NAMES)


def _parse_table(text: str, file: str) -> CostTable:
    """Parse a text that `CostTable.write` wrote; ``file`` is its name in error messages."""
    where = f"cost table '{file}'"
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ValidationError(f"{where}: expected JSON, as `fastcep calibrate --output` writes it ({error})") from None
    if not isinstance(data, dict):
        raise ValidationError(f"{where}: expected a JSON object with the keys name and nanoseconds")
    name, numbers = data.get("name"), data.get("nanoseconds")
    if not isinstance(name, str) or not name:
        raise ValidationError(f"{where}: name is {name!r}, expected a text")
    if not isinstance(numbers, dict):
        raise ValidationError(f"{where}: nanoseconds is {numbers!r}, expected an object with {', '.join(OPERATIONS)}")
    for key in OPERATIONS:
        if key not in numbers:
            raise ValidationError(f"{where}: nanoseconds has no key {key!r}; {_EXPECTED}")
        _check_number(numbers[key], f"{where}: nanoseconds.{key}")
    if unknown := sorted(set(numbers) - set(OPERATIONS)):
        raise ValidationError(f"{where}: nanoseconds.{unknown[0]} is not known; expected only {', '.join(OPERATIONS)}")
    return CostTable(name, **numbers)


def _check_number(value: Any, where: str) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= _MOST:
        raise ValidationError(f"{where} is {value!r}, {_EXPECTED}")
