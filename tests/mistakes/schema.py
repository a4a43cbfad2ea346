"""Mistakes in a schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastcep as fc
from mistakes.catalogue import Mistakes

MISTAKES = Mistakes()
PAYMENT: Any = {"Payment": {"card": "int64", "amount": "float64"}}
TWO: Any = PAYMENT | {"Refund": {"card": "int64"}}


@MISTAKES
def no_event_types(folder: Path) -> None:
    fc.Schema({})


@MISTAKES
def list_of_event_types(folder: Path) -> None:
    fc.Schema(["Payment", "Refund"])  # type: ignore[arg-type]


@MISTAKES
def attributes_without_event_types(folder: Path) -> None:
    fc.Schema({"card": "int64", "amount": "float64"})  # type: ignore[dict-item]


@MISTAKES
def list_of_attributes(folder: Path) -> None:
    fc.Schema({"Payment": ["card", "amount"]})  # type: ignore[dict-item]


@MISTAKES
def dtype_int(folder: Path) -> None:
    fc.Schema({"Payment": {"card": "int"}})


@MISTAKES
def dtype_str(folder: Path) -> None:
    fc.Schema({"Payment": {"country": "str"}})


@MISTAKES
def dtype_as_a_python_type(folder: Path) -> None:
    fc.Schema({"Payment": {"amount": float}})  # type: ignore[dict-item]


@MISTAKES
def dtype_int32(folder: Path) -> None:
    fc.Schema({"Payment": {"card": "int32"}})


@MISTAKES
def attribute_called_time(folder: Path) -> None:
    fc.Schema({"Payment": {"time": "int64"}})


@MISTAKES
def attribute_with_an_empty_name(folder: Path) -> None:
    fc.Schema({"Payment": {"": "int64"}})


@MISTAKES
def type_name_as_a_number(folder: Path) -> None:
    fc.Schema({1: {"card": "int64"}})  # type: ignore[dict-item]


@MISTAKES
def two_types_without_a_type_column(folder: Path) -> None:
    fc.Schema(TWO)


@MISTAKES
def unknown_time_unit(folder: Path) -> None:
    fc.Schema(PAYMENT, time_unit="seconds")


@MISTAKES
def time_unit_in_capitals(folder: Path) -> None:
    fc.Schema(PAYMENT, time_unit="MS")


@MISTAKES
def unknown_time_zone(folder: Path) -> None:
    fc.Schema(PAYMENT, time_zone="Berlin")


@MISTAKES
def time_zone_as_an_offset(folder: Path) -> None:
    fc.Schema(PAYMENT, time_zone="+02:00")


@MISTAKES
def time_format_that_is_empty(folder: Path) -> None:
    fc.Schema(PAYMENT, time_format="")


@MISTAKES
def time_as_a_negative_number(folder: Path) -> None:
    fc.Schema(PAYMENT, time=-1)


@MISTAKES
def time_as_none(folder: Path) -> None:
    fc.Schema(PAYMENT, time=None)  # type: ignore[arg-type]


@MISTAKES
def other_types_as_a_bool(folder: Path) -> None:
    fc.Schema(TWO, type="kind", other_types=False)  # type: ignore[arg-type]


@MISTAKES
def other_types_to_drop(folder: Path) -> None:
    fc.Schema(TWO, type="kind", other_types="drop")  # type: ignore[arg-type]


@MISTAKES
def source_of_an_unknown_type(folder: Path) -> None:
    fc.Schema(TWO, type="kind", sources={"Paymnt": {"card": "CARD_NO"}})


@MISTAKES
def source_of_an_unknown_attribute(folder: Path) -> None:
    fc.Schema(TWO, type="kind", sources={"Payment": {"crad": "CARD_NO"}})


@MISTAKES
def sources_without_the_types(folder: Path) -> None:
    fc.Schema(PAYMENT, sources={"card": "CARD_NO"})  # type: ignore[dict-item]


@MISTAKES
def codes_for_some_types(folder: Path) -> None:
    fc.Schema(TWO, type="kind", codes={"Payment": 1})


@MISTAKES
def codes_the_other_way_round(folder: Path) -> None:
    fc.Schema(TWO, type="kind", codes={1: "Payment", 2: "Refund"})  # type: ignore[dict-item]


@MISTAKES
def codes_that_are_equal(folder: Path) -> None:
    fc.Schema(TWO, type="kind", codes={"Payment": 1, "Refund": 1})


@MISTAKES
def codes_without_a_type_column(folder: Path) -> None:
    fc.Schema(PAYMENT, codes={"Payment": 1})


@MISTAKES
def no_header_with_named_columns(folder: Path) -> None:
    fc.Schema(PAYMENT, header=False)


@MISTAKES
def header_as_a_text(folder: Path) -> None:
    fc.Schema(PAYMENT, header="no")  # type: ignore[arg-type]


@MISTAKES
def unknown_type_of_a_schema(folder: Path) -> None:
    _ = fc.Schema(PAYMENT).Paymnt


@MISTAKES
def unknown_type_by_index(folder: Path) -> None:
    _ = fc.Schema(TWO, type="kind")["Order"]


@MISTAKES
def unknown_attribute_of_a_type(folder: Path) -> None:
    fc.Schema(PAYMENT).column_of("Payment", "crad")


@MISTAKES
def option_changed_later(folder: Path) -> None:
    fc.Schema(PAYMENT).time = "timestamp"


@MISTAKES
def one_column_with_two_dtypes(folder: Path) -> None:
    fc.Schema({"Payment": {"card": "int64"}, "Refund": {"card": "string"}}, type="kind")
