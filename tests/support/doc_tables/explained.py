"""Queries whose explanations are stored in tests/plan/golden: plain sequences, and every operator."""

from __future__ import annotations

import fastcep as fc

ENDINGS = {"text": "txt", "json": "json", "mermaid": "mmd", "dot": "dot", "svg": "svg"}
NS = "{http://www.w3.org/2000/svg}"
V = {"ID": "int64", "V": "int64"}
SCHEMA = fc.Schema(dict.fromkeys("ABC", V), time="ts", type="type", time_unit="us")
WIDER = fc.Schema(dict.fromkeys("ABCDN", V), time="ts", type="type", time_unit="us")
KEYLESS = fc.Schema({**dict.fromkeys("ABC", V), "no key": {"V": "int64"}}, time="ts", type="type")
UNION = fc.Schema(
    {"Buy": {"item": "string", "n": "int64"}, "Sell": {"item": "string", "n": "int64", "fee": "float64"}},
    time="ts",
    type="kind",
    sequence="number",
    sources={"Sell": {"n": "sold"}},
)


def query(text: str, schema: fc.Schema = SCHEMA, name: str = "q1") -> fc.Query:
    return fc.parse(text, schema, name=name)


CASES: dict[str, list[fc.Query]] = {
    "keys": [query("PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 8ms")],
    "kleene": [
        query(
            "PATTERN SEQ(A a, B{2,4} b[], C* c[], (A|B) d) WHERE a.V > 3 AND b[i].V < d.V AND b[i+1].V > b[i].V AND "
            "a.V * 2 < d.V AND SUM(b[].V) < 9 AND [ID] WITHIN 7 EVENTS RETURN a.ID, SUM(b[].V) AS total",
            name="climb",
        )
    ],
    "optional": [
        query(
            "PATTERN SEQ(A a, B? b, C? c, A+ d[]) WHERE a.ID = d[last].ID AND b.V < c.V AND COUNT(d[]) < 3 "
            "AND c.V + d[first].V > 7 WITHIN 1h"
        )
    ],
    "union": [
        query(
            "PATTERN SEQ((Buy|Sell) x, Buy y) WHERE x.item = y.item AND x.n > y.n WITHIN UNBOUNDED RETURN x.n",
            UNION,
            "both ways",
        )
    ],
    "several": [
        query("PATTERN SEQ(A a, B b) WITHIN 1s", name="one"),
        query("PATTERN SEQ(A+ a[]) WHERE a[i+1].V > a[i].V WITHIN 2s", name="two"),
    ],
    "contiguous": [
        query("PATTERN SEQ(A a, B+ b[], C? c, A d) WHERE a.V < d.V WITHIN 8ms STRATEGY strict_contiguity"),
        query(
            "PATTERN SEQ(A a, (A|B) b) WHERE a.V < b.V WITHIN 8ms PARTITION BY ID STRATEGY partition_contiguity",
            KEYLESS,
            name="parts",
        ),
    ],
    "windows": [
        query(
            "PATTERN SEQ(A x, B y) WHERE x.ID = y.ID WINDOW OPEN ON A o WHERE o.V > 3 "
            "CLOSE ON (B|C) c WHERE c.ID = o.ID AND c.V > o.V AND c.V < 9 AND o.V < 7 STRATEGY skip_till_next",
            name="pairs",
        ),
        query("PATTERN SEQ(A x, B y) WINDOW EVERY 5 EVENTS CLOSE ON C c WHERE c.V < 9 SELECT first", name="all"),
        query("PATTERN SEQ(A x, B y) WINDOW EVERY 1s CLOSE AFTER 8 EVENTS LIMIT 2 PER WINDOW", name="slide"),
    ],
    "policies": [
        query(
            "PATTERN SEQ(A a, B+ b[]) WITHIN 8ms SELECT last CONSUME consumed AFTER MATCH SKIP PAST LAST",
            name="newest",
        ),
        query("PATTERN SEQ(A a, B b) WITHIN 8ms SELECT cumulative AFTER MATCH SKIP TO NEXT WEIGHT 3", name="sum"),
    ],
}
OPERATORS = {
    "and": (
        "PATTERN AND(A a, B+ b[], C? c) WHERE a.ID = b[i].ID AND b[i+1].V > b[i].V AND a.V < c.V AND SUM(b[].V) > 5 "
        "WITHIN 8ms"
    ),
    "or": (
        "PATTERN SEQ(A a, OR(SEQ(B b, C c), D d), A e) WHERE a.V < c.V AND a.V > d.V AND b.ID = e.ID WITHIN 7 EVENTS"
    ),
    "any": "PATTERN ANY(2, A a, (A|B) b, C c) WHERE a.V < b.V AND [ID] WITHIN 1s",
    "distinct": "PATTERN SEQ(C c, ANY(3, A x[] DISTINCT V)) WHERE c.ID = x[i].ID WITHIN UNBOUNDED",
    "negated": (
        "PATTERN SEQ(NEG N l, A a, NEG (B|N) m, B+ b[], C c, NEG N n) WHERE l.V > 3 AND l.V < a.V AND m.ID = a.ID AND "
        "m.V < b[last].V AND n.V < b[i].V AND n.ID = a.ID WITHIN 1s"
    ),
    "group": (
        "PATTERN SEQ(A a, (SEQ(B b, NEG N n, OR(C c, D d))){2,4} g[], (SEQ(C x, D y))? o) WHERE g[i].b.V < g[i].c.V "
        "AND g[i].n.ID = g[i].b.ID AND g[i].n.V > a.V AND g[i+1].b.V > g[i].b.V AND g[last].c.V > a.V AND g[2].c.V < 7 "
        "AND COUNT(g[]) < 4 AND SUM(g[].b.V) > a.V AND o.x.V = a.V WITHIN 1h"
    ),
    "next": (
        "PATTERN SEQ(A a, NEXT (SEQ(B b, C? c))+ g[] CONSECUTIVE, AND(SEQ(D d, NEXT A e), B+ f[] CONSECUTIVE)) "
        "WHERE a.V < d.V WITHIN 1h PARTITION BY ID"
    ),
    "must": "PATTERN SEQ(A a, (SEQ(B b, C c))? g, D d) WHERE a.V < g.b.V WITHIN 1h STRATEGY skip_till_next",
    "known": (
        "PATTERN SEQ(A a, NEG N n, B b, C{2,4} c[], D d) WHERE n.ID = a.ID AND n.V < c[2].V AND n.V > c[i].V WITHIN 1h "
        "STRATEGY skip_till_next"
    ),
    "edge": "PATTERN SEQ(A x, B y, NEG C z) WINDOW OPEN ON A o CLOSE AFTER 5s WEIGHT 2.5",
    "rounds": "PATTERN AND((AND(A a, B? b))+ g[], C c) WHERE g[i].a.V < g[i].b.V AND [ID] WITHIN 1h",
    "periodic": "PATTERN PERIODIC(SEQ(A a, B b), 5min, N n) WHERE n.ID = a.ID AND a.V < b.V WITHIN 1h",
    "aperiodic": "PATTERN APERIODIC(A a, B+ b[], N n) WHERE n.V > b[i].V AND n.V != a.V AND [ID] WITHIN 1h",
}
CASES |= {name: [query(text, WIDER, name)] for name, text in OPERATORS.items()}
