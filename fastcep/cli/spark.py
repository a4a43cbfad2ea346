"""``--spark``: a Spark session, and the input as a DataFrame that keeps the order of the files.

Spark reads Parquet files directly. `fastcep.io` reads all other formats batch by batch and converts them to a temporary
Parquet file, because Spark's own readers follow other rules and could read different events.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from fastcep.cli.inputs import InputOptions
from fastcep.errors import DataError, FastcepError, ValidationError
from fastcep.events import Schema
from fastcep.io.formats import of_name
from fastcep.io.read.files import list_files
from fastcep.io.read.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkEvents", "SparkOptions", "events_on_spark", "session", "spark_options"]

_CHUNK = 65_536
#: Up to this many files are ordered as they are given, more of them by name.
_MAX_NUMBERED_FILES = 64
_FILE, _PATH, _ROW = "fastcep_file", "fastcep_path", "fastcep_row"
_TYPES = {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string()}
#: Message of an error of fastcep: in a traceback of a worker, or as an error that a plan raises.
_FASTCEP_ERROR = re.compile(
    r"^(?:fastcep\.errors\.\w+:|\[USER_RAISED_EXCEPTION\]) (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class SparkOptions:
    """Master URL of Spark."""

    master: str = "local[*]"

    @property
    def local(self) -> bool:
        """True if Spark runs on this machine."""
        return self.master.startswith("local")


def spark_options(spark: bool, master: str | None) -> SparkOptions | None:
    """Combine the options ``--spark`` and ``--master``; None without Spark.

    Raises
    ------
    ValidationError
        If there is a master without ``--spark``.
    """
    if not spark:
        if master is not None:
            raise ValidationError(f"--master {master} needs --spark; add it, or omit --master")
        return None
    return SparkOptions() if master is None else SparkOptions(master)


@contextmanager
def session(options: SparkOptions) -> Iterator[SparkSession]:
    """Start a session, and stop it on exit; an active session of the process is used instead, and keeps running.

    Raises
    ------
    ValidationError
        If PySpark or Java is missing, the master cannot be reached, Spark fails, or a task raises an error of fastcep.
    """
    import_module("fastcep.spark")  # raises an error that names missing packages
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        with _spark_errors():
            yield active
        return
    started = _start_session(options)
    try:
        with _spark_errors():
            yield started
    finally:
        started.stop()


def _start_session(options: SparkOptions) -> SparkSession:
    from pyspark.sql import SparkSession

    from fastcep.spark.session import UNCHECKED_BATCHES

    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and shutil.which("java", path=str(Path(home) / "bin"))):
        raise ValidationError(
            "--spark needs Java 17 or newer, and 'java' is not on PATH; install it, such as openjdk-17-jre-headless, "
            "or set JAVA_HOME to its folder"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.appName("fastcep")
        .master(options.master)
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.caseSensitive", "true")
        .config(*UNCHECKED_BATCHES)
    )
    if options.local:  # no other machine connects
        builder = (
            builder.config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
        )
    try:
        with _stdout_to_stderr():
            return builder.getOrCreate()
    except Exception as error:
        raise ValidationError(
            f"--master {options.master}: Spark did not start ({_first_line(error)}); check that the master is running "
            "and that 'java -version' reports 17 or newer"
        ) from None


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirect standard output to standard error, for child processes too: standard output is for results."""
    sys.stdout.flush()
    stdout_copy = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(stdout_copy, 1)
        os.close(stdout_copy)


@contextmanager
def _spark_errors() -> Iterator[None]:
    """Translate errors of Spark to ValidationError; if a task raised an error of fastcep, keep its message."""
    from pyspark.errors import PySparkException

    try:
        yield
    except FastcepError:
        raise
    except Exception as error:
        from_spark = isinstance(error, PySparkException) or type(error).__name__.startswith("Py4J")
        if not from_spark:
            raise
        fastcep_error = _FASTCEP_ERROR.search(str(error))
        if fastcep_error is not None:
            raise ValidationError(_first_line(fastcep_error[1])) from None
        raise ValidationError(f"--spark: Spark failed: {_first_line(error)}") from error


def _first_line(error: object) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


# ----------------------------------------------------------------------------------------------------------- events


@dataclass(frozen=True)
class SparkEvents:
    """Events as a DataFrame.

    Attributes
    ----------
    frame
        The events; None if there are none.
    order_by
        Columns that order events of the same time as in their files; None if events have sequence numbers.
    rows, bad_rows
        Numbers of events and of bad rows.
    """

    frame: DataFrame | None
    order_by: list[str] | None
    rows: int
    bad_rows: int = 0


@contextmanager
def events_on_spark(
    spark: SparkSession, inputs: InputOptions, sources: Sequence[str], schema: Schema, options: SparkOptions
) -> Iterator[SparkEvents]:
    """Yield the events as a DataFrame; temporary files are removed on exit.

    Raises
    ------
    FastcepError
        If a file or a row cannot be read, or if executors on other machines cannot read the input.
    """
    files = _parquet_files(inputs, sources, schema)
    if files is not None:
        frame, position = _read_directly(spark, files, schema)
        yield SparkEvents(frame, None if schema.sequence is not None else position, frame.count())
        return
    if not options.local:
        raise ValidationError(
            f"--master {options.master}: expected Parquet files at paths that all executors see, with times in "
            "microseconds or coarser, and without --bad-rows; found an input that only this machine can read. "
            "Convert it to Parquet files first, or omit --master"
        )
    with TemporaryDirectory(prefix="fastcep-") as folder:
        path = str(Path(folder) / "events.parquet")
        rows, bad = _convert(inputs, sources, schema, path)
        order = None if schema.sequence is not None else [_ROW]
        yield SparkEvents(spark.read.parquet(path) if rows else None, order, rows, bad)


