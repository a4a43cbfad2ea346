"""Matches as Python objects. The matrix compares them with tables for drawn queries."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.match_records import check_records

import fastcep as fc
from fastcep.engine.results import match as module

SCHEMA = fc.Schema({kind: {"price": "float64", "items": "int64"} for kind in "AB"}, time="ts", type="type")
DATA = {
    "type": ["A", "B", "A", "B"], "ts": [1, 2, 3, 4], "price": [1.5, None, 2.5, 4.0], "items": [1, 2, 3, 4],
}  # fmt: skip


def found(text: str, **options: bool) -> fc.Matches:
    return fc.Engine(fc.parse(text, SCHEMA, name="q"), **options).process(DATA)


def test_a_match() -> None:
    matches = found("PATTERN SEQ(A a, B? b, A+ c[]) WITHIN 9ns RETURN a.price + 1 AS more")
    first, second = matches
    assert isinstance(first, fc.Match) and isinstance(first, Mapping)
    assert (first.a, first.b, first.c, first.more) == (0, None, [2], 2.5)
    assert (second["a"], second["b"], second["c"], second["more"]) == (0, 1, [2], 2.5)
    assert list(first) == ["query", "window_id", "detected_at", "a", "b", "c", "more"] and len(first) == 7
    assert first.detected_at == np.datetime64(3, "ns") and first.window_id is None and first.query == "q"
    assert repr(first) == "Match(query='q', detected_at='1970-01-01T00:00:00.000000003', a=0, b=None, c=[2], more=2.5)"
    assert first != second and pickle.loads(pickle.dumps(first)) == first == dict(first)
    assert {"a", "c", "more", "keys"} <= set(dir(first))
    with pytest.raises(AttributeError, match="the match has no 'd'; there is 'query', 'window_id', 'detected_at', 'a'"):
        first.d  # noqa: B018
    with pytest.raises(KeyError):
        first["d"]


def test_attributes_of_events() -> None:
    matches = found("PATTERN SEQ(A a, B? b, A+ c[]) WITHIN 9ns", attributes=True)
    match = matches[0]
    assert match.a.price == 1.5 and match.a.seq == 0 and match.a.time == np.datetime64(1, "ns")
    assert match.a["items"] == 1 and match["a"] == 0 and match["a.items"] == 1
    assert match.b is None and match["c"] == [2]
    assert match.c == [{"seq": 2, "time": np.datetime64(3, "ns"), "price": 2.5, "items": 3}]
    assert repr(match.a) == "Event(seq=0, time='1970-01-01T00:00:00.000000001', price=1.5, items=1)"
    assert matches[1].b.price is None
    with pytest.raises(AttributeError, match="the event has no 'size'; there is 'seq', 'time', 'price', 'items'"):
        match.a.size  # noqa: B018


def test_attributes_that_return_names() -> None:
    match = found("PATTERN SEQ(A a, B b) WITHIN 1ns RETURN a.price, b.price AS last")[0]
    assert match.a == {"seq": 0, "price": 1.5} and match.b == 1 and match.last is None


@pytest.mark.parametrize(("returned", "a", "b"), [
    ('SUM(b[].items) AS "b.total"', 0, [1]),
    ('a.price AS "b.owner"', 0, [1]),
    ('a.price AS "a.seq", a.items AS "a.price"', 0, [1]),
    ('b[last].price AS "b.price", b[last].items', 0, [1]),
    ('b[].items AS "a.items", a.items AS "b.items"', 0, [1]),
    ("a.seq, b[].seq", 0, [1]),
    ("a.price AS n, COUNT(b[]) AS \"n.max\"", 0, [1]),
    ("b[].items", 0, [{"seq": 1, "items": 2}]),
    ('b[].items AS "b.items", a.time', {"seq": 0, "time": np.datetime64(1, "ns")}, [{"seq": 1, "items": 2}]),
])  # fmt: skip
def test_only_attributes_under_their_own_names_make_events(returned: str, a: object, b: object) -> None:
    matches = found(f"PATTERN SEQ(A a, B+ b[]) WITHIN 1ns RETURN {returned}")
    match = matches[0]
    assert (match.a, match.b) == (a, b) and match["a"] == 0 and match["b"] == [1]
    assert pickle.loads(pickle.dumps(match)).b == copy.deepcopy(match).b == b
    assert "n" not in match or match.n == 1.5
    check_records(matches)


def test_quoted_attributes() -> None:
    schema = fc.Schema({"A": {"unit price": "int64", "a.b": "int64"}})
    data = {"type": ["A"], "ts": [1], "unit price": [2], "a.b": [3]}
    query = fc.parse('PATTERN SEQ(A a) WITHIN 1ns RETURN a."unit price", a."a.b"', schema)
    for options in ({}, {"attributes": True}):
        match = fc.Engine(query, **options).process(data)[0]  # type: ignore[arg-type]
        assert match.a["unit price"] == 2 and match.a["a.b"] == 3 and match.a.seq == 0


def test_elements_that_bind_no_event() -> None:
    data = {**DATA, "type": ["A", "A", "B", "B"]}
    query = fc.parse("PATTERN SEQ((SEQ(A a, B? b))+ g[]) WITHIN 9ns", SCHEMA)
    matches = fc.Engine(query, attributes=True).process(data)
    events = [getattr(match, "g.b") for match in matches]
    assert [None, {"seq": 2, "time": np.datetime64(3, "ns"), "price": 2.5, "items": 3}] in events and [None] in events


def test_groups_and_windows() -> None:
    match = found("PATTERN SEQ((SEQ(A a, B b))+ g[]) WITHIN 9ns SELECT cumulative")[0]
    assert match["g.a"] == [0] and match["g.b"] == [1]
    match = found("PATTERN SEQ(A a, B b) WINDOW OPEN ON A o CLOSE AFTER 2ns")[0]
    assert match.window_id == 0 and "window_id=0" in repr(match)


def test_index_and_slice() -> None:
    matches = found("PATTERN SEQ(A a) WITHIN 9ns")
    assert [match.a for match in matches[:]] == [0, 2] == [match["a"] for match in matches]
    assert matches[-1] == matches[1] == matches[np.int64(1)] and matches[1].a == 2
    assert [match.a for match in matches[::-1]] == [2, 0] and matches[2:] == [] and matches[1:9] == [matches[1]]
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"match {index} of 2; expected an index from -2 to 1"):
            matches[index]
    with pytest.raises(IndexError, match="match 0 of 0; there are no matches"):
        found("PATTERN SEQ(A a, A b, A c) WITHIN 9ns")[0]
    for wrong in ("a", 1.0, None):
        with pytest.raises(TypeError, match=rf"found index {wrong!r}, expected an int or a slice"):
            matches[wrong]  # type: ignore[call-overload]


def test_several_queries_in_order() -> None:
    queries = [
        fc.parse("PATTERN SEQ(B b) WITHIN 9ns", SCHEMA, name="later"),
        fc.parse("PATTERN SEQ(A a) WITHIN 9ns RETURN a.price", SCHEMA, name="first"),
        fc.parse("PATTERN SEQ(A a, A b) WITHIN 1ns", SCHEMA, name="none"),
    ]
    matches = fc.Engine(queries).process(DATA)
    assert [match.query for match in matches] == ["first", "later", "first", "later"]
    assert [matches[at].query for at in range(4)] == ["first", "later", "first", "later"]
    assert [match.query for match in matches[1:3]] == ["later", "first"] and "b" not in matches[0]
    check_records(matches)


def test_the_order_of_several_queries_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"later": "SEQ(A a, (A|B) b)", "first": "SEQ((A|B) b)", "waits": "SEQ(A a, NEG B b) WHERE b.items > 9"}
    engine = fc.Engine([fc.parse(f"PATTERN {text} WITHIN 2ns", SCHEMA, name=name) for name, text in texts.items()])
    matches = engine.process(DATA)
    expected, calls, sort = list(matches), [], np.lexsort
    again = fc.Matches.joined([matches, engine.flush()])
    monkeypatch.setattr(np, "lexsort", lambda keys: calls.append(None) or sort(keys))
    check_records(again)
    rows = list(again)
    assert set(map(repr, rows)) >= set(map(repr, expected)) and {row.query for row in rows} == set(texts)
    assert list(reversed(again)) == rows[::-1] and [again[at] for at in range(len(rows))] == rows
    for step in (1, 2, -1, -3):
        for first in range(len(rows)):
            assert again[first::step] == rows[first::step] and again[first : first + 2] == rows[first : first + 2]
    assert len(calls) == 1


def test_matches_are_not_pickled_or_copied() -> None:
    matches = found("PATTERN SEQ(A a) WITHIN 9ns")
    for _ in range(2):
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=r"convert them: to_arrow\(\) or to_dicts\(\)"):
                copied(matches)
        matches.to_arrow()


def test_large_results_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "PATTERN SEQ(A a, (A|B)+ b[]) WITHIN 9ns RETURN a.price"
    expected = found(text).to_dicts()
    for size in (1, 2, 3):
        monkeypatch.setattr(module, "_CHUNK", size)
        matches = found(text)
        check_records(matches)
        assert matches.to_dicts() == expected and matches[2] == expected[2]


def test_frames() -> None:
    matches = found("PATTERN SEQ(A a, B b) WITHIN 9ns RETURN a.price")
    table = matches.to_arrow()
    pd.testing.assert_frame_equal(matches.to_pandas(), table.to_pandas())
    assert isinstance(matches.to_polars(), pl.DataFrame) and matches.to_polars().equals(pl.DataFrame(table))


def test_frames_need_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    matches = found("PATTERN SEQ(A a) WITHIN 9ns")
    for name in ("pandas", "polars"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
        with pytest.raises(fc.ValidationError, match=rf"Matches.to_{name}\(\) needs {name}.*pip install {name}$"):
            getattr(matches, f"to_{name}")()


def test_numbers_are_plain() -> None:
    matches = found("PATTERN SEQ(A a, (A|B)+ b[]) WITHIN 9ns")
    rows = [{name: value for name, value in row.items() if name != "detected_at"} for row in matches.to_dicts()]
    assert json.loads(json.dumps(rows)) == rows


def test_html() -> None:
    schema = fc.Schema({"A": {"name": "string"}})
    query = fc.parse("PATTERN SEQ(A a) WITHIN 1ns RETURN a.name AS name", schema, name="<q>")
    matches = fc.Engine(query).process({"type": ["A"] * 12, "ts": range(12), "name": ["<b>", None, *["x" * 100] * 10]})
    page = matches._repr_html_()
    assert "12 matches (&lt;q&gt;: 12); the first 10" in page and page.count("<tr>") == 11
    assert "<td>&lt;b&gt;</td>" in page and "<td></td>" in page and f"<td>{'x' * 78} …</td>" in page
    assert "window_id" not in page
    nothing = fc.Engine(query).process({"type": ["A"][:0], "ts": pa.array([], "int64"), "name": pa.array([], "string")})
    assert "0 matches" in nothing._repr_html_() and "<table>" not in nothing._repr_html_()
