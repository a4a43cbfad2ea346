"""Digest of the rows read: independent of batch boundaries and column types, different for different rows."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.cli.durable.digest import Digest
from fastcep.events import Schema

SCHEMA = Schema(
    {"A": {"n": "int64", "x": "float64", "yes": "bool", "text": "string"}, "B": {"n": "int64", "word": "string"}},
    time="ts",
    type="kind",
    sequence="seq",
    other_types="ignore",
)
TYPES: dict[str, list[Any]] = {
    "ts": [pa.int64(), pa.timestamp("ns")],
    "kind": [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())],
    "seq": [pa.int64(), pa.int16()],
    "n": [pa.int64(), pa.int8()],
    "x": [pa.float64()],
    "yes": [pa.bool_()],
    "text": [pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.large_string())],
    "word": [pa.large_string(), pa.string()],
}
TEXTS = st.none() | st.sampled_from(["", "a", "ab", "b", "é", "𝄞"])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.integers(0, 9),
            "kind": st.sampled_from("ABC"),
            "seq": st.integers(0, 99),
            "n": st.none() | st.integers(-3, 3),
            "x": st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")]),
            "yes": st.none() | st.booleans(),
            "text": TEXTS,
            "word": TEXTS,
        }
    ),
    max_size=12,
)


def digest_of(batches: list[pa.RecordBatch]) -> str:
    digest = Digest(SCHEMA)
    for rows in batches:
        digest.add(rows)
    return digest.hexdigest()


def batch(rows: list[dict[str, Any]], pick: Any = lambda kinds: kinds[0]) -> pa.RecordBatch:
    arrays = []
    for name, kinds in TYPES.items():
        kind = pick(kinds)
        values = pa.array([row[name] for row in rows], kinds[0])
        arrays.append(values.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else values.cast(kind))
    return pa.RecordBatch.from_arrays(arrays, list(TYPES))


@given(ROWS, st.randoms(use_true_random=False))
def test_cuts_and_types_do_not_matter(rows: list[dict[str, Any]], draw: Random) -> None:
    batches, start = [], 0
    while start < len(rows):
        size = draw.randint(1, len(rows) - start)
        part = batch(rows[max(0, start - 1) : start + size], draw.choice)
        batches.append(part.slice(min(1, start)))  # arrays with an offset
        start += size
    batches.insert(draw.randint(0, len(batches)), batch([]))
    assert digest_of(batches) == digest_of([batch(rows)])


@given(ROWS, st.randoms(use_true_random=False))
def test_other_rows_have_another_digest(rows: list[dict[str, Any]], draw: Random) -> None:
    expected = digest_of([batch(rows)])
    assert digest_of([batch([*rows, {**dict.fromkeys(TYPES), "ts": 0, "kind": "C", "seq": 0}])]) != expected
    if not rows:
        return
    assert digest_of([batch(rows[:-1])]) != expected
    position, name = draw.randrange(len(rows)), draw.choice(["ts", "kind", "seq", "n", "text"])
    row = rows[position]
    new = {"ts": (row["ts"] + 1), "kind": "CAB"["ABC".index(row["kind"])], "seq": row["seq"] + 1, "n": 7, "text": "new"}
    changed = [*rows[:position], {**row, name: new[name]}, *rows[position + 1 :]]
    same = row["kind"] == "C" and name != "kind"  # rows of ignored types are only counted
    assert (digest_of([batch(changed)]) == expected) == same


@pytest.mark.parametrize("pair", [(["a", "bc"], ["ab", "c"]), (["", None], [None, ""]), (["a", None], [None, "a"])])
def test_texts_differ_by_their_boundaries_and_nulls(pair: tuple[list[str | None], list[str | None]]) -> None:
    first, second = (
        [{**dict.fromkeys(TYPES), "ts": 0, "seq": at, "kind": "A", "text": text} for at, text in enumerate(texts)]
        for texts in pair
    )
    assert digest_of([batch(first)]) != digest_of([batch(second)])


def test_a_column_without_a_type_is_all_null() -> None:
    rows = [{**dict.fromkeys(TYPES), "ts": 0, "seq": at, "kind": "A"} for at in range(3)]
    plain = batch(rows)
    untyped = plain.set_column(plain.schema.get_field_index("text"), "text", pa.nulls(3))
    assert digest_of([untyped]) == digest_of([plain]) == digest_of([plain.slice(0, 1), untyped.slice(1)])
