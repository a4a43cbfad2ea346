"""The option ``index``: the equalities that look up rows, their restrictions, and the option in snapshots."""

from __future__ import annotations

import pytest
from support import harness

import fastcep as fc
from fastcep.errors import SnapshotError, ValidationError
from fastcep.plan import make_plan
from fastcep.plan.plan import KeyPlan

ATTRIBUTES = {"ID": "int64", "V": "int64", "F": "float64"}
SCHEMA = fc.Schema(dict.fromkeys("ABCD", ATTRIBUTES), time="ts", type="type")
Q1 = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 8ms"
LINE = "A(ID=1,V=2)@0 B(ID=1,V=3)@1 B(ID=2,V=3)@2 C(ID=1,V=5)@3 C(ID=1,V=6)@4 C(ID=2,V=5)@5"


def query(text: str = Q1) -> fc.Query:
    return fc.parse(text, SCHEMA)


def keys(text: str, index: str) -> list[list[str]]:
    """Return the keys of each edge."""
    made = make_plan(query(f"PATTERN {text}"), index=index)
    return [[f"{row} = {event}" for row, event in edge.key_texts] for edge in made.edges if edge.source >= 0]


@pytest.mark.parametrize(("index", "found"), [
    ("full", [["a.ID = b.ID"], ["a.V + b.V = c.V", "a.ID = c.ID"]]),
    ("key", [["a.ID = b.ID"], ["a.ID = c.ID"]]),
    ("off", [[], []]),
])  # fmt: skip
def test_q1(index: str, found: list[list[str]]) -> None:
    made = make_plan(query(), index=index)
    assert [[f"{row} = {event}" for row, event in edge.key_texts] for edge in made.edges[1:]] == found
    tested = {"full": (), "key": ("(a.V + b.V) = c.V",), "off": ("a.ID = c.ID", "(a.V + b.V) = c.V")}[index]
    assert sorted(made.edges[2].predicate_texts) == sorted(tested)
    assert made.index == index


@pytest.mark.parametrize(("text", "key", "off"), [
    ("SEQ(A a, B b) WHERE [ID] WITHIN 8ms", ["partition.ID = b.ID"], []),
    ("SEQ(A a, B b) WHERE a.F = b.ID WITHIN 8ms", ["a.F = b.ID"], []),
    ("SEQ(A a, B b) WHERE a.ID = b.ID + 1 WITHIN 8ms", [], []),
    ("SEQ(A a, B b) WHERE -a.ID = b.ID WITHIN 8ms", [], []),
    ("SEQ(A a, NEXT B b) WHERE a.ID = b.ID WITHIN 8ms", ["a.ID = b.ID", "latest(a) = previous(b)"],
     ["latest(a) = previous(b)"]),
    ("SEQ(A a, B b) WITHIN 8ms PARTITION BY ID STRATEGY partition_contiguity",
     ["latest(a) = previous(b)", "partition.ID = b.ID"], ["latest(a) = previous(b)"]),
    ("SEQ(A a, B b) WHERE a.V = b.ID AND [ID] WITHIN 8ms CONSUME consumed", ["a.V = b.ID", "partition.ID = b.ID"], []),
])  # fmt: skip
def test_keys(text: str, key: list[str], off: list[str]) -> None:
    assert [sorted(own) for own in keys(text, "key")] == [key]
    assert keys(text, "off") == [off]


def test_kleene_variables() -> None:
    """Their first, last and neighbouring elements are plain attributes; values computed from all elements are not."""
    text = "SEQ(A a, B+ b[], C c) WHERE b[i+1].ID = b[i].ID AND b[last].ID = c.ID AND SUM(b[].V) = c.V WITHIN 8ms"
    assert keys(text, "key") == [[], ["b[last].ID = b.ID"], ["b[last].ID = c.ID"]]


