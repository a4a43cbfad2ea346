"""Schema of a stream: event types, their attributes, and the columns to read them from."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fastcep._core.input.name_codes import Names
from fastcep.errors import SchemaError
from fastcep.events.hints import dtype_hint, suggestion, unit_hint, zone_hint
from fastcep.events.units import INT64_MAX, INT64_MIN, NANOSECONDS
from fastcep.option_types import OtherTypes

__all__ = ["Column", "Schema", "TypeHandle", "difference", "suggestion"]

DTYPES = ("int64", "float64", "bool", "string", "timestamp")
_MAX_TYPES = 2**16 - 1  # type ids are uint16


@dataclass(frozen=True, slots=True)
class Column:
    """A physical column: its name or 0-based number in the data, and the dtype that the schema declares."""

    source: str | int
    dtype: str


@dataclass(frozen=True, slots=True)
class TypeHandle:
    """A declared event type. Call it with a name to get a variable of the query builder."""

    schema: Schema = field(repr=False)
    name: str

    def __call__(self, variable: str) -> Any:
        """Return a variable of the query builder, named `variable`.

        Raises
        ------
        RuntimeError
            `fastcep.query`, which sets `Schema._variable_factory`, has not been imported.
        """
        factory = Schema._variable_factory
        if factory is None:
            raise RuntimeError("no query builder is loaded; import fastcep.query first")
        return factory(self.schema, self.name, variable)


class Schema:
    """The event types of a stream and how to read them. Immutable, hashable, equal by content, picklable.

    Parameters
    ----------
    types
        Event type -> attribute -> dtype: ``"int64"``, ``"float64"``, ``"bool"``, ``"string"`` or
        ``"timestamp"``.
        The position of a type in the mapping is its type id.
    time
        Column of the timestamp: a name, or a 0-based number.
    type
        Column of the event type; None only if there is exactly one type.
    time_unit
        Unit of integers in the timestamp, and in attributes of dtype timestamp: ns, us, ms, s, min, h or d.
    sequence
        Column of the sequence number, or None for the order of arrival.
    other_types
        Treatment of events of undeclared types: ``"error"`` or ``"ignore"``.
    sources
        Event type -> attribute -> column name or 0-based number; by default the name of the attribute.
    codes
        Event type -> its integer code in the type column; by default that column holds names.
    time_format
        strptime format of timestamps stored as text, used by the file readers; also for attributes.
    time_zone
        Time zone of timestamps without one; by default UTC. Also for attributes.
    header
        False if the data has no column names; every column must then be given by number.

    Raises
    ------
    SchemaError
        A name, dtype, source, code or option is wrong.
    """

    __slots__ = (
        "_columns", "_finder", "_ids", "_index", "_key", "_types", "codes", "header", "other_types", "sequence",
        "sources", "time", "time_format", "time_unit", "time_zone", "type",
    )  # fmt: skip

    BUILTINS: ClassVar[tuple[str, ...]] = ("time", "seq", "type")
    # Set by the query builder, a layer above: (schema, type name, variable name) -> variable.
    _variable_factory: ClassVar[Callable[[Schema, str, str], Any] | None] = None

    time: str | int
    type: str | int | None
    time_unit: str
    sequence: str | int | None
    other_types: str
    sources: Mapping[str, Mapping[str, str | int]]
    codes: Mapping[str, int] | None
    time_format: str | None
    time_zone: str | None
    header: bool
    _types: Mapping[str, Mapping[str, str]]
    _ids: dict[str, int]
    _finder: Names
    _columns: tuple[Column, ...]
    _index: dict[tuple[str, str], int]
    _key: tuple[Any, ...]

    def __init__(
        self,
        types: Mapping[str, Mapping[str, str]],
        *,
        time: str | int = "ts",
        type: str | int | None = None,
        time_unit: str = "ns",
        sequence: str | int | None = None,
        other_types: OtherTypes = "error",
        sources: Mapping[str, Mapping[str, str | int]] | None = None,
        codes: Mapping[str, int] | None = None,
        time_format: str | None = None,
        time_zone: str | None = None,
        header: bool = True,
    ) -> None:
        set_field = object.__setattr__.__get__(self)
        set_field("_types", _checked_types(types))
        set_field("_ids", {name: i for i, name in enumerate(self._types)})
        set_field("_finder", Names([name.encode("utf-8", "surrogatepass") for name in self._types]))
        set_field("sources", _checked_sources(sources or {}, self._types))
        set_field("codes", None if codes is None else _checked_codes(codes, self._types))
        if type is None and len(self._types) != 1:
            raise SchemaError(f'{len(self._types)} event types but no type column; give one, such as type="type"')
        if type is None and codes is not None:
            raise SchemaError('codes given but no type column; give one, such as type="type"')
        for option, column in (("time", time), ("type", type), ("sequence", sequence)):
            if column is not None or option == "time":
                _check_source(column, option)
            set_field(option, column)
        if time_unit not in NANOSECONDS:
            units = ", ".join(NANOSECONDS)
            raise SchemaError(f"unknown time_unit {time_unit!r}; expected one of {units}{unit_hint(time_unit)}")
        set_field("time_unit", time_unit)
        if other_types not in ("error", "ignore"):
            raise SchemaError(f'other_types is {other_types!r}; expected "error" or "ignore"')
        set_field("other_types", other_types)
        if time_format is not None and (not isinstance(time_format, str) or not time_format):
            raise SchemaError(
                f"time_format is {time_format!r}; expected a strptime format, such as '%Y-%m-%d %H:%M:%S', or None"
            )
        set_field("time_format", time_format)
        if time_zone is not None:
            _check_zone(time_zone)
        set_field("time_zone", time_zone)
        if not isinstance(header, bool):
            raise SchemaError(f"header is {header!r}; expected True, or False for data without column names")
        set_field("header", header)
        self._place_columns()
        if not self.header:
            self._check_numbered()
        order = tuple((name, tuple(attributes.items())) for name, attributes in self._types.items())
        coded = None if self.codes is None else frozenset(self.codes.items())
        # str and int sources never compare equal, so the key needs no type tags.
        set_field(
            "_key",
            (order, self._columns, tuple(self._index.items()), coded, self.time, self.type, self.time_unit,
             self.sequence, self.other_types, self.time_format, self.time_zone, self.header),
        )  # fmt: skip

    def _place_columns(self) -> None:
        positions: dict[str | int, int] = {}
        columns: list[Column] = []
        first_attribute: list[str] = []
        column_of: dict[tuple[str, str], int] = {}
        for name, attributes in self._types.items():
            for attribute, dtype in attributes.items():
                source = self.sources.get(name, {}).get(attribute, attribute)
                at = positions.get(source)
                if at is None:
                    at = positions[source] = len(columns)
                    columns.append(Column(source, dtype))
                    first_attribute.append(f"{name}.{attribute}")
                elif columns[at].dtype != dtype:
                    raise SchemaError(
                        f"column {source!r} is {columns[at].dtype} for {first_attribute[at]} but {dtype} for "
                        f"{name}.{attribute}; declare the same dtype for both, or read them from different columns "
                        "(sources=…)"
                    )
                column_of[name, attribute] = at
        object.__setattr__(self, "_columns", tuple(columns))
        object.__setattr__(self, "_index", column_of)

    def _check_numbered(self) -> None:
        named: list[str] = [
            f"{option}={column!r}"
            for option, column in (("time", self.time), ("type", self.type), ("sequence", self.sequence))
            if isinstance(column, str)
        ]
        named += [
            f"the source of {name}.{attribute}"
            for (name, attribute), at in self._index.items()
            if isinstance(self._columns[at].source, str)
        ]
        if named:
            raise SchemaError(
                f"data without a header has no column names, but {named[0]} is a name; give its number from 0, "
                "such as time=0"
            )

    @property
    def type_names(self) -> tuple[str, ...]:
        """Names of the declared event types; the index of a name is its type id."""
        return tuple(self._types)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Physical columns that hold attributes. Attributes with the same source share a column."""
        return self._columns

    def type_id(self, type_name: str) -> int:
        """Return the index of a type in `type_names`; SchemaError if it is not declared."""
        self.attributes(type_name)
        return self._ids[type_name]

    def type_ids(self, offsets: npt.NDArray[Any], texts: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint16]:
        """Return uint16[n], the ids of type names, 65,535 for names that are not declared.

        Parameters
        ----------
        offsets
            int32 or int64[n + 1], start and end of each name in `texts`.
        texts
            uint8[...], UTF-8.
        """
        return self._finder.find(offsets, texts)

    def attributes(self, type_name: str) -> Mapping[str, str]:
        """Return the attributes of a type and their dtypes; SchemaError if the type is not declared."""
        try:
            return self._types[type_name]
        except KeyError:
            raise SchemaError(f"no event type {type_name!r}{suggestion(type_name, self._types)}") from None

    def column_of(self, type_name: str, attribute: str) -> int:
        """Return the index of an attribute's column in `columns`; SchemaError if the attribute is not declared."""
        attributes = self.attributes(type_name)
        if attribute not in attributes:
            raise SchemaError(f"{type_name} has no attribute {attribute!r}{suggestion(attribute, attributes)}")
        return self._index[type_name, attribute]

    def __getitem__(self, type_name: str) -> TypeHandle:
        """Return the handle of a type, also if ``schema.NAME`` cannot express its name; SchemaError if not declared."""
        self.attributes(type_name)
        return TypeHandle(self, type_name)

    def __getattr__(self, name: str) -> TypeHandle:
        if name.startswith("__") or name in Schema.__slots__ or name not in self._types:
            options = () if name.startswith("_") else self._types
            raise AttributeError(f"Schema has no event type {name!r}{suggestion(name, options)}")
        return TypeHandle(self, name)

    def __dir__(self) -> list[str]:
        """Return the event types too, for completion."""
        return sorted({*super().__dir__(), *(name for name in self._types if name.isidentifier())})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set {name!r}: a Schema is immutable; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete {name!r}: a Schema is immutable; make a new one")

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def _options(self) -> dict[str, Any]:
        options = {
            "time": self.time, "type": self.type, "time_unit": self.time_unit, "sequence": self.sequence,
            "other_types": self.other_types,
            "sources": {name: dict(columns) for name, columns in self.sources.items()},
            "codes": None if self.codes is None else dict(self.codes), "time_format": self.time_format,
            "time_zone": self.time_zone, "header": self.header,
        }  # fmt: skip
        return options

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, ({name: dict(attributes) for name, attributes in self._types.items()}, self._options())

    def __repr__(self) -> str:
        defaults = {"time": "ts", "time_unit": "ns", "other_types": "error", "sources": {}, "header": True}
        types = {name: dict(attributes) for name, attributes in self._types.items()}
        options = "".join(f", {key}={value!r}" for key, value in self._options().items() if value != defaults.get(key))
        return f"Schema({types!r}{options})"


