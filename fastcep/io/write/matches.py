"""Write matches, piece by piece: Parquet, Arrow, CSV and JSON lines, to a file or standard output."""

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

# A call may bring one match only, and every group of rows costs a footer entry: rows are gathered first.
_GROUP_ROWS = 1 << 17
_GROUP_BYTES = 1 << 26
_GATHERED = 64


def check_output(path: str | PathLike[str], format: str | None = None) -> None:
    """Refuse an output that cannot work, before anything is done for it.

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
        As `MatchWriter` does; a file that had the name before is then untouched.
    """
    writer = MatchWriter(path, format)
    try:
        writer.write(table)
    except BaseException:
        writer.abandon()
        raise
    writer.close()


class MatchWriter:
    """Writes tables of matches, one behind the other, in bounded memory.

    The file is complete and readable after the ``with`` block, also when the block ends with an error: it then holds
    what was written before. Until then it has a temporary name beside the target, and what had the target's name stays.
    Without any `write` no file is made. If the writing itself fails, for example because the disk is full, the
    temporary file is removed.

    Parameters
    ----------
    path
        The ending tells the format: ``.parquet`` (zstd inside); ``.arrow``, ``.ipc`` or ``.feather`` (IPC file),
        ``.arrows`` (IPC stream); ``.csv``, ``.tsv``, ``.jsonl`` or ``.ndjson``, also with ``.gz`` or ``.zst`` behind
        it. ``"-"`` is standard output.
    format
        ``"parquet"``, ``"arrow"``, ``"csv"`` or ``"jsonl"``, whatever the ending; standard output needs one of the last
        three. ``"arrow"`` is the stream format there.
    part, sync
        As for `fastcep.io.write.target.Target`.

    Raises
    ------
    ValidationError
        If the format is unknown, or the file cannot be written; from `write` also if the columns differ from the first
        table's, or a column has a type that the format cannot hold.

    Notes
    -----
    CSV: strings in double quotes, null the empty field, floats also ``nan``, ``inf`` and ``-inf``, a list the text of a
    JSON array. JSON lines: see :mod:`fastcep.io.write.text`.
    """

    def __init__(
        self, path: str | PathLike[str], format: str | None = None, *, part: str | None = None, sync: bool = False
    ) -> None:
        self._form = _form(fspath(path), format)
        self._target = Target(path, part=part, sync=sync)
        self._schema: pa.Schema | None = None
        self._put: Callable[[pa.Table], None] = self._put_text
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
        """Append matches; the first call, which may hold no rows, decides the columns."""
        if not self._open:
            raise ValidationError(f"the output '{self._target.path}' is closed; make a new writer")
        if self._schema is None:
            self._guarded(lambda: self._begin(matches))
            self._schema = matches.schema
        elif not matches.schema.equals(self._schema):
            raise ValidationError(
                f"cannot write '{self._target.path}': found the columns {_columns(matches.schema)}, expected those of "
                f"the first table, {_columns(self._schema)}"
            )
        if len(matches):
            self._guarded(lambda: self._put(matches))

    def close(self) -> None:
        """Finish the file; it takes its name. A second call does nothing."""
        if not self._open:
            return
        if self._schema is None:
            self.abandon()
            return
        self._guarded(self._end)
        self._open = False
        self._target.commit()

    def abandon(self) -> None:
        """Remove what was written; what had the name before stays."""
        self._open = False
        self._target.abandon()

    # ------------------------------------------------------------------ parts

    def _guarded(self, step: Callable[[], None]) -> None:
        """Do a step of the writing; if it fails, nothing of the file is kept. Ctrl-C comes between whole writes."""
        try:
            step()
        except BrokenPipeError:
            self.abandon()
            raise  # whoever read standard output has enough
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
            self._put_text(matches.slice(0, 0))
        if form.compression is not None:
            self._put = self._gather
        elif form.name == "parquet":
            from pyarrow import parquet

            self._writer = parquet.ParquetWriter(file, matches.schema, compression="zstd")
            self._put = self._gather
        elif form.name == "arrow" and form.stream:
            self._writer = pa.ipc.new_stream(file, matches.schema)
            self._put = self._put_stream
        elif form.name == "arrow":
            options = pa.ipc.IpcWriteOptions(unify_dictionaries=True, emit_dictionary_deltas=True)
            self._writer = pa.ipc.new_file(file, matches.schema, options=options)
            self._put = self._gather

    def _end(self) -> None:
        self._put_group()
        if self._writer is not None:
            self._writer.close()

    def _put_text(self, matches: pa.Table) -> None:
        if self._form.name == "csv":
            from pyarrow import csv

            options = csv.WriteOptions(include_header=self._schema is None, delimiter=self._form.delimiter)
            for batch in pieces(matches) if len(matches) else [_empty(matches)]:
                text = pa.BufferOutputStream()
                csv.write_csv(flat(batch), text, options)
                self._put_bytes(text.getvalue())
        else:
            for batch in pieces(matches):
                self._put_bytes(json_lines(batch))
        self._flush()

    def _put_bytes(self, text: Any) -> None:
        """Each piece is a gzip member or zstd frame of its own, so that the file is whole after every write."""
        self._target.file.write(text if self._codec is None else self._codec.compress(text))

    def _put_stream(self, matches: pa.Table) -> None:
        self._writer.write_table(matches)
        self._flush()

    def _flush(self) -> None:
        """A reader of a pipe gets matches as soon as they are found."""
        if self._target.path == STDOUT:
            self._target.file.flush()

    def _gather(self, matches: pa.Table) -> None:
        self._recent.append(matches)
        self._rows += len(matches)
        self._bytes += matches.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._put_group()
        elif len(self._recent) == _GATHERED:  # small tables are copied together, which frees what they are views of
            self._waiting.append(pa.concat_tables(self._recent).combine_chunks())
            self._recent = []

    def _put_group(self) -> None:
        tables = self._waiting + self._recent
        if tables and self._writer is None:
            self._put_text(pa.concat_tables(tables))
        elif tables:
            self._writer.write_table(pa.concat_tables(tables).combine_chunks(), _GROUP_ROWS)
        self._waiting, self._recent, self._rows, self._bytes = [], [], 0, 0


def _form(path: str, format: str | None) -> Format:
    check_format(format, "output")
    if path == STDOUT:
        if format is None:
            raise ValidationError("standard output needs a format; give csv, jsonl or arrow (--output-format)")
        if format == "parquet":
            raise ValidationError("parquet cannot go to standard output, it needs a file; give csv, jsonl or arrow")
        return Format(format, stream=True)
    form = of_name(path, format)
    if form is None or (form.compression is not None and form.name not in _TEXTS):
        raise ValidationError(
            f"cannot write matches to '{path}': expected a name that ends in {', '.join(ENDINGS)} (CSV and JSON lines "
            "also in .gz and .zst behind it), or a format (--output-format)"
        )
    return form


def _empty(table: pa.Table) -> pa.RecordBatch:
    arrays: Any = [pa.nulls(0, field.type) for field in table.schema]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
