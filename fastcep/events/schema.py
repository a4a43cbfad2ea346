"""What the events of a stream look like, and where their attributes stand in the data."""

from __future__ import annotations

import difflib
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fastcep._core.input.name_codes import Names
from fastcep.errors import SchemaError
from fastcep.events.units import INT64_MAX, INT64_MIN, NANOSECONDS
from fastcep.option_types import OtherTypes

__all__ = ["Column", "Schema", "TypeHandle", "difference", "suggestion"]

DTYPES = ("int64", "float64", "bool", "string")
_MAX_TYPES = 2**16 - 1  # type ids are uint16


@dataclass(frozen=True, slots=True)
class Column:
    """A physical column: its name or 0-based number in the data, and the dtype that the schema declares."""

    source: str | int
    dtype: str


@dataclass(frozen=True, slots=True)
class TypeHandle:
    """A declared event type; calling it with a name gives a variable of the query builder."""

    schema: Schema = field(repr=False)
    name: str

    def __call__(self, variable: str) -> Any:
        """Make the builder's variable called `variable`.

        Raises
        ------
        RuntimeError
            `fastcep.query` has not been imported, so nobody has set `Schema._variable_factory`.
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
        Per event type its attributes and their dtypes: ``"int64"``, ``"float64"``, ``"bool"`` or ``"string"``.
        The position of a type is its type id.
    time
        Column of the timestamp: a name, or a 0-based number.
    type
        Column of the event type; None only if there is exactly one type.
    time_unit
        Unit of an integer timestamp: ns, us, ms, s, min, h or d.
    sequence
        Column of the sequence number, or None for the order of arrival.
    other_types
        ``"error"`` or ``"ignore"``: what an event of an undeclared type is.
    sources
        Per event type, attribute -> column name or 0-based number; by default the attribute's own name.
    codes
        Event type -> the integer that stands for it in the type column; by default that column holds names.
    time_format
        strptime format of a textual timestamp; for the readers of files.
    time_zone
        Zone of timestamps that name none; by default UTC.
    header
        False if the data has no column names; then every column is given by number.

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
    # Set by the query builder, which is a layer above: (schema, type name, variable name) -> variable.
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
        put = object.__setattr__.__get__(self)
        put("_types", _checked_types(types))
        put("_ids", {name: i for i, name in enumerate(self._types)})
        put("_finder", Names([name.encode("utf-8", "surrogatepass") for name in self._types]))
        put("sources", _checked_sources(sources or {}, self._types))
        put("codes", None if codes is None else _checked_codes(codes, self._types))
        if type is None and len(self._types) != 1:
            raise SchemaError(f'{len(self._types)} event types but no type column; give one, such as type="type"')
        if type is None and codes is not None:
            raise SchemaError('codes given but no type column; give one, such as type="type"')
        for option, column in (("time", time), ("type", type), ("sequence", sequence)):
            if column is not None:
                _check_source(column, option)
            put(option, column)
        if time_unit not in NANOSECONDS:
            raise SchemaError(f"unknown time_unit {time_unit!r}; expected one of {', '.join(NANOSECONDS)}")
        put("time_unit", time_unit)
        if other_types not in ("error", "ignore"):
            raise SchemaError(f'other_types is {other_types!r}; expected "error" or "ignore"')
        put("other_types", other_types)
        if time_format is not None and (not isinstance(time_format, str) or not time_format):
            raise SchemaError(f"time_format is {time_format!r}; expected a strptime format or None")
        put("time_format", time_format)
        if time_zone is not None:
            _check_zone(time_zone)
        put("time_zone", time_zone)
        put("header", bool(header))
        self._place_columns()
        if not self.header:
            self._check_numbered()
        order = tuple((name, tuple(attributes.items())) for name, attributes in self._types.items())
        coded = None if self.codes is None else frozenset(self.codes.items())
        # str and int sources never compare equal, so the key needs no further tags.
        put(
            "_key",
            (order, self._columns, tuple(self._index.items()), coded, self.time, self.type, self.time_unit,
             self.sequence, self.other_types, self.time_format, self.time_zone, self.header),
        )  # fmt: skip

    def _place_columns(self) -> None:
        positions: dict[str | int, int] = {}
        columns: list[Column] = []
        first: list[str] = []
        index: dict[tuple[str, str], int] = {}
        for name, attributes in self._types.items():
            for attribute, dtype in attributes.items():
                source = self.sources.get(name, {}).get(attribute, attribute)
                at = positions.get(source)
                if at is None:
                    at = positions[source] = len(columns)
                    columns.append(Column(source, dtype))
                    first.append(f"{name}.{attribute}")
                elif columns[at].dtype != dtype:
                    raise SchemaError(
                        f"column {source!r} is {columns[at].dtype} for {first[at]} but {dtype} for {name}.{attribute}; "
                        "declare the same dtype for both, or read them from different columns (sources=…)"
                    )
                index[name, attribute] = at
        object.__setattr__(self, "_columns", tuple(columns))
        object.__setattr__(self, "_index", index)

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
            raise SchemaError(f"data without a header has no column names, but {named[0]} is a name; give its number")

    @property
    def type_names(self) -> tuple[str, ...]:
        """The declared event types; the index of one is its type id."""
        return tuple(self._types)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The physical columns that hold attributes. Types that read the same source share one."""
        return self._columns

    def type_id(self, type_name: str) -> int:
        """Give the index of a type in `type_names`; SchemaError if it is not declared."""
        self.attributes(type_name)
        return self._ids[type_name]

    def type_ids(self, offsets: npt.NDArray[Any], texts: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint16]:
        """Return the ids of type names, 65,535 of those that are not declared.

        Parameters
        ----------
        offsets
            int32 or int64[n + 1], where each name starts and ends.
        texts
            uint8[...], UTF-8.
        """
        return self._finder.find(offsets, texts)

    def attributes(self, type_name: str) -> Mapping[str, str]:
        """Give the attributes of a type and their dtypes; SchemaError if the type is not declared."""
        try:
            return self._types[type_name]
        except KeyError:
            raise SchemaError(f"no event type {type_name!r}{suggestion(type_name, self._types)}") from None

    def column_of(self, type_name: str, attribute: str) -> int:
        """Give the index into `columns` of an attribute; SchemaError if it is not declared."""
        attributes = self.attributes(type_name)
        if attribute not in attributes:
            raise SchemaError(f"{type_name} has no attribute {attribute!r}{suggestion(attribute, attributes)}")
        return self._index[type_name, attribute]

    def __getitem__(self, type_name: str) -> TypeHandle:
        """Give the handle of a type; for names that ``schema.NAME`` cannot express. SchemaError if not declared."""
        self.attributes(type_name)
        return TypeHandle(self, type_name)

    def __getattr__(self, name: str) -> TypeHandle:
        if name.startswith("__") or name in Schema.__slots__ or name not in self._types:
            options = () if name.startswith("_") else self._types
            raise AttributeError(f"Schema has no event type {name!r}{suggestion(name, options)}")
        return TypeHandle(self, name)

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
            "other_types": self.other_types, "sources": {name: dict(of) for name, of in self.sources.items()},
            "codes": None if self.codes is None else dict(self.codes), "time_format": self.time_format,
            "time_zone": self.time_zone, "header": self.header,
        }  # fmt: skip
        return options

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, ({name: dict(of) for name, of in self._types.items()}, self._options())

    def __repr__(self) -> str:
        defaults = {"time": "ts", "time_unit": "ns", "other_types": "error", "sources": {}, "header": True}
        shown = "".join(f", {k}={v!r}" for k, v in self._options().items() if v != defaults.get(k))
        return f"Schema({ {name: dict(of) for name, of in self._types.items()}!r}{shown})"


