"""`write_matches`: start a streaming query that writes matches, late events and timed-out partial matches."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from os import PathLike
from typing import Any

from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from fastcep.engine.queries import Buildable
from fastcep.errors import ValidationError
from fastcep.query import ast
from fastcep.spark.streaming.batch import BatchDetection
from fastcep.spark.streaming.commit import Commits
from fastcep.spark.streaming.description import Description
from fastcep.spark.streaming.files import Files, absolute
from fastcep.spark.streaming.preparation import prepare
from fastcep.spark.streaming.sinks import Sink, sink_of

__all__ = ["write_matches"]

_TRIGGER = "expected {'processingTime': '1 second'}, {'availableNow': True} or None"


def write_matches(
    stream: DataFrame,
    query: ast.Query | Buildable,
    sink: str | PathLike[str] | Callable[[DataFrame, int], object],
    checkpoint: str | PathLike[str],
    *,
    allowed_lateness: str | timedelta = "0s",
    timed_out: bool = False,
    slices: int | None = None,
    order_by: str | Sequence[str] | None = None,
    attributes: bool = False,
    on_change: str = "error",
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    cache_batches: bool = False,
    **options: Any,
) -> StreamingQuery:
    """Start a streaming query that finds the matches of a query and writes them.

    Each row is written exactly once if the source can be read again and gives the same rows, and if the sink allows it.

    Parameters
    ----------
    stream
        Streaming DataFrame, with the columns that the query's schema names. Its source must be replayable, as for every
        streaming query that is to survive a failure (files, Kafka, Delta; not sockets).
    query
        One query. Its variables must agree in an attribute, unless ``slices=1``.
    sink
        A folder for Parquet files, one subfolder per micro-batch, or a function that is called with the rows of a
        micro-batch and its number. After a failure, it is called with the same rows and the same number again.
    checkpoint
        Folder for the state, which all executors can write to. With the same folder, the query continues.
    allowed_lateness
        How far an event may be behind the latest event of the micro-batches before its own.
    timed_out
        Also write the partial matches whose window ends.
    slices
        Number of parallel tasks, from 1 to 64; None: that of the checkpoint, at first one per core of the session. It
        may change when the query is started again.
    order_by
        As for `detect`.
    attributes
        Return the time and every attribute of all matched events, as `Engine` does.
    on_change
        ``"error"``: a query that differs from that of the checkpoint is an error. ``"replace"``: it starts without
        state.
    trigger
        One argument of `pyspark.sql.streaming.DataStreamWriter.trigger`: ``{"processingTime": "1 second"}`` is the
        interval of micro-batches, ``{"availableNow": True}`` ends the query with the data that exists now.
    query_name
        Name of the streaming query in Spark.
    cache_batches
        Cache each micro-batch, as it is read twice: for sources that are slow to read.
    **options
        Options of the engines: ``memory_limit``, ``on_memory_limit``, ``store``, ``index``, ``latency_bound``,
        ``shedder``, ``model``, ``detector``, ``cost_table``, ``timed_out_limit``.

    Returns
    -------
    StreamingQuery
        The running query. Errors in the data end it; its ``exception()`` has the message.

    Raises
    ------
    ValidationError
        If the DataFrame is not a stream, the stream cannot be cut by key for this query, an option is invalid, or the
        checkpoint or sink belongs to another query.
    SchemaError
        If the columns do not fit the schema.
    SnapshotError
        If the checkpoint is damaged, or Spark's part of it is missing.
    """
    commits = Commits(Files(absolute(checkpoint, "checkpoint")))
    latest = commits.latest()
    prepared = prepare(
        stream, query, commits.files.folder, uuid.uuid4().hex[:12], latest, allowed_lateness=allowed_lateness,
        timed_out=timed_out, slices=slices, order_by=order_by, attributes=attributes, on_change=on_change,
        options=options,
    )  # fmt: skip
    stream_plan = prepared.stream_plan
    writer = _writer(stream, trigger, query_name)
    target = sink_of(sink, stream_plan.output.schema)
    description = Description.of(prepared)
    try:
        identity, replaces = description.check(commits.files, latest, stream_plan)
        commits.prepare_offsets(latest)  # now that the folder is known to be the checkpoint of this query
        target.prepare(identity)
    except OSError as error:
        raise ValidationError(
            f"cannot use checkpoint={commits.files.folder!r} or the sink: {error}; pass folders that can be written"
        ) from None
    detection = BatchDetection(prepared, stream.sparkSession.sparkContext.broadcast(stream_plan))
    describe = partial(description.write, commits.files, identity) if replaces else None
    return _start(writer, _Batches(detection, commits, target, cache_batches, describe), query_name)


class _Batches:
    """The function that Spark calls for each micro-batch.

    A batch is detected, committed, and written. If the driver fails in between, Spark calls the function with the same
    batch again, and the steps that are done are left out. ``describe`` is called after the first commit.
    """

    def __init__(
        self, detection: BatchDetection, commits: Commits, sink: Sink, caches: bool, describe: Callable[[], None] | None
    ) -> None:
        self._detection, self._commits, self._sink, self._caches = detection, commits, sink, caches
        self._describe = describe

    def __call__(self, frame: DataFrame, batch: int) -> None:
        commit, before = self._commits.read(batch), None
        if commit is None:
            before = self._commits.before(batch)
            if self._caches:
                frame.persist()
            try:
                commit = self._detection.run(frame, batch, before)
            finally:
                if self._caches:
                    frame.unpersist()
            self._commits.write(commit)
            if self._describe is not None and commit.units != (before.units if before is not None else ()):
                self._describe()
                self._describe = None
        self._sink.write(frame.sparkSession, commit, self._commits.files)
        self._commits.clean(before, commit)


def _writer(stream: DataFrame, trigger: Mapping[str, Any] | None, name: str | None) -> DataStreamWriter:
    """Return a writer with these settings, of which nothing is started."""
    writer = stream.writeStream
    if trigger is not None:
        if not isinstance(trigger, Mapping) or [*trigger] not in (["availableNow"], ["processingTime"]):
            raise ValidationError(f"trigger={trigger!r}: {_TRIGGER}")
        try:
            writer = writer.trigger(**trigger)
        except PySparkException:
            raise ValidationError(f"trigger={trigger!r}: {_TRIGGER}") from None
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise ValidationError(f"query_name={name!r}: expected a name or None")
    return writer if name is None else writer.queryName(name)


def _start(writer: DataStreamWriter, batches: _Batches, name: str | None) -> StreamingQuery:
    def fastcep_batch(frame: DataFrame, batch: int) -> None:
        batches(frame, batch)

    location = batches._commits.files.uri("spark")
    try:
        return writer.foreachBatch(fastcep_batch).option("checkpointLocation", location).start()
    except IllegalArgumentException as error:
        if name is None or "already active" not in str(error):
            raise
        raise ValidationError(f"query_name={name!r}: another streaming query of the session has this name; pass "
                              "another one, or stop that query") from None  # fmt: skip
