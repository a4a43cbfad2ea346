"""Content of the messages: the offer, events, and small tables of numbers."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from fastcep.migration.transfer.frames import ProtocolError
from fastcep.stored import COUNT, TEXT, Misfit, one_of, or_null, record

__all__ = ["ACK", "BUILT", "END", "Offer", "events_message", "message_events", "reason_bytes", "unpack"]

#: Bytes and states that have arrived.
ACK = struct.Struct("<QQ")
#: Number and digest of the frames of the old host.
END = struct.Struct("<Q32s")
#: States, of these after the deadline, and position of the operator that was built.
BUILT = struct.Struct("<QQQ")
_LENGTH = struct.Struct("<I")
_REASON = 1000


@dataclass(frozen=True, slots=True)
class Offer:
    """Description of the state that the old host offers.

    Attributes
    ----------
    kind
        Kind of the operator.
    position
        Number of events before the state.
    states
        Number of partial states.
    base_bytes
        Size of the base.
    on_disconnect
        ``"keep"`` or ``"hand_over"``.
    track
        ``"single"`` or ``"parallel"``.
    deadline
        Time from the arrival of the offer to the deadline, in ns; None: there is none.
    """

    kind: str
    position: int
    states: int
    base_bytes: int
    on_disconnect: str
    track: str
    deadline: int | None

    def to_bytes(self) -> bytes:
        """Return the message."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Offer:
        """Read the message; ProtocolError if it is none."""
        try:
            content = json.loads(data)
            _OFFER(content, "offer")
        except (Misfit, ValueError, RecursionError) as error:
            raise ProtocolError(f"the offer is invalid: {error}", _SAME) from None
        return cls(**content)


_SAME = "install the same version of fastcep on both hosts"
_OFFER = record(
    {
        "kind": TEXT, "position": COUNT, "states": COUNT, "base_bytes": COUNT,
        "on_disconnect": one_of("keep", "hand_over"), "track": one_of("single", "parallel"), "deadline": or_null(COUNT),
    }
)  # fmt: skip


def events_message(table: pa.Table, options: Mapping[str, Any]) -> bytes:
    """Return a batch of events, and the options of the call that processes it, as a message."""
    sink = pa.BufferOutputStream()
    header = json.dumps(dict(options)).encode()
    sink.write(_LENGTH.pack(len(header)) + header)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    message: bytes = sink.getvalue().to_pybytes()
    return message


def message_events(data: bytes) -> tuple[pa.Table, dict[str, Any]]:
    """Return the events and options of a message; ProtocolError if it is none."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        options = json.loads(data[_LENGTH.size : _LENGTH.size + length])
        table = pa.ipc.open_stream(pa.py_buffer(data)[_LENGTH.size + length :]).read_all()
    except (struct.error, ValueError, RecursionError, OSError, pa.ArrowException) as error:
        raise ProtocolError(f"a batch of events is invalid: {error}", _SAME) from None
    return table, options


def unpack(layout: struct.Struct, data: bytes) -> tuple[Any, ...]:
    """Return the fields of a message; ProtocolError if it has another length."""
    if len(data) != layout.size:
        raise ProtocolError(f"found a message of {len(data)} bytes, expected {layout.size}", _SAME)
    return layout.unpack(data)


def reason_bytes(reason: str) -> bytes:
    """Return the text of a refusal as a message, shortened."""
    return reason[:_REASON].encode("utf-8", "replace")[:2000]
