"""Write matches to a file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as pv
import pyarrow.ipc
import pyarrow.parquet as pq

from fastcep.errors import ValidationError

__all__ = ["write_matches"]

pc: Any = pyarrow.compute  # its stubs know too few overloads


def write_matches(table: pa.Table, path: str | PathLike[str]) -> None:
    """Write a table of matches as Parquet, Arrow (file format) or CSV, by the ending of the name.

    Parameters
    ----------
    table
        The matches.
    path
        A name ending in ``.parquet``, ``.arrow`` or ``.csv``; an existing file is replaced. In CSV a list is text,
        its elements apart by spaces: ``[1 2]``; a null element is ``null``, a null list the empty field.

    Raises
    ------
    ValidationError
        If the ending is another.
    OSError
        If the file cannot be written.
    """
    target = Path(path)
    match target.suffix.lower():
        case ".parquet":
            pq.write_table(table, target, compression="zstd")
        case ".arrow":
            with pa.OSFile(str(target), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
        case ".csv":
            pv.write_csv(flat(table), target)
        case _:
            raise ValidationError(f"cannot write {str(path)!r}: expected a name that ends in .parquet, .arrow or .csv")


def flat(table: pa.Table) -> pa.Table:
    for k, field in enumerate(table.schema):
        if pa.types.is_list(field.type) or pa.types.is_large_list(field.type):
            chunks = [_list_text(chunk) for chunk in table.column(k).chunks]
            table = table.set_column(k, field.name, pa.chunked_array(chunks, pa.string()))
    return table


def _list_text(lists: Any) -> Any:
    words = pc.coalesce(lists.flatten().cast(pa.string()), "null")
    lengths = pc.coalesce(pc.list_value_length(lists).cast(pa.int32()), pa.scalar(0, pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, words), " ")
    text = pc.binary_join_element_wise("[", joined, "]", "")
    return pc.if_else(lists.is_valid(), text, pa.scalar(None, pa.string()))
