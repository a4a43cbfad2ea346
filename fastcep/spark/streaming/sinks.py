"""Sinks of a streaming query: a folder of Parquet files, or a function that gets a DataFrame per micro-batch."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from fastcep.errors import ValidationError
from fastcep.spark.streaming.commit import Commit
from fastcep.spark.streaming.files import Files, absolute
from fastcep.stored import TEXT, record

__all__ = ["FolderSink", "FunctionSink", "Sink", "sink_of"]

_OWNER = "_fastcep.json"
_CHECK = record({"stream": TEXT})


class Sink(Protocol):
    """Target of the rows of committed batches; a batch may be written again after a failure."""

    def prepare(self, stream: str) -> None:
        """Check the target before the query of this identity starts."""

    def write(self, session: SparkSession, commit: Commit, files: Files) -> None:
        """Write the rows of a committed batch."""


class FolderSink:
    """Folder with the rows of batch N in the folder ``batch=N``, which appears when it is complete.

    Parameters
    ----------
    folder
        Result of `absolute`.
    """

    def __init__(self, folder: str) -> None:
        self._files = Files(folder)

    def prepare(self, stream: str) -> None:
        """Check that the folder is new, empty, or of this stream.

        Raises
        ------
        ValidationError
            If it has other files.
        SnapshotError
            If the record of its stream is damaged.
        """
        files = self._files
        names = files.names()
        if _OWNER in names:
            remedy = "restore the folder from a copy, or pass a new one"
            if files.read_record(_OWNER, _CHECK, "the record of a sink", remedy)["stream"] != stream:
                raise ValidationError(
                    f"sink={files.folder!r} has the rows of another streaming query, which has another checkpoint; "
                    "pass the checkpoint of that query, or a new folder"
                )
        elif names:
            raise ValidationError(
                f"sink={files.folder!r} has other files, such as {names[0]!r}, expected a new or an empty folder"
            )
        else:
            files.write(_OWNER, json.dumps({"stream": stream}).encode())

    def write(self, session: SparkSession, commit: Commit, files: Files) -> None:
        """Copy the files of a batch, unless its folder exists."""
        folder, part = f"batch={commit.batch}", f"_batch={commit.batch}"
        if not commit.outputs or self._files.exists(folder):
            return
        self._files.remove_folder(part)
        for number, output in enumerate(commit.outputs):
            files.copy(output.file, self._files, f"{part}/part-{number}.parquet")
        self._files.rename_folder(part, folder)


class FunctionSink:
    """Function of the rows of a batch and its number.

    Parameters
    ----------
    function
        The function.
    schema
        Columns of the rows.
    """

    def __init__(self, function: Callable[[DataFrame, int], object], schema: pa.Schema) -> None:
        self._function, self._schema = function, from_arrow_schema(schema)

    def prepare(self, stream: str) -> None:
        """Do nothing: only the function knows its target."""

    def write(self, session: SparkSession, commit: Commit, files: Files) -> None:
        """Call the function, if the batch has rows."""
        if commit.outputs:
            paths = [files.uri(output.file) for output in commit.outputs]
            self._function(session.read.schema(self._schema).parquet(*paths), commit.batch)


def sink_of(sink: Any, schema: pa.Schema) -> Sink:
    """Return the sink for the argument of `write_matches`; ValidationError if it is not one."""
    if callable(sink):
        return FunctionSink(sink, schema)
    return FolderSink(absolute(sink, "sink"))