def difference(found: Schema, expected: Schema) -> str:
    """Tell how two schemas differ: by a type, an attribute or an option, the first there is."""
    if found.type_names != expected.type_names:
        names, wanted = found.type_names, expected.type_names
        missing = [name for name in wanted if name not in names]
        surplus = [name for name in names if name not in wanted]
        parts = [f"{what} {', '.join(map(repr, of))}" for what, of in (("no type", missing), ("a type", surplus)) if of]
        return "it has " + " and ".join(parts) if parts else f"its types come in the order {', '.join(names)}"
    for name in expected.type_names:
        has, wants = found.attributes(name), expected.attributes(name)
        for attribute in (*wants, *has):
            if has.get(attribute) != wants.get(attribute):
                this, that = (of.get(attribute, "not there") for of in (has, wants))
                return f"{name}.{attribute} is {this}, expected {that}"
        if tuple(has) != tuple(wants):
            return f"the attributes of {name} come in the order {', '.join(has)}"
    options = found._options()
    for option, value in expected._options().items():
        if options[option] != value:
            return f"{option} is {options[option]!r}, expected {value!r}"
    return "its columns differ"


def suggestion(name: object, options: Iterable[object]) -> str:
    """End a message on an unknown name: the closest known one, or the first few there are."""
    known = [str(option) for option in options]
    if not known:
        return ""
    close = difflib.get_close_matches(str(name), known, n=1)
    if not close:
        close = [option for option in known if option.lower() == str(name).lower()]
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there is {', '.join(map(repr, known[:8]))}{', …' if len(known) > 8 else ''}"