def difference(found: Schema, expected: Schema) -> str:
    """Describe the first difference between two schemas: a type, an attribute or an option."""
    if found.type_names != expected.type_names:
        names, expected_names = found.type_names, expected.type_names
        missing = [name for name in expected_names if name not in names]
        surplus = [name for name in names if name not in expected_names]
        lists = (("no type", missing), ("a type", surplus))
        parts = [f"{label} {', '.join(map(repr, types))}" for label, types in lists if types]
        return "it has " + " and ".join(parts) if parts else f"its types come in the order {', '.join(names)}"
    for name in expected.type_names:
        attributes, expected_attributes = found.attributes(name), expected.attributes(name)
        for attribute in (*expected_attributes, *attributes):
            if attributes.get(attribute) != expected_attributes.get(attribute):
                dtype, expected_dtype = (
                    dtypes.get(attribute, "not there") for dtypes in (attributes, expected_attributes)
                )
                return f"{name}.{attribute} is {dtype}, expected {expected_dtype}"
        if tuple(attributes) != tuple(expected_attributes):
            return f"the attributes of {name} come in the order {', '.join(attributes)}"
    options = found._options()
    for option, value in expected._options().items():
        if options[option] != value:
            return f"{option} is {options[option]!r}, expected {value!r}"
    return "its columns differ"


