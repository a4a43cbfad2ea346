"""Partial states that are rows of a table: their sizes as sent, and the messages that contain them.

A message is an Arrow IPC record batch without its schema: the column ``number`` and the columns of the table. The base
is an IPC schema, of the rows that the operator reads, with a JSON object in its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.errors import SnapshotError, ValidationError
from fastcep.migration.states import Ints, States
from fastcep.stored import Check, Misfit

__all__ = ["StatesOfTable", "TableAssembly", "message_sizes", "pack_base", "rejected", "unpack_base", "variable_bytes"]

_NUMBER = "number"
_METADATA = b"fastcep.migration"
_RESTART = "cut the state again on the old host, and send it again"


@dataclass(frozen=True)
class StatesOfTable:
    """Partial states of an operator, one for each row of a table; see `PartialStates`.

    Attributes
    ----------
    kind
        Kind of the operator: ``"aggregate"`` or ``"join"``.
    states
        Sizes as sent, each alone in a message, and utilities.
    position
        Number of rows that the operator had read.
    rows
        One row for each state.
    operator
        The operator.
    """

    kind: str
    states: States
    position: int
    rows: pa.RecordBatch
    packed: bytes
    operator: Any = field(repr=False, compare=False)

    def base(self) -> bytes:
        """Return the part of the state that the new host needs in any case."""
        return self.packed

    def encode(self, numbers: Ints) -> bytes:
        """Return the states with these numbers as an Arrow IPC record batch.

        Raises
        ------
        ValidationError
            If there is no state with one of the numbers, or a number occurs twice.
        """
        chosen = np.asarray(numbers)
        if chosen.ndim != 1 or (len(chosen) and chosen.dtype.kind not in "iu"):
            raise ValidationError(f"numbers: {type(numbers).__name__}; expected numbers of states in one dimension")
        chosen = chosen.astype(np.int64)
        if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < len(self.states):
            raise ValidationError(
                f"numbers: expected 0 to {len(self.states) - 1}, found {chosen.min()} to {chosen.max()}"
            )
        if len(np.unique(chosen)) < len(chosen):
            raise ValidationError("numbers: a state occurs twice; give each number once")
        return bytes(_numbered(chosen, self.rows.take(chosen)).serialize())


class TableAssembly:
    """Collects the rows that arrive at the new host; see `Assembly`.

    Parameters
    ----------
    schema
        Schema of the rows, without the number.
    total
        Number of states at the old host.
    check
        Raises a SnapshotError if rows do not fit the base.
    build
        Creates the operator from the rows that arrived, in the order of their numbers.
    """

    def __init__(
        self, schema: pa.Schema, total: int, check: Callable[[pa.RecordBatch], None], build: Callable[[pa.Table], Any]
    ) -> None:
        self._schema = pa.schema([pa.field(_NUMBER, pa.int64()), *schema])
        self._rows: list[pa.RecordBatch] = []
        self._arrived = np.zeros(total, np.bool_)
        self._check, self._build = check, build

    def add(self, batch: bytes | memoryview) -> Ints:
        """Add the states of a message; return their numbers.

        Raises
        ------
        SnapshotError
            If it is no message of these states, or one of them has arrived before. The assembly has not changed.
        """
        try:
            rows = pa.ipc.read_record_batch(pa.py_buffer(bytes(batch)), self._schema)
            rows.validate(full=True)
        except (pa.ArrowException, OSError, EOFError, ValueError) as error:
            raise rejected(f"the message is no record batch of these states ({error})") from None
        if rows.column(0).null_count:
            raise rejected("a state has no number")
        numbers = np.asarray(rows.column(0).to_numpy(), np.int64)
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(self._arrived):
            raise rejected(f"found a state outside of the numbers 0 to {len(self._arrived) - 1}")
        if len(np.unique(numbers)) < len(numbers) or self._arrived[numbers].any():
            raise rejected("a state arrived twice")
        self._check(rows.drop_columns([_NUMBER]))
        self._arrived[numbers] = True
        self._rows.append(rows)
        return numbers

    def build(self) -> Any:
        """Create the operator with the states that have arrived.

        Raises
        ------
        SnapshotError
            If the states do not fit together.
        """
        rows = pa.Table.from_batches(self._rows, self._schema).combine_chunks()
        order = np.argsort(rows[_NUMBER].to_numpy(), kind="stable")
        return self._build(rows.take(order).drop_columns([_NUMBER]))


def message_sizes(rows: pa.RecordBatch, lengths: Sequence[Ints], kinds: npt.NDArray[np.int8] | None = None) -> Ints:
    """Return the size of each row alone in a message, in bytes; int64[n].

    Parameters
    ----------
    rows
        The rows of all states.
    lengths
        For each column, those in structures included: the bytes that a row has beyond those of every row of its kind,
        see `variable_bytes`.
    kinds
        int8[n]: rows of the same kind have the same columns. None: all are of one kind.
    """
    size: Ints = np.sum([np.zeros(rows.num_rows, np.int64), *lengths], axis=0)
    kind = np.zeros(rows.num_rows, np.int8) if kinds is None else kinds
    for value in np.unique(kind):
        first = int(np.argmax(kind == value))
        alone = _numbered(np.array([first]), rows.take([first])).serialize().size
        size = np.where(kind == value, size + (alone - size[first]), size)
    return size


def pack_base(schema: pa.Schema, document: dict[str, Any]) -> bytes:
    """Return a base of a schema and a JSON object."""
    metadata = {_METADATA: json.dumps(document, allow_nan=False).encode()}
    return bytes(schema.remove_metadata().with_metadata(metadata).serialize())


def unpack_base(base: bytes, check: Check) -> tuple[pa.Schema, dict[str, Any]]:
    """Return the schema and the JSON object of a base; SnapshotError if it has none that passes `check`."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(bytes(base)))
        document = json.loads((schema.metadata or {})[_METADATA])
        check(document, "")
    except (Misfit, KeyError, RecursionError, pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise rejected(f"the base is not that of an operator of this kind ({error})") from None
    return schema.remove_metadata(), document


def rejected(problem: str) -> SnapshotError:
    """Return the error for a state that the new host cannot use."""
    return SnapshotError(f"{problem}; {_RESTART}")


def variable_bytes(column: Any) -> Ints:
    """Return the bytes that a null and the text of each entry add to a message of one row; int64[n]."""
    extra: Ints = 8 * column.is_null().to_numpy(zero_copy_only=False).astype(np.int64)
    kinds = pa.types
    if (
        kinds.is_string(column.type) or kinds.is_large_string(column.type)
        or kinds.is_binary(column.type) or kinds.is_large_binary(column.type)
    ):  # fmt: skip
        length = pa.compute.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        extra += -(-length // 8) * 8
    return extra


def _numbered(numbers: Ints, rows: pa.RecordBatch) -> pa.RecordBatch:
    schema = pa.schema([pa.field(_NUMBER, pa.int64()), *rows.schema])
    return pa.record_batch([pa.array(numbers), *rows.columns], schema=schema)