def _rebuild(types: dict[str, dict[str, str]], options: dict[str, Any]) -> Schema:
    return Schema(types, **options)


def _check_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"{name!r} is no name of {what}; expected a text that is not empty")


def _checked_types(types: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
    if not isinstance(types, Mapping) or not types:
        raise SchemaError('no event type declared; expected a mapping such as {"A": {"x": "int64"}}')
    if len(types) > _MAX_TYPES:
        raise SchemaError(f"{len(types)} event types; expected at most {_MAX_TYPES}")
    checked: dict[str, Mapping[str, str]] = {}
    for name, attributes in types.items():
        _check_name(name, "an event type")
        if not isinstance(attributes, Mapping):
            raise SchemaError(f'event type {name!r} is {attributes!r}; expected a mapping such as {{"x": "int64"}}')
        for attribute, dtype in attributes.items():
            _check_name(attribute, f"an attribute of {name}")
            if attribute in Schema.BUILTINS:
                raise SchemaError(
                    f"attribute {name}.{attribute} is called like a built-in one ({', '.join(Schema.BUILTINS)}); "
                    f'name it otherwise and read it with sources={{"{name}": {{"other_name": "{attribute}"}}}}'
                )
            if dtype not in DTYPES:
                raise SchemaError(
                    f"{name}.{attribute} has dtype {dtype!r}; expected one of {', '.join(DTYPES)}{_dtype_hint(dtype)}"
                )
        checked[name] = MappingProxyType(dict(attributes))
    return MappingProxyType(checked)


def _dtype_hint(dtype: object) -> str:
    close = difflib.get_close_matches(str(dtype), DTYPES, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _check_source(source: object, where: str) -> None:
    named = isinstance(source, str) and source != ""
    numbered = isinstance(source, int) and not isinstance(source, bool) and source >= 0
    if not (named or numbered):
        raise SchemaError(f"the column of {where} is {source!r}; expected a column name or a number from 0")


def _checked_sources(
    sources: Mapping[str, Mapping[str, str | int]], types: Mapping[str, Mapping[str, str]]
) -> Mapping[str, Mapping[str, str | int]]:
    checked: dict[str, Mapping[str, str | int]] = {}
    for name, columns in sources.items():
        if name not in types:
            raise SchemaError(f"sources names the undeclared event type {name!r}{suggestion(name, types)}")
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
            raise SchemaError(f"codes names the undeclared event type {name!r}{suggestion(name, types)}")
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
        ) from None
