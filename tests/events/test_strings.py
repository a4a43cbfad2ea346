import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.events import StringTable


def test_codes_count_up_and_are_stable():
    table = StringTable()
    assert [table.intern(text) for text in ("x", "y", "x", "")] == [0, 1, 0, 2]
    assert table.lookup(1) == "y" and len(table) == 3
    for code in (3, -1):
        with pytest.raises(KeyError, match=str(code)):
            table.lookup(code)


KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_encode_of_every_string_type(kind):
    table = StringTable()
    table.intern("before")
    array = pa.array(["skipped", "a", None, "b", "a"]).cast(kind)[1:]
    codes, nulls = table.encode(array)
    assert codes.dtype == np.int64 and nulls.dtype == np.uint8
    assert nulls.tolist() == [0, 1, 0, 0] and codes[1] == 0
    assert [table.lookup(codes[i]) for i in (0, 2, 3)] == ["a", "b", "a"]
    assert len(table) == 3  # entries that no row uses are not interned
    assert table.encode(array[2:])[1] is None


def test_null_among_the_entries_of_a_dictionary():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    codes, nulls = StringTable().encode(array)
    assert codes.tolist() == [0, 0, 0] and nulls.tolist() == [0, 1, 1]


def test_only_nulls():
    codes, nulls = StringTable().encode(pa.array([None, None], pa.string()))
    assert codes.tolist() == [0, 0] and nulls.tolist() == [1, 1]


@given(st.lists(st.none() | st.text(max_size=3)))
def test_round_trip(texts):
    table = StringTable()
    array = pa.array(texts, pa.string())
    decoded = table.decode(*table.encode(array))
    assert decoded.type == pa.string() and decoded.equals(array)


def test_reclaimed_codes_are_reused():
    table = StringTable()
    for text in "abcd":
        table.intern(text)
    full = table.nbytes
    assert table.reclaim(np.array([1, 1])) == 3
    assert len(table) == 1 and table.nbytes < full
    with pytest.raises(KeyError):
        table.lookup(0)
    with pytest.raises(KeyError):
        table.decode(np.array([0]), None)
    assert [table.intern(text) for text in ("b", "c", "d", "e", "f")] == [1, 0, 2, 3, 4]
    assert table.reclaim(np.arange(5)) == 0
