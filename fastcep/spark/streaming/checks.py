"""Checks of the arguments of a streaming query, before it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from fastcep.engine import Engine
from fastcep.engine.queries import Buildable, built_queries
from fastcep.engine.state.keygroups import GROUPS
from fastcep.engine.times import duration_text
from fastcep.errors import ModelError, ValidationError
from fastcep.events import Schema
from fastcep.plan import Plan, make_plan
from fastcep.plan.plan import KeyPlan
from fastcep.plan.slicing import slicing_of, slicing_refusal
from fastcep.query import ast
from fastcep.shedding.model import models_of
from fastcep.spark.columns import events_of
from fastcep.spark.streaming.commit import Commit

__all__ = [
    "check_frame", "check_options", "cut_of", "engine_options", "first_engine", "one_query", "slice_count",
]  # fmt: skip

_OPTIONS = (
    "cost_table", "detector", "index", "latency_bound", "memory_limit", "model", "on_memory_limit", "shedder", "store",
    "timed_out_limit",
)  # fmt: skip


def one_query(query: ast.Query | Buildable, attributes: bool) -> ast.Query:
    """Build the query; ValidationError unless it is exactly one."""
    built = built_queries(query, attributes)
    if len(built) != 1:
        raise ValidationError(f"found {len(built)} queries, expected one; start one streaming query for each")
    return built[0]


def check_options(options: Mapping[str, Any], on_change: str) -> None:
    """Check the names of options; their values are checked by the first engine."""
    for name in options:
        if name not in _OPTIONS:
            raise ValidationError(
                f"{name}=…: a streaming query does not support this option; use {', '.join(_OPTIONS)}"
            )
    if on_change not in ("error", "replace"):
        raise ValidationError(f"found on_change={on_change!r}, expected 'error' or 'replace'")


def engine_options(
    options: Mapping[str, Any], query: ast.Query, plain: ast.Query, allowed_lateness: str | timedelta, timed_out: bool
) -> dict[str, Any]:
    """Return the options of the engines, with models of the query over plain events.

    Raises
    ------
    ModelError
        If a model is for another query, or a folder has none.
    ValidationError
        If the lateness is invalid.
    """
    result = {**options, "allowed_lateness": duration_text(allowed_lateness), "timed_out": timed_out}
    if result.get("model") is not None:
        models = models_of("a streaming query", result["model"])
        for model in models:
            model.check(query)
        result["model"] = [replace(model, query=plain) for model in models]
    return result


def first_engine(plain: ast.Query, options: dict[str, Any]) -> Engine:
    """Return an engine with these options; it rejects queries and options that cannot run.

    Raises
    ------
    ValidationError
        If an option is invalid, or a shedder holds a model, which is of the query over the user's events.
    """
    try:
        return Engine(plain, **options)
    except ModelError as error:
        if isinstance(options.get("shedder"), str | None):
            raise
        raise ValidationError(
            f"shedder={options['shedder']!r} holds a model, which a streaming query cannot use; pass the shedder by "
            f"its name and the model apart: shedder='hybrid', model=… ({error})"
        ) from None


def check_frame(stream: DataFrame, schema: Schema, order_by: str | Sequence[str] | None) -> None:
    """Check that a DataFrame is a stream of a classic session, and that its columns fit the schema."""
    if not hasattr(stream, "isStreaming"):
        raise ValidationError(f"found {type(stream).__name__}, expected a streaming DataFrame; use spark.readStream")
    if not stream.isStreaming:
        raise ValidationError(
            "found a bounded DataFrame, expected a streaming one; create one with spark.readStream, or call "
            "fastcep.spark.detect for a bounded one"
        )
    session = stream.sparkSession
    if not isinstance(session, SparkSession) or not hasattr(session, "_jsparkSession"):
        raise ValidationError(
            "found a Spark Connect session, expected a classic one: the driver of a streaming query keeps its state; "
            "start the query in a classic session"
        )
    events_of(session.createDataFrame([], stream.schema), schema, order_by)


def slice_count(slices: int | None, latest: Commit | None, session: SparkSession) -> int:
    """Return the number of slices; ValidationError if it is invalid."""
    if slices is None:
        return latest.slices if latest is not None else min(GROUPS, int(session.sparkContext.defaultParallelism))
    if isinstance(slices, bool) or not isinstance(slices, int) or not 1 <= slices <= GROUPS:
        raise ValidationError(f"slices={slices!r}: expected a whole number from 1 to {GROUPS}, or None")
    return slices


def cut_of(query: ast.Query, slices: int) -> tuple[Plan, KeyPlan | None, bool]:
    """Return the plan of the query, its key (None: it has none), and whether it needs the events of all types.

    A query with a key is cut by it into one slice, too, as that slice may have the units of several earlier ones.

    Raises
    ------
    ValidationError
        If the stream cannot be cut by key; the error names the clause.
    """
    plan = make_plan(query)
    slicing = slicing_of(plan)
    if isinstance(slicing.key, str):
        if slices == 1:
            return plan, None, slicing.numbered
        remedy = "pass slices=1 to process the whole stream in one task"
        if "no attribute is equal" in slicing.key:
            remedy = "make all variables agree in an attribute, WHERE [attribute], or " + remedy
        raise ValidationError(slicing_refusal(query.name, [slicing.key], remedy, "key"))
    return plan, slicing.key, slicing.numbered
