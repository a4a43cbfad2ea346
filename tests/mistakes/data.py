"""Mistakes in events that a program gives to an engine."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import fastcep as fc
from mistakes.catalogue import Mistakes

MISTAKES = Mistakes()
SCHEMA = fc.Schema(
    {
        "Payment": {"card": "int64", "amount": "float64", "country": "string", "online": "bool"},
        "Refund": {"card": "int64"},
    },
    type="kind",
    time_unit="s",
)
QUERY = fc.parse("PATTERN SEQ(Payment a, Refund r) WHERE a.card = r.card WITHIN 1h", SCHEMA)
GOOD: dict[str, Any] = {
    "kind": ["Payment", "Refund"], "ts": [1, 2], "card": [7, 7], "amount": [9.5, None], "country": ["DE", None],
    "online": [True, None],
}  # fmt: skip


def _process(data: Any) -> None:
    fc.Engine(QUERY).process(data)


def _with(**columns: Any) -> None:
    _process(GOOD | columns)


def _without(column: str) -> dict[str, Any]:
    return {name: values for name, values in GOOD.items() if name != column}


@MISTAKES
def no_time_column(folder: Path) -> None:
    _process(_without("ts"))


@MISTAKES
def time_column_with_another_name(folder: Path) -> None:
    _process(_without("ts") | {"timestamp": [1, 2]})


@MISTAKES
def no_type_column(folder: Path) -> None:
    _process(_without("kind"))


@MISTAKES
def attribute_missing(folder: Path) -> None:
    _process(_without("amount"))


@MISTAKES
def column_in_another_case(folder: Path) -> None:
    _process(_without("card") | {"Card": [7, 7]})


@MISTAKES
def undeclared_event_type(folder: Path) -> None:
    _with(kind=["Payment", "Chargeback"])


@MISTAKES
def event_type_in_lower_case(folder: Path) -> None:
    _with(kind=["payment", "Refund"])


@MISTAKES
def event_type_missing(folder: Path) -> None:
    _with(kind=["Payment", None])


@MISTAKES
def event_type_as_a_number(folder: Path) -> None:
    _with(kind=[0, 1])


@MISTAKES
def times_out_of_order(folder: Path) -> None:
    _with(ts=[5, 2])


@MISTAKES
def time_before_the_last_batch(folder: Path) -> None:
    engine = fc.Engine(QUERY)
    engine.process(GOOD)
    engine.process(GOOD)


@MISTAKES
def time_missing(folder: Path) -> None:
    _with(ts=[1, None])


@MISTAKES
def times_as_texts(folder: Path) -> None:
    _with(ts=["2024-05-01 10:00:00", "2024-05-01 10:01:00"])


@MISTAKES
def times_as_floats(folder: Path) -> None:
    _with(ts=[1.5, 2.5])


@MISTAKES
def times_in_the_wrong_unit(folder: Path) -> None:
    _with(ts=[1714557600000000000, 1714557601000000000])


@MISTAKES
def numbers_as_texts(folder: Path) -> None:
    _with(card=["7", "7"])


@MISTAKES
def floats_for_integers(folder: Path) -> None:
    _with(card=[7.0, 7.5])


@MISTAKES
def pandas_integers_with_missing_values(folder: Path) -> None:
    _process(pd.DataFrame(GOOD | {"card": [7, None]}))


@MISTAKES
def integer_that_is_too_large(folder: Path) -> None:
    _with(card=pa.array([7, 2**63], pa.uint64()))


@MISTAKES
def texts_for_bools(folder: Path) -> None:
    _with(online=["yes", "no"])


@MISTAKES
def numbers_for_bools(folder: Path) -> None:
    _with(online=[1, 0])


@MISTAKES
def numbers_for_texts(folder: Path) -> None:
    _with(country=[49, 33])


@MISTAKES
def bytes_for_texts(folder: Path) -> None:
    _with(country=[b"DE", b"FR"])


@MISTAKES
def values_of_several_types(folder: Path) -> None:
    _with(card=[7, "seven"])


@MISTAKES
def lists_as_values(folder: Path) -> None:
    _with(card=[[7], [7]])


@MISTAKES
def two_dimensional_array(folder: Path) -> None:
    _with(card=np.zeros((2, 2)))


@MISTAKES
def columns_of_different_lengths(folder: Path) -> None:
    _with(card=[7])


@MISTAKES
def list_of_dicts(folder: Path) -> None:
    _process([{"kind": "Payment", "ts": 1, "card": 7}])


@MISTAKES
def dict_of_one_event(folder: Path) -> None:
    _process({"kind": "Payment", "ts": 1, "card": 7, "amount": 9.5, "country": "DE", "online": True})


@MISTAKES
def name_of_a_file(folder: Path) -> None:
    _process("events.csv")


@MISTAKES
def lazy_frame(folder: Path) -> None:
    _process(pl.DataFrame(GOOD).lazy())


@MISTAKES
def none_instead_of_data(folder: Path) -> None:
    _process(None)


@MISTAKES
def numpy_array(folder: Path) -> None:
    _process(np.zeros((3, 2)))


@MISTAKES
def column_that_occurs_twice(folder: Path) -> None:
    arrays = [pa.array(values) for values in GOOD.values()]
    _process(pa.Table.from_arrays([*arrays, arrays[2]], names=[*GOOD, "card"]))


@MISTAKES
def sent_type_unknown(folder: Path) -> None:
    fc.Engine(QUERY).send("Paymnt", ts=1, card=7)


@MISTAKES
def sent_attribute_unknown(folder: Path) -> None:
    fc.Engine(QUERY).send("Payment", ts=1, crad=7)


@MISTAKES
def sent_without_a_time(folder: Path) -> None:
    fc.Engine(QUERY).send("Payment", card=7)


@MISTAKES
def sent_with_a_text_for_a_number(folder: Path) -> None:
    fc.Engine(QUERY).send("Payment", ts=1, card="7")


@MISTAKES
def sent_with_a_float_for_a_number(folder: Path) -> None:
    fc.Engine(QUERY).send("Payment", ts=1, card=7.5)


@MISTAKES
def sent_with_a_number_for_a_bool(folder: Path) -> None:
    fc.Engine(QUERY).send("Payment", ts=1, card=7, online=1)


@MISTAKES
def sent_with_a_number_for_a_text(folder: Path) -> None:
    fc.Engine(QUERY).send("Payment", ts=1, card=7, country=49)


@MISTAKES
def sent_with_a_time_as_text(folder: Path) -> None:
    fc.Engine(QUERY).send("Payment", ts="2024-05-01", card=7)


@MISTAKES
def sent_with_a_float_time(folder: Path) -> None:
    fc.Engine(QUERY).send("Payment", ts=1.5, card=7)


@MISTAKES
def sent_before_the_last_event(folder: Path) -> None:
    engine = fc.Engine(QUERY)
    engine.send("Payment", ts=5, card=7)
    engine.send("Refund", ts=4, card=7)


@MISTAKES
def sent_as_a_dict(folder: Path) -> None:
    fc.Engine(QUERY).send({"kind": "Payment", "ts": 1})  # type: ignore[arg-type]


@MISTAKES
def advanced_to_the_past(folder: Path) -> None:
    engine = fc.Engine(QUERY)
    engine.send("Payment", ts=5, card=7)
    engine.advance(4)


@MISTAKES
def advanced_to_a_text(folder: Path) -> None:
    fc.Engine(QUERY).advance("2024-05-01")  # type: ignore[arg-type]


@MISTAKES
def advanced_by_a_duration(folder: Path) -> None:
    fc.Engine(QUERY).advance(timedelta(seconds=5))  # type: ignore[arg-type]


@MISTAKES
def advanced_to_a_time_without_a_zone(folder: Path) -> None:
    engine = fc.Engine(QUERY)
    engine.send("Payment", ts=datetime(2024, 5, 1), card=7)  # the mistake
    engine.advance(datetime(2023, 5, 1))


@MISTAKES
def processed_after_the_end(folder: Path) -> None:
    engine = fc.Engine(QUERY)
    engine.flush()
    engine.process(GOOD)


@MISTAKES
def sequence_numbers_out_of_order(folder: Path) -> None:
    schema = fc.Schema({"Login": {"card": "int64"}}, sequence="n")
    fc.Engine(fc.parse("PATTERN SEQ(Login a) WITHIN 1h", schema)).process({"ts": [1, 1], "n": [5, 4], "card": [7, 7]})
