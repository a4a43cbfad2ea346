"""``--spark``: a session, and events as a DataFrame with the order that they have in their files.

Parquet is read where it lies. All other formats are read here, by the rules of `fastcep.io`, into a Parquet file in a
temporary folder, piece by piece: a second reader with rules of its own would find other events.
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

__all__ = ["SparkEvents", "SparkOptions", "events_on_spark", "refuse", "session", "spark_options"]

_CHUNK = 65_536
#: Files that are told apart by number; more of them, by their names.
_FILES = 64
_FILE, _PATH, _ROW = "fastcep_file", "fastcep_path", "fastcep_row"
_TYPES = {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string()}
_RAISED = re.compile(r"^fastcep\.errors\.\w+: (.*)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class SparkOptions:
    """Where Spark runs: a master, as Spark writes them."""

    master: str = "local[*]"

    @property
    def local(self) -> bool:
        """Whether all of it runs on this machine."""
        return self.master.startswith("local")


def spark_options(spark: bool, master: str | None) -> SparkOptions | None:
    """The options ``--spark`` and ``--master``; None: without Spark.

    Raises
    ------
    ValidationError
        There is a master, but no Spark.
    """
    if not spark:
        if master is not None:
            raise ValidationError(f"--master {master} says where Spark runs; add --spark, or leave it out")
        return None
    return SparkOptions() if master is None else SparkOptions(master)


def refuse(given: Mapping[str, Any]) -> None:
    """Refuse options that say nothing to Spark: of each its value, None or False if it is not given.

    Raises
    ------
    ValidationError
        Names the first one.
    """
    for option, value in given.items():
        if value is not None and value is not False:
            raise ValidationError(f"{option} does not go with --spark; leave one of them out")


@contextmanager
def session(options: SparkOptions) -> Iterator[SparkSession]:
    """Start a session, and stop it in the end; one that the process has already is taken, and left running.

    Raises
    ------
    ValidationError
        PySpark or Java is missing, the master cannot be reached, or Spark fails.
    FastcepError
        What a task raised.
    """
    import_module("fastcep.spark")  # says what is missing
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        with _told():
            yield running
        return
    started = _started(options)
    try:
        with _told():
            yield started
    finally:
        started.stop()


def _started(options: SparkOptions) -> SparkSession:
    from pyspark.sql import SparkSession

    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and shutil.which("java", path=str(Path(home) / "bin"))):
        raise ValidationError(
            "--spark needs Java 17 or newer, and there is no 'java' on PATH; install one, such as "
            "openjdk-17-jre-headless, or set JAVA_HOME to the folder of one"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.appName("fastcep")
        .master(options.master)
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.caseSensitive", "true")
    )
    if options.local:  # nobody else has to find us
        builder = (
            builder.config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
        )
    try:
        with _other_output():
            return builder.getOrCreate()
    except Exception as error:
        raise ValidationError(
            f"--master {options.master}: Spark did not start ({_first_line(error)}); is the master there, and does "
            "'java -version' say 17 or newer?"
        ) from None


@contextmanager
def _other_output() -> Iterator[None]:
    """Let what is started say what it has to say on standard error: standard output is for results."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def _told() -> Iterator[None]:
    """Make what Spark raises an error for people: of a task that raised one of ours its message."""
    from pyspark.errors import PySparkException

    try:
        yield
    except FastcepError:
        raise
    except Exception as error:
        spark = isinstance(error, PySparkException) or type(error).__name__.startswith("Py4J")
        if not spark:
            raise
        raised = _RAISED.search(str(error))
        if raised is not None:
            raise ValidationError(_first_line(raised[1])) from None
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
        None of no events.
    order_by
        Columns that give events of one time the order of their files; None: they have sequence numbers.
    rows, bad_rows
        How many there are, and how many could not be taken.
    """

    frame: DataFrame | None
    order_by: list[str] | None
    rows: int
    bad_rows: int = 0


@contextmanager
def events_on_spark(
    spark: SparkSession, inputs: InputOptions, sources: Sequence[str], schema: Schema, options: SparkOptions
) -> Iterator[SparkEvents]:
    """Read events for as long as they are needed.

    Raises
    ------
    FastcepError
        A file or a row cannot be taken, or other machines would have to read what is here.
    """
    files = _parquet_files(inputs, sources, schema)
    if files is not None:
        frame, order = _direct(spark, files, schema)
        yield SparkEvents(frame, None if schema.sequence is not None else order, frame.count())
        return
    if not options.local:
        raise ValidationError(
            f"--master {options.master}: its executors read Parquet files at paths that all of them see, without "
            "--bad-rows, and with times of microseconds or less exact; found another input, which would have to be "
            "read here. Write it to such files first, or leave --master out"
        )
    with TemporaryDirectory(prefix="fastcep-") as folder:
        path = str(Path(folder) / "events.parquet")
        rows, bad = _converted(inputs, sources, schema, path)
        ties = None if schema.sequence is not None else [_ROW]
        yield SparkEvents(spark.read.parquet(path) if rows else None, ties, rows, bad)


def _parquet_files(inputs: InputOptions, sources: Sequence[str], schema: Schema) -> list[str] | None:
    """Files and addresses that Spark reads by itself, or None if it cannot."""
    if inputs.bad_rows is not None or not schema.header:
        return None
    files: list[str] = []
    for source in sources:
        if "://" in source:
            files.append(source)
            continue
        for file in list_files(source, Options(inputs.format, inputs.delimiter, inputs.encoding)):
            form = of_name(file, inputs.format)
            if file == "-" or form is None or form.name != "parquet" or not _plain(file):
                return None
            files.append(str(Path(file).resolve()))
    return files or None


def _plain(file: str) -> bool:
    """Whether Spark has all types of a Parquet file: its timestamps have microseconds."""
    try:
        kinds: Any = parquet.read_schema(file).types
    except (OSError, pa.ArrowException):
        return False  # our reader says what is wrong
    return not any(
        (pa.types.is_timestamp(kind) and kind.unit == "ns") or pa.types.is_unsigned_integer(kind) for kind in kinds
    )


def _direct(spark: SparkSession, files: Sequence[str], schema: Schema) -> tuple[DataFrame, list[str]]:
    """Read Parquet where it lies; rows know their file and their place in it."""
    from pyspark.sql import functions as F

    places = [F.col("_metadata.file_path").alias(_PATH), F.col("_metadata.row_index").alias(_ROW)]
    groups = [[file] for file in files] if len(files) <= _FILES else [list(files)]
    frame: DataFrame | None = None
    for number, group in enumerate(groups):
        part = spark.read.parquet(*group)
        known = [name for name in _needed(schema) if name in part.columns]
        columns = [F.col(f"`{name.replace('`', '``')}`") for name in known]
        part = part.select(*columns, F.lit(number).alias(_FILE), *places)
        frame = part if frame is None else frame.unionByName(part, allowMissingColumns=True)
    assert frame is not None
    return frame, [_FILE, _PATH, _ROW]


def _needed(schema: Schema) -> dict[Any, Any]:
    """The columns that are read, and their types; None: as they are."""
    needed: dict[Any, Any] = {schema.time: None}
    if schema.type is not None:
        needed[schema.type] = pa.string() if schema.codes is None else pa.int64()
    if schema.sequence is not None:
        needed[schema.sequence] = pa.int64()
    for column in schema.columns:
        needed.setdefault(column.source, _TYPES[column.dtype])
    return needed


def _converted(inputs: InputOptions, sources: Sequence[str], schema: Schema, path: str) -> tuple[int, int]:
    """Write events to a Parquet file that Spark reads as they are; how many, and how many could not be taken."""
    rows = 0
    writer: Any = None
    with inputs.open(sources, schema, _CHUNK, ordered=False) as source:  # Spark sorts
        try:
            for batch in source:
                table = _plain_table(batch, schema, source.origin)
                table = table.append_column(_ROW, pa.array(range(rows, rows + len(table)), pa.int64()))
                if writer is None:
                    writer = parquet.ParquetWriter(path, table.schema)
                if not table.schema.equals(writer.schema):
                    raise DataError(
                        f"{source.origin}: found times as {table.schema.field(0).type}, expected "
                        f"{writer.schema.field(0).type} as in the files before; give files one by one"
                    )
                writer.write_table(table)
                rows += len(table)
        finally:
            if writer is not None:
                writer.close()
        return rows, source.bad_rows


def _plain_table(batch: pa.RecordBatch, schema: Schema, origin: str) -> pa.Table:
    """The columns that are read, in types that Spark has; where they are known by number, at their places."""
    needed = _needed(schema)
    columns: dict[str, Any] = {}
    wanted = batch.schema.names if schema.header and not _numbers(needed) else range(batch.num_columns)
    for at, key in enumerate(wanted):
        known = key if key in needed else batch.schema.names[at]
        if known not in needed:
            if isinstance(key, int):
                columns[f"column {at}"] = pa.nulls(batch.num_rows, pa.int8())
            continue
        column: Any = batch.column(at)
        kind = _time_type(column.type) if known == schema.time else needed[known]
        name = f"column {at}" if isinstance(known, int) else str(known)
        try:
            columns[name] = column.cast(kind)
        except pa.ArrowInvalid as error:
            raise DataError(f"{origin}, column {known!r}: does not fit {kind}, which Spark has: {error}") from None
    return pa.table(columns)


def _numbers(needed: Mapping[Any, Any]) -> bool:
    return any(isinstance(key, int) for key in needed)


def _time_type(kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return kind if pa.types.is_date(kind) else pa.int64()
