"""Mistakes with Spark DataFrames. They need a running session; `session` starts one if there is none."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import fastcep as fc
from mistakes.catalogue import Mistakes

MISTAKES = Mistakes()
SCHEMA = fc.Schema({"Payment": {"card": "int64"}, "Refund": {"card": "int64"}}, type="kind", time_unit="s")
TEXT = "PATTERN SEQ(Payment a, Refund r) WHERE a.card = r.card WITHIN 10s"
QUERY = fc.parse(TEXT, SCHEMA)


@lru_cache
def session() -> Any:
    """Return the active Spark session, or a new one."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return SparkSession.getActiveSession() or builder.config("spark.log.level", "OFF").getOrCreate()


def _frame(columns: str = "kind string, ts long, card long", *rows: tuple[Any, ...]) -> Any:
    data = rows or (("Payment", 1, 7), ("Refund", 2, 7))
    return session().createDataFrame(list(data), columns)


def _detect(frame: Any, query: Any = QUERY, **options: Any) -> None:
    import fastcep.spark

    fastcep.spark.detect(frame, query, **options).collect()


@MISTAKES
def pandas_frame(folder: Path) -> None:
    import pandas as pd

    _detect(pd.DataFrame({"kind": ["Payment"], "ts": [1], "card": [7]}))


@MISTAKES
def arguments_swapped(folder: Path) -> None:
    _detect(QUERY, _frame())


@MISTAKES
def query_as_a_text(folder: Path) -> None:
    _detect(_frame(), TEXT)


@MISTAKES
def counts_of_two_queries(folder: Path) -> None:
    import fastcep.spark

    fastcep.spark.transition_counts(_frame(), [QUERY, fc.parse(TEXT, SCHEMA, name="other")])  # type: ignore[arg-type]


@MISTAKES
def column_missing(folder: Path) -> None:
    _detect(_frame().drop("card"))


@MISTAKES
def time_column_missing(folder: Path) -> None:
    _detect(_frame().withColumnRenamed("ts", "timestamp"))


@MISTAKES
def column_of_another_type(folder: Path) -> None:
    _detect(_frame("kind string, ts long, card string", ("Payment", 1, "7")))


@MISTAKES
def time_as_a_text(folder: Path) -> None:
    _detect(_frame("kind string, ts string, card long", ("Payment", "2024-05-01", 7)))


@MISTAKES
def order_by_an_unknown_column(folder: Path) -> None:
    _detect(_frame(), order_by="row")


@MISTAKES
def unknown_slicing(folder: Path) -> None:
    _detect(_frame(), slicing="hash")


@MISTAKES
def no_slices(folder: Path) -> None:
    _detect(_frame(), slices=0)


@MISTAKES
def option_of_the_engine_that_spark_lacks(folder: Path) -> None:
    _detect(_frame(), latency_bound="5ms")


@MISTAKES
def slicing_by_a_key_that_the_query_lacks(folder: Path) -> None:
    _detect(_frame(), fc.parse("PATTERN SEQ(Payment a, Refund r) WITHIN 10s", SCHEMA), slicing="key")


@MISTAKES
def unbounded_query(folder: Path) -> None:
    _detect(_frame(), fc.parse("PATTERN SEQ(Payment a, Refund r) WITHIN UNBOUNDED", SCHEMA))


@MISTAKES
def fit_of_an_unknown_kind(folder: Path) -> None:
    import fastcep.spark

    fastcep.spark.fit(QUERY, _frame(), kind="hybird")


@MISTAKES
def runner_without_a_session(folder: Path) -> None:
    import fastcep.spark

    fastcep.spark.SparkRunner("local[2]")  # type: ignore[arg-type]