def _parquet_files(inputs: InputOptions, sources: Sequence[str], schema: Schema) -> list[str] | None:
    """Return the files and URLs if Spark can read all of them directly, otherwise None."""
    if inputs.bad_rows is not None or not schema.header:
        return None
    files: list[str] = []
    for source in sources:
        if "://" in source:
            files.append(source)
            continue
        for file in list_files(source, Options(inputs.format, inputs.delimiter, inputs.encoding)):
            form = of_name(file, inputs.format)
            if file == "-" or form is None or form.name != "parquet" or not _spark_reads_types(file):
                return None
            files.append(str(Path(file).resolve()))
    return files or None


def _spark_reads_types(file: str) -> bool:
    """Return whether Spark has all types of a Parquet file; it has no nanoseconds and no unsigned integers."""
    try:
        kinds: Any = parquet.read_schema(file).types
    except (OSError, pa.ArrowException):
        return False  # fastcep.io reports the error
    return not any(
        (pa.types.is_timestamp(kind) and kind.unit == "ns") or pa.types.is_unsigned_integer(kind) for kind in kinds
    )


def _read_directly(spark: SparkSession, files: Sequence[str], schema: Schema) -> tuple[DataFrame, list[str]]:
    """Read Parquet files with Spark, and add columns with the file and position of each row."""
    from pyspark.sql import functions as F

    positions = [F.col("_metadata.file_path").alias(_PATH), F.col("_metadata.row_index").alias(_ROW)]
    groups = [[file] for file in files] if len(files) <= _MAX_NUMBERED_FILES else [list(files)]
    frame: DataFrame | None = None
    for number, group in enumerate(groups):
        part = spark.read.parquet(*group)
        names = [name for name in _needed(schema) if name in part.columns]
        columns = [F.col(f"`{name.replace('`', '``')}`") for name in names]
        part = part.select(*columns, F.lit(number).alias(_FILE), *positions)
        frame = part if frame is None else frame.unionByName(part, allowMissingColumns=True)
    assert frame is not None
    return frame, [_FILE, _PATH, _ROW]


def _needed(schema: Schema) -> dict[Any, Any]:
    """Return the columns that the schema reads and their Arrow types; None: times, of a type that Spark has."""
    needed: dict[Any, Any] = {schema.time: None}
    if schema.type is not None:
        needed[schema.type] = pa.string() if schema.codes is None else pa.int64()
    if schema.sequence is not None:
        needed[schema.sequence] = pa.int64()
    for column in schema.columns:
        needed.setdefault(column.source, _TYPES.get(column.dtype))
    return needed


def _convert(inputs: InputOptions, sources: Sequence[str], schema: Schema, path: str) -> tuple[int, int]:
    """Write events to a Parquet file with types that Spark has; return the numbers of events and of bad rows."""
    rows = 0
    writer: Any = None
    with inputs.open(sources, schema, _CHUNK, ordered=False) as source:  # Spark sorts
        try:
            for batch in source:
                table = _spark_table(batch, schema, source.origin)
                table = table.append_column(_ROW, pa.array(range(rows, rows + len(table)), pa.int64()))
                if writer is None:
                    writer = parquet.ParquetWriter(path, table.schema)
                if not table.schema.equals(writer.schema):
                    raise DataError(
                        f"{source.origin}: found times of type {table.schema.field(0).type}, expected "
                        f"{writer.schema.field(0).type} as in the previous files; pass one file at a time"
                    )
                writer.write_table(table)
                rows += len(table)
        finally:
            if writer is not None:
                writer.close()
        return rows, source.bad_rows


def _spark_table(batch: pa.RecordBatch, schema: Schema, origin: str) -> pa.Table:
    """Return the columns that the schema reads, in types that Spark has; numbered columns keep their position."""
    needed = _needed(schema)
    columns: dict[str, Any] = {}
    keys = batch.schema.names if schema.header and not _has_numbers(needed) else range(batch.num_columns)
    for position, key in enumerate(keys):
        source = key if key in needed else batch.schema.names[position]
        if source not in needed:
            if isinstance(key, int):
                columns[f"column {position}"] = pa.nulls(batch.num_rows, pa.int8())
            continue
        column: Any = batch.column(position)
        kind = _time_type(column.type) if needed[source] is None else needed[source]
        name = f"column {position}" if isinstance(source, int) else str(source)
        try:
            columns[name] = column.cast(kind)
        except pa.ArrowInvalid as error:
            raise DataError(f"{origin}, column {source!r}: cannot convert to Spark's type {kind}: {error}") from None
    return pa.table(columns)


def _has_numbers(needed: Mapping[Any, Any]) -> bool:
    return any(isinstance(key, int) for key in needed)


def _time_type(kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return kind if pa.types.is_date(kind) else pa.int64()