def _rebuild(types: dict[str, dict[str, str]], options: dict[str, Any]) -> Schema:
    return Schema(types, **options)


def _check_name(name: object, role: str) -> None:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"{name!r} is not a name of {role}; expected a string of at least one character, such as 'A'")


def _checked_types(types: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
    if not isinstance(types, Mapping) or not types:
        raise SchemaError(
            f'the event types are {types!r}; expected a mapping of at least one, such as {{"A": {{"x": "int64"}}}}'
        )
    if len(types) > _MAX_TYPES:
        raise SchemaError(f"{len(types)} event types; expected at most {_MAX_TYPES}")
    checked: dict[str, Mapping[str, str]] = {}
    for name, attributes in types.items():
        _check_name(name, "an event type")
        if not isinstance(attributes, Mapping):
            raise SchemaError(
                f'event type {name!r} is {attributes!r}; expected its attributes, as in {{"A": {{"x": "int64"}}}}'
            )
        for attribute, dtype in attributes.items():
            _check_name(attribute, f"an attribute of {name}")
            if attribute in Schema.BUILTINS:
                raise SchemaError(
                    f"attribute {name}.{attribute} has the name of a built-in one ({', '.join(Schema.BUILTINS)}); "
                    f'rename it, and read it with sources={{"{name}": {{"other_name": "{attribute}"}}}}'
                )
            if dtype not in DTYPES:
                raise SchemaError(
                    f"{name}.{attribute} has dtype {dtype!r}; expected one of {', '.join(DTYPES)}{dtype_hint(dtype)}"
                )
        checked[name] = MappingProxyType(dict(attributes))
    return MappingProxyType(checked)


def _check_source(source: object, option: str) -> None:
    named = isinstance(source, str) and source != ""
    numbered = isinstance(source, int) and not isinstance(source, bool) and source >= 0
    if not (named or numbered):
        raise SchemaError(f"the column of {option} is {source!r}; expected a column name or a number from 0")


def _checked_sources(
    sources: Mapping[str, Mapping[str, str | int]], types: Mapping[str, Mapping[str, str]]
) -> Mapping[str, Mapping[str, str | int]]:
    checked: dict[str, Mapping[str, str | int]] = {}
    for name, columns in sources.items():
        if name not in types:
            form = '; expected types, then attributes, as in {"A": {"x": "column"}}'
            hint = suggestion(name, types) if isinstance(columns, Mapping) else form
            raise SchemaError(f"sources names the undeclared event type {name!r}{hint}")
        for attribute, source in columns.items():
            if attribute not in types[name]:
                raise SchemaError(
                    f"sources names the undeclared attribute {name}.{attribute}{suggestion(attribute, types[name])}"
                )
            _check_source(source, f"{name}.{attribute}")
        checked[name] = MappingProxyType(dict(columns))
    return MappingProxyType(checked)


def _checked_codes(codes: Mapping[str, int], types: Mapping[str, Mapping[str, str]]) -> Mapping[str, int]:
    owners: dict[int, str] = {}
    for name, code in codes.items():
        if name not in types:
            reverse = f"; write the type first, as in {{{code!r}: {name!r}}}"
            hint = reverse if str(code) in types else suggestion(name, types)
            raise SchemaError(f"codes names the undeclared event type {name!r}{hint}")
        if not isinstance(code, int) or isinstance(code, bool) or not INT64_MIN <= code <= INT64_MAX:
            raise SchemaError(f"the code of {name} is {code!r}; expected an int64")
        if code in owners:
            raise SchemaError(f"{owners[code]} and {name} have the same code {code}; give each type its own")
        owners[code] = name
    missing = [name for name in types if name not in codes]
    if missing:
        raise SchemaError(f"event type {missing[0]!r} has no code; give every type one, or leave codes out")
    return MappingProxyType(dict(codes))


def _check_zone(time_zone: str) -> None:
    try:
        zoneinfo.ZoneInfo(time_zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise SchemaError(
            f"unknown time_zone {time_zone!r}; expected a name such as 'UTC' or 'America/New_York'"
            f"{zone_hint(time_zone)}"
        ) from None