@pytest.mark.parametrize("index", ["key", "off"])
def test_the_matches_are_the_same(index: str) -> None:
    data = harness.batch(SCHEMA, harness.stream(SCHEMA, LINE))
    engines = [fc.Engine(query(), index=own, store="rows") for own in ("full", index)]
    full, other = (engine.process(data).to_arrow() for engine in engines)
    assert full.equals(other) and len(full) == 1
    visited = [engine.metrics()["rows_visited"] for engine in engines]
    assert visited[1] > visited[0], "what is no key is tested row by row"


@pytest.mark.parametrize("index", ["key", "off"])
def test_it_is_rows(index: str) -> None:
    with pytest.raises(ValidationError, match=f"store='factorised': with index='{index}' partial matches are rows"):
        fc.Engine(query(), store="factorised", index=index)
    engine = fc.Engine(query(), index=index)
    assert engine._stream.queries.trials == 0
    line = next(line for line in engine.explain().splitlines() if line.startswith("store"))
    assert f"with index='{index}' partial matches are rows" in line
    assert line.endswith("; keys of plain attributes only" if index == "key" else "; no keys but those of contiguity")


def test_explain_says_nothing_of_what_is_usual() -> None:
    assert fc.Engine(query(), index="full").explain() == fc.Engine(query()).explain()


def test_a_query_that_needs_rows_says_why() -> None:
    text = "PATTERN AND(A a, B b) WHERE a.ID = b.ID WITHIN 8ms"
    assert make_plan(query(text), index="key").rows_only == make_plan(query(text)).rows_only


def test_unknown() -> None:
    with pytest.raises(ValidationError, match="index='on': expected one of 'full', 'key', 'off'"):
        fc.Engine(query(), index="on")


def test_keyed() -> None:
    assert isinstance(make_plan(query(), index="key").key, KeyPlan)
    assert make_plan(query(), index="off").key == "with index='off' there are no keys to split the state by"
    single = query("PATTERN SEQ(A a, NEG B b) WHERE [ID] WITHIN 8ms")
    assert isinstance(make_plan(single, index="off").key, KeyPlan), "nothing joins rows, and negated events keep theirs"
    data = harness.batch(SCHEMA, harness.stream(SCHEMA, LINE))
    assert len(fc.Engine(query(), index="key", threads=2).process(data)) == 1
    with pytest.raises(ValidationError, match=r"threads=2: .* index='off' there are no keys to split the state by"):
        fc.Engine(query(), index="off", threads=2)
    with pytest.raises(ValidationError, match="into key groups: with index='off' there are no keys"):
        fc.Engine(query(), index="off").extract([1])


@pytest.mark.parametrize("index", ["key", "off"])
def test_a_snapshot_has_it(index: str) -> None:
    events = harness.stream(SCHEMA, LINE)
    engine = fc.Engine(query(), index=index)
    engine.process(harness.batch(SCHEMA, events[:2]))
    restored = fc.Engine.restore(engine.snapshot())
    assert restored.explain().replace("as in the snapshot", "") == engine.explain()
    rest = harness.batch(SCHEMA, events[2:])
    assert len(restored.process(rest)) == len(engine.process(rest)) == 1


def test_a_null_joins_nothing_but_is_stored() -> None:
    data = harness.batch(SCHEMA, harness.stream(SCHEMA, "A(V=1)@0 B(V=1)@1 C(V=2)@2"))
    engines = [fc.Engine(query(), index=index, store="rows") for index in ("full", "key", "off")]
    assert [len(engine.process(data)) for engine in engines] == [0, 0, 0]
    assert [engine.metrics()["rows_created"] for engine in engines] == [0, 0, 1]


def test_key_groups_go_between_engines_of_one_index() -> None:
    part = fc.Engine(query(), index="key").extract(range(32))
    other = fc.Engine(query(), store="rows")
    other.extract(range(32))
    with pytest.raises(SnapshotError, match="an engine with index='key', expected 'full' as in this one"):
        other.merge(part)


def test_a_query_that_comes_later_has_it() -> None:
    engine = fc.Engine(query(), index="off")
    engine.add(fc.parse(Q1, SCHEMA, name="other"))
    assert engine.explain().count("no keys but those of contiguity") == 2


