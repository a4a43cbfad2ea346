"""Write matches and read them back in every format: random tables and a million rows."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.json as pj
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.formats import BINARY, read_binary

from fastcep.events.convert import from_lengths, from_numpy, from_texts
from fastcep.io import MatchWriter

VALUES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), st.floats()),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(st.characters(codec="utf-8"), max_size=6)),
    "time": (pa.timestamp("ns", "UTC"), st.integers(-(2**63) + 1, 2**63 - 1)),
}


@st.composite
def tables(draw: Any) -> pa.Table:
    rows = draw(st.integers(0, 6))
    columns = {}
    for name, (kind, values) in VALUES.items():
        some = values | st.none()
        columns[name] = pa.array(draw(st.lists(some, min_size=rows, max_size=rows)), kind)
        if name != "time":
            lists = st.lists(some, max_size=4) | st.none()
            wide = pa.large_list if draw(st.booleans()) else pa.list_
            columns[f"{name}s"] = pa.array(draw(st.lists(lists, min_size=rows, max_size=rows)), wide(kind))
    return pa.table(columns).slice(draw(st.integers(0, 2)))


def comparable(value: Any) -> Any:
    """Return values for a comparison in which NaN equals NaN and 0.0 differs from -0.0."""
    if isinstance(value, list):
        return [comparable(entry) for entry in value]
    return repr(value) if isinstance(value, float) else value


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    table = table.set_column(table.column_names.index("time"), "time", table["time"].cast(pa.int64()))
    return [{name: comparable(value) for name, value in row.items()} for row in table.to_pylist()]


def from_json(value: Any, name: str) -> Any:
    """Return the value of a JSON value of a column."""
    if isinstance(value, list):
        return [from_json(entry, name.removesuffix("s")) for entry in value]
    if name == "float" and value is not None:
        return repr(float(value))
    return nanoseconds(value) if name == "time" and value is not None else value


def nanoseconds(text: str) -> int:
    return int(np.datetime64(text.removesuffix("Z").replace(" ", "T"), "ns").astype(np.int64))


def csv_value(text: str, name: str) -> Any:
    if name in ("ints", "floats", "bools", "texts"):
        return from_json(json.loads(text), name)
    return {"int": int, "float": lambda t: repr(float(t)), "bool": "true".__eq__, "time": nanoseconds}.get(name, str)(
        text
    )


def csv_rows(text: str) -> list[dict[str, Any]]:
    """Read CSV in which an unquoted empty field is null (Python's reader returns an empty string for both)."""
    marked = []
    inside = False
    for index, character in enumerate(text):
        inside ^= character == '"'
        starts = not inside and character in ",\n" and index + 1 < len(text)
        marked.append(character)
        if starts and text[index + 1] in ",\n":
            marked.append("\x00NULL")
    names, *rows = csv.reader(io.StringIO("".join(marked), newline=""), strict=True)
    return [
        {name: None if value == "\x00NULL" else csv_value(value, name) for name, value in zip(names, row, strict=True)}
        for row in rows
    ]


@given(tables(), st.sampled_from([1, 2, 100]))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, table: pa.Table, step: int) -> None:
    folder = tmp_path_factory.mktemp("sinks")
    for ending in (*BINARY, "jsonl", "csv"):
        path = folder / f"m.{ending}"
        with MatchWriter(path) as writer:
            writer.write(table.slice(0, 0))
            for start in range(0, len(table), step):
                writer.write(table.slice(start, step))
        if ending in BINARY:
            assert read_binary(path).schema.equals(table.schema)
            assert rows_of(read_binary(path)) == rows_of(table)
        elif ending == "jsonl":
            lines = path.read_bytes().decode().split("\n")[:-1]
            rows = [{name: from_json(value, name) for name, value in json.loads(line).items()} for line in lines]
            assert rows == rows_of(table)
        elif all("\x00" not in (text or "") for text in table["text"].to_pylist()):
            with path.open(encoding="utf-8", newline="") as file:
                assert csv_rows(file.read()) == rows_of(table)
    assert sorted(os.listdir(folder)) == sorted(f"m.{ending}" for ending in (*BINARY, "jsonl", "csv"))


ROWS = 1_000_000


@pytest.fixture(scope="module")
def million() -> pa.Table:
    """Return a million matches with the column types of the engine."""
    random = np.random.default_rng(3)
    lengths = random.integers(0, 3, ROWS)
    return pa.table(
        {
            "query": pa.DictionaryArray.from_arrays(from_numpy(np.zeros(ROWS, np.int8), pa.int8()), from_texts(["q"])),
            "window_id": pa.nulls(ROWS, pa.int64()),
            "detected_at": from_numpy(random.integers(0, 2**61, ROWS), pa.timestamp("ns", "UTC")),
            "a": from_numpy(random.integers(-9, 2**40, ROWS), nulls=random.random(ROWS) < 0.1),
            "b": from_lengths(lengths, from_numpy(random.integers(0, 2**33, lengths.sum()))),
            "f": from_numpy(random.normal(size=ROWS)),
            "s": from_texts([f'name "{number % 1000}" é' for number in range(ROWS)]),
        }
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    "ending",
    [*BINARY, "csv", "jsonl", *(pytest.param(e, marks=pytest.mark.slow) for e in ("csv.gz", "jsonl.gz", "jsonl.zst"))],
)
def test_a_million_matches(million: pa.Table, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"m.{ending}"
    with MatchWriter(path) as writer:
        for start in range(0, ROWS, 65_536):
            writer.write(million.slice(start, 65_536))
    if ending in BINARY:
        assert read_binary(path).equals(million)
        return
    kinds: dict[str, Any] = {field.name: field.type for field in million.schema} | {"query": pa.string()}
    # A list is read as text from CSV; Arrow's JSON reader does not support large lists.
    kinds["b"] = pa.string() if "csv" in ending else pa.list_(pa.int64())
    compressions = {".gz": "gzip", ".zst": "zstd"}
    with pa.input_stream(str(path), compression=compressions.get(path.suffix)) as file:
        if "csv" in ending:
            result = pv.read_csv(
                file,
                convert_options=pv.ConvertOptions(
                    column_types=kinds, strings_can_be_null=True, quoted_strings_can_be_null=False
                ),
            )
            texts = pa.concat_arrays([pj_list(chunk) for chunk in result["b"].chunks])
            result = result.set_column(4, "b", texts)
        else:
            result = pj.read_json(file, parse_options=pj.ParseOptions(explicit_schema=pa.schema(list(kinds.items()))))
    assert result.column_names == million.column_names
    for name in million.column_names:
        expected: Any = million[name].cast(pa.string()) if name == "query" else million[name]
        if name == "b":
            expected = expected.cast(pa.list_(pa.int64()))
        assert result[name].combine_chunks().equals(expected.combine_chunks()), name


def pj_list(texts: Any) -> Any:
    """Parse JSON arrays of integers with Arrow."""
    lines = io.BytesIO(b"\n".join(b'{"x": %b}' % text.encode() for text in texts.to_pylist()))
    schema = pa.schema([("x", pa.list_(pa.int64()))])
    return pj.read_json(lines, parse_options=pj.ParseOptions(explicit_schema=schema))["x"].combine_chunks()
