"""Mutual proof that both hosts have the same key, and the key of the session.

The session's key is an HMAC with the shared key over both first messages, which have a fresh random number each, and
the versions. So nothing of a recorded session is valid in another one. The old host proves its knowledge first: a
stranger that connects to the new host gets nothing that depends on the key.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from dataclasses import dataclass
from importlib.metadata import version

from fastcep.migration.transfer.frames import ProtocolError

__all__ = ["PROTOCOL", "Greeting", "Session", "check_versions", "greeting", "parse_greeting", "same_proof"]

#: Version of the protocol.
PROTOCOL = 1
_MAGIC = b"FCEPMIGR"
_HEAD = struct.Struct("<8sH32s")


@dataclass(frozen=True, slots=True)
class Greeting:
    """First message of a side.

    Attributes
    ----------
    protocol, version
        Version of its protocol, and of its fastcep.
    payload
        The message.
    """

    protocol: int
    version: str
    payload: bytes


def _fastcep_version() -> str:
    return version("fastcep")


def greeting() -> Greeting:
    """Return a first message with a new random number."""
    own = _fastcep_version()
    return Greeting(PROTOCOL, own, _HEAD.pack(_MAGIC, PROTOCOL, secrets.token_bytes(32)) + own.encode("ascii"))


def parse_greeting(payload: bytes) -> Greeting:
    """Read the first message of the other side; ProtocolError if it is none."""
    if len(payload) <= _HEAD.size or payload[:8] != _MAGIC:
        raise ProtocolError("the first message is not one of fastcep's migration", "check the address")
    _, protocol, _ = _HEAD.unpack_from(payload)
    text = payload[_HEAD.size :]
    if not all(33 <= byte < 127 for byte in text):
        raise ProtocolError("the first message has a version that is no text", "check the address")
    return Greeting(protocol, text.decode("ascii"), payload)


def check_versions(other: Greeting, side: str) -> None:
    """Raise a ProtocolError if the other side, such as ``"the new host"``, has other versions."""
    own = _fastcep_version()
    if other.protocol != PROTOCOL:
        raise ProtocolError(
            f"{side} uses version {other.protocol} of the protocol, expected {PROTOCOL}",
            "install the same version of fastcep on both hosts",
        )
    if other.version != own:
        raise ProtocolError(
            f"{side} runs fastcep {other.version}, expected {own}", "install the same version of fastcep on both hosts"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Session:
    """Secrets of one session.

    Attributes
    ----------
    old_proof, new_proof
        Proofs of the two hosts.
    frames
        Key for the codes of frames.
    """

    old_proof: bytes
    new_proof: bytes
    frames: bytes

    @classmethod
    def of(cls, key: bytes, hello: Greeting, challenge: Greeting) -> Session:
        """Derive the secrets from the shared key and both first messages."""
        digests = b"".join(hashlib.sha256(side.payload).digest() for side in (hello, challenge))
        secret = hmac.digest(key, b"fastcep migration: session" + digests, "sha256")
        return cls(*(
            hmac.digest(secret, purpose, "sha256")
            for purpose in (b"proof of the old host", b"proof of the new host", b"frames")
        ))  # fmt: skip


def same_proof(found: bytes, expected: bytes) -> bool:
    """Compare proofs in a time that does not depend on their content."""
    return hmac.compare_digest(found, expected)
