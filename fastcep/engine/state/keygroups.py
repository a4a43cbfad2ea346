"""Compute the key group of a key. The state of keyed queries moves between engines by key groups.

The group is the XXH64 (seed 0) of the key, modulo `GROUPS`. The hashed bytes are: for an int64 or a bool its 8 bytes,
little-endian; for a float64 its 8 bytes, -0.0 as 0.0; for a string its UTF-8 bytes. The group is the same in every
process, on every machine, in every version. A null or NaN joins nothing, but such an event may be a match by itself, so
it is in group `NO_KEY`: one engine processes it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh64_intdigest

from fastcep.errors import ValidationError

__all__ = ["GROUPS", "NO_KEY", "check_groups", "group_of_texts", "group_of_words", "key_group"]

GROUPS = 64
NO_KEY = 0  #: the group of events whose key is null or NaN

_MASK = np.uint64(GROUPS - 1)
_BLOCK = 1 << 14  # words hashed at once: they stay in the cache between the steps
_FEW = 128  # for fewer words, one call for each word is faster than the steps

# The constants of XXH64.
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
_SEED = _P5 + np.uint64(8)  # for a key of 8 bytes


def group_of_words(words: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Return the key group of each word.

    Parameters
    ----------
    words
        Keys as int64[n]: integers, bools as 0 and 1, or the bits of float64 (without -0.0 and NaN).

    Returns
    -------
    groups
        uint8[n], each below `GROUPS`.
    """
    if len(words) < _FEW:
        data = np.asarray(words, dtype="<i8").tobytes()
        return np.array([xxh64_intdigest(data[at : at + 8]) % GROUPS for at in range(0, len(data), 8)], np.uint8)
    values = np.ascontiguousarray(words, dtype=np.int64).view(np.uint64)
    groups = np.empty(len(values), np.uint8)
    size = min(_BLOCK, len(values))
    hashes, shifted = np.empty(size, np.uint64), np.empty(size, np.uint64)
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        h, t = hashes[: len(block)], shifted[: len(block)]
        np.multiply(block, _P2, out=h)
        _rotate(h, 31, t)
        h *= _P1
        h ^= _SEED
        _rotate(h, 27, t)
        h *= _P1
        h += _P4
        for shift, prime in ((33, _P2), (29, _P3)):
            np.right_shift(h, np.uint64(shift), out=t)
            h ^= t
            h *= prime
        np.right_shift(h, np.uint64(32), out=t)
        h ^= t
        h &= _MASK
        groups[start : start + len(block)] = h
    return groups


def _rotate(words: npt.NDArray[np.uint64], bits: int, buffer: npt.NDArray[np.uint64]) -> None:
    """Rotate 64-bit words to the left, in place; ``buffer`` is overwritten."""
    np.right_shift(words, np.uint64(64 - bits), out=buffer)
    np.left_shift(words, np.uint64(bits), out=words)
    words |= buffer


def group_of_texts(texts: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Return the key group of each text, uint8[n]."""
    return np.fromiter((xxh64_intdigest(text.encode()) % GROUPS for text in texts), np.uint8, len(texts))


def key_group(value: Any) -> int:
    """Return the key group of a key: the one of 64 that an event with this key belongs to.

    Parameters
    ----------
    value
        An int, bool, float or str, or a NumPy scalar of these, of the type of the key's attribute: 5 and 5.0 differ.
        None for a null.

    Returns
    -------
    int
        0 to 63.

    Raises
    ------
    ValidationError
        The value is of another type, or does not fit int64.

    Examples
    --------
    >>> key_group(5), key_group(5.0), key_group("five")
    (61, 36, 57)
    """
    if value is None or value != value:
        return NO_KEY
    try:
        if isinstance(value, str):
            data = value.encode()
        elif isinstance(value, (int, np.integer, np.bool_)):
            data = struct.pack("<q", int(value))
        elif isinstance(value, (float, np.floating)):
            data = struct.pack("<d", float(value) + 0.0)  # both zeros are equal
        else:
            raise ValidationError(
                f"found {value!r} ({type(value).__name__}) as a key, expected an int, bool, float or str"
            )
    except struct.error:
        raise ValidationError(
            f"found the key {value}, expected one that fits int64; give a key of a float64 attribute as a float"
        ) from None
    except UnicodeEncodeError as error:
        raise ValidationError(
            f"found the key {value!r}, expected text that UTF-8 can hold ({error.reason} at {error.start})"
        ) from None
    return xxh64_intdigest(data) % GROUPS


def check_groups(groups: Iterable[int]) -> tuple[int, ...]:
    """Check numbers of key groups; return them in ascending order, without duplicates.

    Raises
    ------
    ValidationError
        There is no group, or one is not an int from 0 to 63.
    """
    expected = f"expected one or more key groups, ints from 0 to {GROUPS - 1}"
    if isinstance(groups, (str, bytes)):
        raise ValidationError(f"found {groups!r} as groups, {expected}: a list or range of them")
    try:
        numbers: list[Any] = list(groups)
    except TypeError:
        raise ValidationError(f"found {groups!r} as groups, {expected}: a list or range of them") from None
    if not numbers:
        raise ValidationError(f"found no key group, {expected}; leave `groups` out for all of them")
    remedy = "fastcep.key_group(key) returns the group of a key"
    for group in numbers:
        if isinstance(group, bool) or not isinstance(group, (int, np.integer)):
            raise ValidationError(f"found {group!r} ({type(group).__name__}) as a key group, {expected}; {remedy}")
        if not 0 <= group < GROUPS:
            raise ValidationError(f"found {group} as a key group, {expected}; {remedy}")
    return tuple(sorted({int(group) for group in numbers}))
