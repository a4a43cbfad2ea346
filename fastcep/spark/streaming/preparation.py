"""Check the arguments of a streaming query, and compute everything that does not depend on its batches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame

from fastcep.engine.queries import Buildable
from fastcep.events import parse_duration
from fastcep.plan import Plan
from fastcep.plan.plan import KeyPlan
from fastcep.query import ast
from fastcep.query.plain_schema import plain_query
from fastcep.spark.functions import pickled, ship_functions
from fastcep.spark.streaming.checks import (
    check_frame,
    check_options,
    cut_of,
    engine_options,
    first_engine,
    one_query,
    slice_count,
)
from fastcep.spark.streaming.commit import Commit
from fastcep.spark.streaming.output import output_of
from fastcep.spark.streaming.slice_engine import StreamPlan, event_schema

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True)
class Prepared:
    """A streaming query whose arguments are valid.

    Attributes
    ----------
    query
        The query over the user's events.
    plan
        Its plan.
    key
        Key by which the stream is cut; None: it is not cut.
    numbered
        Whether the query depends on positions in the whole stream, so that it needs all events.
    slices
        Number of slices.
    order_by
        Columns that order events of the same time, without a sequence column.
    lateness
        Allowed lateness, ns.
    options
        Options of the engines.
    shedding
        Shedder with its model, and detectors, as text.
    stream_plan
        What the executors need.
    """

    query: ast.Query
    plan: Plan
    key: KeyPlan | None
    numbered: bool
    slices: int
    order_by: str | Sequence[str] | None
    lateness: int
    options: dict[str, Any]
    shedding: str
    stream_plan: StreamPlan


def prepare(
    stream: DataFrame,
    query: ast.Query | Buildable,
    checkpoint: str,
    run: str,
    latest: Commit | None,
    *,
    allowed_lateness: str | timedelta,
    timed_out: bool,
    slices: int | None,
    order_by: str | Sequence[str] | None,
    attributes: bool,
    on_change: str,
    options: Mapping[str, Any],
) -> Prepared:
    """Check the arguments of `write_matches` or `detect_stream`; errors as for `write_matches`.

    Parameters
    ----------
    checkpoint, run
        As for `StreamPlan`.
    latest
        Last commit of the checkpoint; None: none, or Spark stores the state.
    """
    built = one_query(query, attributes)
    check_options(options, on_change)
    check_frame(stream, built.schema, order_by)
    slices = slice_count(slices, latest, stream.sparkSession)
    plan, key, numbered = cut_of(built, slices)
    plain, lateness = plain_query(built), parse_duration(allowed_lateness)
    all_options = engine_options(options, built, plain, allowed_lateness, timed_out)
    # Before an engine uses the shedder.
    pickled_options = pickled(all_options, "the options of the engines", "they must")
    engine = first_engine(plain, all_options)
    output = output_of(engine, built.schema, built, timed_out=timed_out)
    stream_plan = StreamPlan(
        plain, event_schema(built.schema), pickled_options, ship_functions(built), output, checkpoint, run, on_change,
        timed_out,
    )  # fmt: skip
    control = engine._stream.queries.control
    models = [model.hash for model in all_options.get("model") or ()]  # those of 'auto' are not in its specification
    shedding = "none" if control is None else json.dumps(control.specs() | {"models": models}, sort_keys=True)
    return Prepared(built, plan, key, numbered, slices, order_by, lateness, all_options, shedding, stream_plan)
