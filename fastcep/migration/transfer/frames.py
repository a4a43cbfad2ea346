"""Frames of the protocol: a header, a payload, and a code that only a holder of the key can compute.

A frame is ``length: u32, type: u8, payload, code: 16 bytes``, little endian. The code is a truncated HMAC-SHA256 over
the direction, the number of the frame in this direction, the header and the payload. So a frame that is changed, left
out, repeated, reordered or sent back is recognised. The frames of the handshake have no code.

A long message is divided into pieces; all but the last have the flag `MORE` in the type.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from enum import IntEnum

__all__ = [
    "CODE", "HANDSHAKE", "HEADER", "LIMITS", "MORE", "PIECE", "Direction", "Frame", "Kind", "Opener", "ProtocolError",
    "Sealer", "checked_header",
]  # fmt: skip

HEADER = struct.Struct("<IB")
#: Length of the code, in bytes.
CODE = 16
#: Flag of the type: another piece of the message follows.
MORE = 0x80
#: Longest piece of a message, in bytes.
PIECE = 1 << 18
_SEALED = struct.Struct("<BQ")


class ProtocolError(Exception):
    """The other side, or the link to it, does not follow the protocol.

    Attributes
    ----------
    problem, remedy
        Parts of a message: what happened, and how to fix it.
    """

    def __init__(self, problem: str, remedy: str = "check the link, and that both hosts run fastcep") -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


class Direction(IntEnum):
    """The side that writes a frame."""

    FROM_OLD = 0
    FROM_NEW = 1


class Kind(IntEnum):
    """Types of frames."""

    HELLO = 1
    CHALLENGE = 2
    PROOF = 3
    WELCOME = 4
    DENIED = 5
    OFFER = 16
    BASE = 17
    READY = 18
    REFUSED = 19
    PAD = 20
    STATES = 21
    EVENTS = 22
    ACK = 23
    WORKING = 24
    END = 25
    BUILT = 26
    COMMIT = 27
    DONE = 28
    ABORT = 29


#: Types of frames without a code, from a side that has not proved that it knows the key.
HANDSHAKE = frozenset({Kind.HELLO, Kind.CHALLENGE, Kind.PROOF, Kind.WELCOME, Kind.DENIED})

#: Longest payload of each type, in bytes.
LIMITS: dict[Kind, int] = {
    Kind.HELLO: 128, Kind.CHALLENGE: 128, Kind.PROOF: 32, Kind.WELCOME: 32, Kind.DENIED: 1,
    Kind.OFFER: 2048, Kind.BASE: PIECE, Kind.READY: 0, Kind.REFUSED: 2048, Kind.PAD: PIECE, Kind.STATES: PIECE,
    Kind.EVENTS: PIECE, Kind.ACK: 16, Kind.WORKING: 0, Kind.END: 64, Kind.BUILT: 64, Kind.COMMIT: 0, Kind.DONE: 0,
    Kind.ABORT: 2048,
}  # fmt: skip

#: Types of messages that may have several pieces.
_DIVIDED = frozenset({Kind.BASE, Kind.STATES, Kind.EVENTS})


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame whose code, if it has one, is correct.

    Attributes
    ----------
    kind
        Its type.
    payload
        Its content.
    more
        Another piece of the message follows.
    """

    kind: Kind
    payload: bytes
    more: bool = False


def checked_header(header: bytes, expected: frozenset[Kind]) -> tuple[Kind, int, bool]:
    """Return the type, the length of the payload, and `MORE`, before anything of the payload is read.

    Raises
    ------
    ProtocolError
        If the type is unknown or not expected now, or the payload is too long for it.
    """
    length, number = HEADER.unpack(header)
    more, number = bool(number & MORE), number & ~MORE
    names = ", ".join(sorted(kind.name for kind in expected))
    if number not in Kind._value2member_map_:
        raise ProtocolError(f"found a frame of unknown type {number}, expected one of {names}")
    kind = Kind(number)
    if kind not in expected:
        raise ProtocolError(f"found a frame {kind.name}, expected one of {names}")
    if length > LIMITS[kind]:
        raise ProtocolError(f"found a frame {kind.name} of {length:,} bytes, expected at most {LIMITS[kind]:,}")
    if more and kind not in _DIVIDED:
        raise ProtocolError(f"found a frame {kind.name} in several pieces, expected one")
    return kind, length, more


class _Codes:
    """Codes of the frames in one direction; `digest` covers all of them."""

    def __init__(self, key: bytes, direction: Direction) -> None:
        self._key = key
        self._direction = direction
        self._digest = hashlib.sha256()
        self.count = 0

    @property
    def digest(self) -> bytes:
        """Digest of all frames so far."""
        return self._digest.digest()

    def code(self, header: bytes, payload: bytes | memoryview) -> bytes:
        """Return the code of the next frame."""
        text = b"".join((_SEALED.pack(self._direction, self.count), header, payload))
        return hmac.digest(self._key, text, "sha256")[:CODE]

    def add(self, code: bytes) -> None:
        """Count a frame."""
        self._digest.update(code)
        self.count += 1


class Sealer(_Codes):
    """Computes the codes of the frames that a side writes.

    Parameters
    ----------
    key
        Key of the session.
    direction
        The side that writes.
    """

    def seal(self, kind: Kind, payload: bytes | memoryview = b"", more: bool = False) -> bytes:
        """Return the bytes of a frame."""
        header = HEADER.pack(len(payload), kind | (MORE if more else 0))
        code = self.code(header, payload)
        self.add(code)
        return b"".join((header, payload, code))


class Opener(_Codes):
    """Checks the codes of the frames that a side reads; parameters as for `Sealer`.

    Attributes
    ----------
    before
        Number and digest of the frames before the last one.
    """

    def __init__(self, key: bytes, direction: Direction) -> None:
        super().__init__(key, direction)
        self.before = (0, self.digest)

    def check(self, header: bytes, payload: bytes, code: bytes) -> None:
        """Raise a ProtocolError if the code is not that of the next frame with this content."""
        if not hmac.compare_digest(self.code(header, payload), code):
            raise ProtocolError(
                f"frame {self.count} has a wrong code: it was changed, repeated, reordered or forged",
                "check for a device that changes the data, and use tls= on a link that is not trusted",
            )
        self.before = (self.count, self.digest)
        self.add(code)
