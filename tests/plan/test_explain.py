"""``explain``: golden texts."""

from __future__ import annotations

import fastcep as fc
from fastcep.plan import explain, make_plan

V = {"ID": "int64", "V": "int64"}
SCHEMA = fc.Schema(dict.fromkeys("ABC", V), time="ts", type="type", time_unit="us")

Q1 = """\
query q1
  QUERY q1
  PATTERN SEQ(A a, B b, C c)
  WHERE a.ID = b.ID
    AND a.ID = c.ID
    AND a.V + b.V = c.V
  WITHIN 8ms
window      WITHIN 8ms, expiry by first event
strategy    skip_till_any, select each, consume zero
store       rows, one contiguous bucket per key
predicates  generated kernels (tier 1); bytecode (tier 0) until they are compiled
state a (A)
  registers a.V
  index 0   hash on (a.ID)
  from start
state b (B)
  index 1   hash on (a.V + b.V, a.ID)
  from a; probe index 0: a.ID = b.ID
state c (C) accepts
  from b; probe index 1: a.V + b.V = c.V, a.ID = c.ID"""


def test_golden() -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 8ms"
    query = fc.parse(text, SCHEMA, name="q1")
    assert explain(make_plan(query)) == Q1
    assert fc.Engine(query).explain() == Q1


def test_everything_is_named() -> None:
    query = fc.parse(
        "PATTERN SEQ(A a, B{2,4} b[], C* c[], (A|B) d) WHERE a.V > 3 AND b[i].V < d.V AND a.V * 2 < d.V "
        "AND SUM(b[].V) < 9 WITHIN 7 EVENTS RETURN a.ID",
        SCHEMA,
        name="all",
    )
    text = explain(make_plan(query))
    for part in (
        "window      WITHIN 7 EVENTS",
        "event ring  ID, V",
        "state b (B {2,4})",
        "state c (C *)",
        "state d (A|B) accepts",
        "  event     3 < a.V",
        "SUM(b[].V)",
        "for all elements",
        "probe index 0, every row",
    ):
        assert part in text, (part, text)


def test_several_queries_are_separated() -> None:
    queries = [fc.parse("PATTERN SEQ(A a, B b) WITHIN 1s", SCHEMA, name=name) for name in ("one", "two")]
    parts = fc.Engine(queries).explain().split("\n\n")
    assert [part.splitlines()[0] for part in parts] == ["query one", "query two"]
