"""Codes and headers of frames."""

from __future__ import annotations

import pytest

from fastcep.migration.transfer.frames import (
    CODE,
    HANDSHAKE,
    HEADER,
    LIMITS,
    MORE,
    Direction,
    Kind,
    Opener,
    ProtocolError,
    Sealer,
    checked_header,
)

KEY = bytes(range(32))


def parts(frame: bytes) -> tuple[bytes, bytes, bytes]:
    return frame[: HEADER.size], frame[HEADER.size : -CODE], frame[-CODE:]


def test_frames_in_order_are_accepted() -> None:
    sealer, opener = Sealer(KEY, Direction.FROM_OLD), Opener(KEY, Direction.FROM_OLD)
    for kind, payload in ((Kind.OFFER, b"a"), (Kind.STATES, b""), (Kind.STATES, b""), (Kind.END, b"b")):
        before = (sealer.count, sealer.digest)
        opener.check(*parts(sealer.seal(kind, payload)))
        assert opener.before == before and opener.digest == sealer.digest


@pytest.mark.parametrize("position", [0, 4, 5, 7, -CODE, -1])
def test_every_part_of_a_frame_is_protected(position: int) -> None:
    frame = bytearray(Sealer(KEY, Direction.FROM_OLD).seal(Kind.STATES, b"abc"))
    frame[position] ^= 1
    with pytest.raises(ProtocolError, match="frame 0 has a wrong code"):
        Opener(KEY, Direction.FROM_OLD).check(*parts(bytes(frame)))


def test_number_direction_and_key_are_protected() -> None:
    sealer = Sealer(KEY, Direction.FROM_OLD)
    first, second = sealer.seal(Kind.WORKING), sealer.seal(Kind.WORKING)
    assert first != second
    for frame, key, direction in (
        (second, KEY, Direction.FROM_OLD), (first, KEY, Direction.FROM_NEW), (first, KEY[1:], Direction.FROM_OLD),
    ):  # fmt: skip
        with pytest.raises(ProtocolError, match="wrong code"):
            Opener(key, direction).check(*parts(frame))
    opener = Opener(KEY, Direction.FROM_OLD)
    opener.check(*parts(first))
    with pytest.raises(ProtocolError, match="frame 1 has a wrong code"):
        opener.check(*parts(first))


@pytest.mark.parametrize("kind", Kind)
def test_the_length_is_limited_for_each_type(kind: Kind) -> None:
    expected = frozenset({kind})
    assert checked_header(HEADER.pack(LIMITS[kind], kind), expected) == (kind, LIMITS[kind], False)
    for length in (LIMITS[kind] + 1, 2**31, 2**32 - 1):
        with pytest.raises(ProtocolError, match=f"found a frame {kind.name} of .* bytes, expected at most"):
            checked_header(HEADER.pack(length, kind), expected)
    with pytest.raises(ProtocolError, match=f"found a frame {kind.name}, expected one of"):
        checked_header(HEADER.pack(0, kind), frozenset(Kind) - expected)


def test_before_the_key_is_proved_frames_are_tiny() -> None:
    assert max(LIMITS[kind] for kind in HANDSHAKE) == 128


def test_only_long_messages_have_pieces() -> None:
    assert checked_header(HEADER.pack(0, Kind.STATES | MORE), frozenset({Kind.STATES})) == (Kind.STATES, 0, True)
    with pytest.raises(ProtocolError, match="found a frame COMMIT in several pieces"):
        checked_header(HEADER.pack(0, Kind.COMMIT | MORE), frozenset({Kind.COMMIT}))
