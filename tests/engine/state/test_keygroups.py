"""Key groups are the XXH64 of a key, the same for one value and for a million."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

import fastcep as fc
from fastcep.engine.state import keygroups
from fastcep.engine.state.keygroups import GROUPS, NO_KEY, check_groups, group_of_texts, group_of_words, key_group

INT64 = st.integers(-(2**63), 2**63 - 1)
EDGES = [0, 1, -1, 2**63 - 1, -(2**63), 2**31, 2**32, -(2**32)]


def expected(value: int) -> int:
    return xxhash.xxh64_intdigest(struct.pack("<q", value)) % 64


def test_the_groups_never_change() -> None:
    assert GROUPS == 64
    keys = (0, 1, 5, 5.0, 0.0, "", "five", "ä", True)
    assert [key_group(key) for key in keys] == [59, 21, 61, 36, 59, 25, 57, 25, 21]


@pytest.mark.parametrize("few", [0, 1_000_000])
def test_words_have_the_groups_of_the_package(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keygroups, "_FEW", few)
    monkeypatch.setattr(keygroups, "_BLOCK", 100)
    words = np.concatenate([EDGES, np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 1000)])
    for count in (0, 1, 99, 100, 101, len(words)):
        groups = group_of_words(words[:count])
        assert groups.dtype == np.uint8
        assert groups.tolist() == [expected(word) for word in words[:count].tolist()]


@given(st.lists(INT64, max_size=20), st.integers(0, 200))
def test_any_words(few: list[int], more: int) -> None:
    words = np.array(few + list(range(more)), np.int64)
    before = words.copy()
    assert group_of_words(words).tolist() == [expected(word) for word in words.tolist()]
    assert (words == before).all()


def test_words_need_not_lie_together() -> None:
    words = np.arange(2000)[::-3]
    words.flags.writeable = False
    assert group_of_words(words).tolist() == [expected(word) for word in words.tolist()]


def test_groups_are_even() -> None:
    counts = np.bincount(group_of_words(np.arange(64_000)), minlength=64)
    assert len(counts) == 64 and counts.min() > 850 and counts.max() < 1150


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=20))
def test_texts(texts: list[str]) -> None:
    groups = group_of_texts(texts)
    assert groups.dtype == np.uint8
    assert groups.tolist() == [xxhash.xxh64_intdigest(text.encode()) % 64 for text in texts]
    assert groups.tolist() == [key_group(text) for text in texts]


@given(INT64)
def test_an_int_is_a_word(value: int) -> None:
    assert key_group(value) == key_group(np.int64(value)) == group_of_words(np.array([value]))[0]


@given(st.floats(allow_nan=False))
def test_a_float_is_its_bits(value: float) -> None:
    bits = np.array([value + 0.0]).view(np.int64)
    assert key_group(value) == key_group(np.float64(value)) == group_of_words(bits)[0]


def test_other_scalars() -> None:
    assert key_group(-0.0) == key_group(0.0)
    assert key_group(True) == key_group(np.True_) == key_group(1) == key_group(np.uint8(1))
    assert key_group(np.float32(0.5)) == key_group(0.5)
    assert key_group(np.str_("five")) == key_group("five")
    assert key_group(None) == key_group(float("nan")) == NO_KEY == 0
    assert fc.key_group is key_group


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (b"five", "found b'five' (bytes) as a key, expected an int, bool, float or str"),
        ((1, 2), "found (1, 2) (tuple) as a key"),
        (2**63, "found the key 9223372036854775808, expected one that fits int64; give a key of a float64"),
        (np.uint64(2**63), "found the key 9223372036854775808, expected one that fits int64"),
        ("\ud800", "found the key '\\ud800', expected text that UTF-8 can hold"),
    ],
)
def test_what_is_no_key(key: Any, message: str) -> None:
    with pytest.raises(fc.ValidationError) as caught:
        key_group(key)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("groups", "checked"),
    [
        ([3, 1, 2], (1, 2, 3)),
        (range(64), tuple(range(64))),
        ({63, 0}, (0, 63)),
        ((5, 5, np.uint8(5)), (5,)),
        (np.array([9, 8], np.uint8), (8, 9)),
        (iter([7]), (7,)),
    ],
)
def test_groups_are_put_in_order(groups: Any, checked: tuple[int, ...]) -> None:
    found = check_groups(groups)
    assert found == checked and all(type(group) is int for group in found)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([], "found no key group, expected one or more key groups, ints from 0 to 63; leave `groups` out"),
        (5, "found 5 as groups, expected one or more key groups, ints from 0 to 63: a list or range of them"),
        (None, "found None as groups"),
        ("12", "found '12' as groups"),
        (b"\1", "found b'\\x01' as groups"),
        ([64], "found 64 as a key group, expected one or more key groups, ints from 0 to 63; fastcep.key_group(key)"),
        ([-1], "found -1 as a key group"),
        ([np.int64(64)], "found 64 as a key group"),
        ([True], "found True (bool) as a key group"),
        (np.array([True]), "found np.True_ (bool) as a key group"),
        ([1.0], "found 1.0 (float) as a key group"),
        (["a"], "found 'a' (str) as a key group"),
        (np.zeros((1, 2), int), "found array([0, 0]) (ndarray) as a key group"),
    ],
)
def test_what_are_no_groups(groups: Any, message: str) -> None:
    with pytest.raises(fc.ValidationError) as caught:
        check_groups(groups)
    assert str(caught.value).startswith(message)
