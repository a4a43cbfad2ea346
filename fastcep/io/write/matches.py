"""Write matches incrementally as Parquet, Arrow, CSV or JSON lines, to a file or standard output."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from fastcep.errors import ValidationError
from fastcep.io.formats import ENDINGS, Format, check_format, of_name
from fastcep.io.write.target import STDOUT, Target, check_target
from fastcep.io.write.text import flat, json_lines, pieces

__all__ = ["MatchWriter", "check_output", "write_matches"]

_TEXTS = ("csv", "jsonl")
_LEVELS = {"gzip": 6, "zstd": 3}

# A call can bring only one match, and each row group costs a footer entry: rows are collected first.
_GROUP_ROWS = 1 << 17
_GROUP_BYTES = 1 << 26
_RECENT_TABLES = 64


def check_output(path: str | PathLike[str], format: str | None = None) -> None:
    """Check that an output can be written, before any work is done for it.

    Raises
    ------
    ValidationError
        If the format is unknown or missing, or the file cannot be written.
    """
    _form(fspath(path), format)
    check_target(path)


def write_matches(table: pa.Table, path: str | PathLike[str], format: str | None = None) -> None:
    """Write a table of matches; an existing file is replaced.

    Parameters
    ----------
    table, path, format
        As in `MatchWriter`.

    Raises
    ------
    ValidationError
        See `MatchWriter`. An existing file with this name is then unchanged.
    """
    writer = MatchWriter(path, format)
    try:
        writer.write(table)
    except BaseException:
        writer.abandon()
        raise
    writer.close()


class MatchWriter:
    """Writes consecutive tables of matches in bounded memory.

    The file is complete and readable after the ``with`` block, even if the block ends with an error: it then holds the
    matches written before the error. Until then, the output has a temporary name in the same folder, and an existing
    file keeps the target's name. Without any `write`, no file is created. If writing fails, for example because the
    disk is full, the temporary file is removed.

    Parameters
    ----------
    path
        The ending sets the format: ``.parquet`` (zstd compression); ``.arrow``, ``.ipc`` or ``.feather`` (IPC file),
        ``.arrows`` (IPC stream); ``.csv``, ``.tsv``, ``.jsonl`` or ``.ndjson``, optionally followed by ``.gz`` or
        ``.zst``. ``"-"`` is standard output.
    format
        ``"parquet"``, ``"arrow"``, ``"csv"`` or ``"jsonl"``; overrides the ending. Standard output needs one of the
        last three; ``"arrow"`` is then the stream format.
    part, sync
        See `fastcep.io.write.target.Target`.

    Raises
    ------
    ValidationError
        If the format is unknown, or the file cannot be written; from `write` also if the columns differ from those of
        the first table, or a column has a type that the format cannot hold.

    Notes
    -----
    In CSV, strings have double quotes, null is the empty field, floats include ``nan``, ``inf`` and ``-inf``, and a
    list is the text of a JSON array. For JSON lines see :mod:`fastcep.io.write.text`.
    """

    def __init__(
        self, path: str | PathLike[str], format: str | None = None, *, part: str | None = None, sync: bool = False
    ) -> None:
        self._form = _form(fspath(path), format)
        self._target = Target(path, part=part, sync=sync)
        self._schema: pa.Schema | None = None
        self._write_table: Callable[[pa.Table], None] = self._write_text
        self._writer: Any = None
        self._codec: Any = None
        if self._form.compression is not None:
            kind = self._form.compression
            self._codec = pa.Codec(kind, compression_level=_LEVELS[kind])
        self._recent: list[pa.Table] = []
        self._waiting: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._open = True

    def __enter__(self) -> MatchWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, matches: pa.Table) -> None:
        """Append matches. The first call sets the columns, even if its table has no rows."""
        if not self._open:
            raise ValidationError(f"the output '{self._target.path}' is closed; make a new writer")
        if self._schema is None:
            self._clean_up_on_error(lambda: self._begin(matches))
            self._schema = matches.schema
        elif not matches.schema.equals(self._schema):
            raise ValidationError(
                f"cannot write '{self._target.path}': found the columns {_columns(matches.schema)}, expected those of "
                f"the first table, {_columns(self._schema)}"
            )
        if len(matches):
            self._clean_up_on_error(lambda: self._write_table(matches))

    def close(self) -> None:
        """Complete the file and give it its name. A second call does nothing."""
        if not self._open:
            return
        if self._schema is None:
            self.abandon()
            return
        self._clean_up_on_error(self._end)
        self._open = False
        self._target.commit()

    def abandon(self) -> None:
        """Discard the output; an existing file with the target's name stays."""
        self._open = False
        self._target.abandon()

    # ------------------------------------------------------------------ parts

    def _clean_up_on_error(self, step: Callable[[], None]) -> None:
        """Run a step of the writing, and discard the output if it fails. Ctrl-C never interrupts a single write."""
        try:
            step()
        except BrokenPipeError:
            self.abandon()
            raise  # the reader of standard output has closed it
        except (OSError, pa.ArrowException) as error:
            self.abandon()
            if isinstance(error, OSError):
                raise self._target.failure(error) from error
            raise ValidationError(
                f"cannot write '{self._target.path}' as {self._form.name}: {error}; leave the column out or cast it"
            ) from error
        except ValidationError:
            self.abandon()
            raise

    def _begin(self, matches: pa.Table) -> None:
        file: Any = self._target.file
        form = self._form
        if form.name == "csv":
            self._write_text(matches.slice(0, 0))
        if form.compression is not None:
            self._write_table = self._collect
        elif form.name == "parquet":
            from pyarrow import parquet

            self._writer = parquet.ParquetWriter(file, matches.schema, compression="zstd")
            self._write_table = self._collect
        elif form.name == "arrow" and form.stream:
            self._writer = pa.ipc.new_stream(file, matches.schema)
            self._write_table = self._write_stream
        elif form.name == "arrow":
            options = pa.ipc.IpcWriteOptions(unify_dictionaries=True, emit_dictionary_deltas=True)
            self._writer = pa.ipc.new_file(file, matches.schema, options=options)
            self._write_table = self._collect

    def _end(self) -> None:
        self._write_group()
        if self._writer is not None:
            self._writer.close()

    def _write_text(self, matches: pa.Table) -> None:
        if self._form.name == "csv":
            from pyarrow import csv

            options = csv.WriteOptions(include_header=self._schema is None, delimiter=self._form.delimiter)
            for batch in pieces(matches) if len(matches) else [_empty(matches)]:
                text = pa.BufferOutputStream()
                csv.write_csv(flat(batch), text, options)
                self._write_bytes(text.getvalue())
        else:
            for batch in pieces(matches):
                self._write_bytes(json_lines(batch))
        self._flush()

    def _write_bytes(self, text: Any) -> None:
        """Write a piece as its own gzip member or zstd frame, so that the file is complete after every write."""
        self._target.file.write(text if self._codec is None else self._codec.compress(text))

    def _write_stream(self, matches: pa.Table) -> None:
        self._writer.write_table(matches)
        self._flush()

    def _flush(self) -> None:
        """Flush standard output, so that the reader of a pipe gets matches immediately."""
        if self._target.path == STDOUT:
            self._target.file.flush()

    def _collect(self, matches: pa.Table) -> None:
        self._recent.append(matches)
        self._rows += len(matches)
        self._bytes += matches.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write_group()
        elif len(self._recent) == _RECENT_TABLES:  # copying small tables into one frees the memory that they view
            self._waiting.append(pa.concat_tables(self._recent).combine_chunks())
            self._recent = []

    def _write_group(self) -> None:
        tables = self._waiting + self._recent
        if tables and self._writer is None:
            self._write_text(pa.concat_tables(tables))
        elif tables:
            self._writer.write_table(pa.concat_tables(tables).combine_chunks(), _GROUP_ROWS)
        self._waiting, self._recent, self._rows, self._bytes = [], [], 0, 0


def _form(path: str, format: str | None) -> Format:
    check_format(format, "output")
    if path == STDOUT:
        if format is None:
            raise ValidationError("standard output needs a format; give csv, jsonl or arrow (--output-format)")
        if format == "parquet":
            raise ValidationError("parquet cannot go to standard output; give a file, or csv, jsonl or arrow")
        return Format(format, stream=True)
    form = of_name(path, format)
    if form is None or (form.compression is not None and form.name not in _TEXTS):
        raise ValidationError(
            f"cannot write matches to '{path}': expected a name that ends in {', '.join(ENDINGS)} (for CSV and JSON "
            "lines also followed by .gz or .zst), or a format (--output-format)"
        )
    return form


def _empty(table: pa.Table) -> pa.RecordBatch:
    arrays: Any = [pa.nulls(0, field.type) for field in table.schema]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
