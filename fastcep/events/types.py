"""Arrow types that each role of a column takes, and the remedy for the others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["ROLES", "TIMESTAMP", "is_known", "is_text", "plain_type", "refusal"]

#: The type of every time that fastcep returns.
TIMESTAMP = pa.timestamp("ns", "UTC")

_INTEGERS = ("integer", "decimal")
_TIMES = (*_INTEGERS, "timestamp", "date")
#: Families of types that each role of a column takes. The role of an attribute is its dtype.
ROLES: dict[str, tuple[str, ...]] = {
    "int64": _INTEGERS,
    "float64": (*_INTEGERS, "float"),
    "bool": ("bool",),
    "string": ("text",),
    "timestamp": _TIMES,
    "time": _TIMES,
    "type": ("text",),
    "code": _INTEGERS,
    "sequence": _INTEGERS,
}
_EXPECTED = {
    "type": "event type names (string)",
    "code": "integer codes of event types",
    "sequence": "integers",
}
#: The dtype to declare for an attribute of a family.
_DTYPES = {
    "text": "string", "bool": "bool", "integer": "int64", "decimal": "float64", "float": "float64",
    "timestamp": "timestamp", "date": "timestamp",
}  # fmt: skip
_ATTRIBUTES = ("int64", "float64", "bool", "string", "timestamp")
_NESTED = "give its parts as columns of their own"


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is a string type or a dictionary of one."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def plain_type(kind: Any) -> Any:
    """Return the type of a column's values, without encodings: dictionaries, run ends, supported extensions."""
    while True:
        if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        elif isinstance(kind, pa.JsonType):
            kind = kind.storage_type
        elif isinstance(kind, pa.Bool8Type):
            kind = pa.bool_()
        else:
            return kind


def is_known(kind: Any) -> bool:
    """Return whether some role takes a type."""
    return bool(_family(plain_type(kind)))


def refusal(kind: Any, role: str, unit: str) -> tuple[str, str] | None:
    """Return the expectation and the remedy for a type that a role does not take, None if it takes it.

    Parameters
    ----------
    kind
        Arrow type of the column.
    role
        A key of `ROLES`.
    unit
        Unit of integer times.
    """
    values = plain_type(kind)
    family = _family(values)
    if family == "null" or family in ROLES[role]:
        return None
    expected = f"integers in {unit} or timestamps" if role in ("time", "timestamp") else _EXPECTED.get(role, role)
    return expected, _remedy(kind, family, role)


def _family(kind: Any) -> str:
    """Return the name of a family of types that are treated alike; empty if no role takes the type."""
    types: Any = pa.types  # the stubs lack some functions
    if is_text(kind):
        return "text"
    tests = {
        "null": types.is_null, "bool": types.is_boolean, "integer": types.is_integer, "decimal": types.is_decimal,
        "float": types.is_floating, "timestamp": types.is_timestamp, "date": types.is_date,
    }  # fmt: skip
    return next((family for family, test in tests.items() if test(kind)), "")


def _remedy(kind: Any, family: str, role: str) -> str:
    if role in ("time", "timestamp") and family == "text":
        return "parse it to timestamps, or read the data with fastcep.io.open_source, which does"
    if pa.types.is_nested(plain_type(kind)):
        return _NESTED
    declare = f"declare the attribute {_DTYPES[family]}, or " if role in _ATTRIBUTES and family in _DTYPES else ""
    target = {"type": "string", "string": "string", "float64": "float64", "bool": "bool"}.get(role, "int64")
    if role == "type" and family == "integer":
        declare = "give codes={type name: integer}, or "
    if role == "code" and family == "text":
        declare = "leave out codes, or "
    cast = _cast(kind, target)
    if cast is not None:
        return f"{declare}cast the column to {target}: {cast}"
    if not declare and role in _ATTRIBUTES:
        for dtype in ("int64", "string"):
            if (cast := _cast(kind, dtype)) is not None:
                return f"declare the attribute {dtype} and cast the column to it: {cast}"
    return f"{declare}cast the column to {target} where it is made"


def _cast(kind: Any, target: str) -> str | None:
    """Return the expression that casts a pyarrow column, None if Arrow cannot cast it."""
    if pa.types.is_run_end_encoded(kind):
        return None
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.UuidType):
        return None  # the meaning of its storage is unknown
    to = {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string()}[target]
    try:
        pa.nulls(0, kind).cast(to)
    except pa.ArrowException:
        return None
    return f"column.cast(pa.{str(to).replace('double', 'float64').replace('bool', 'bool_')}())"
