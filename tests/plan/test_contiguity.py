"""Contiguity as keys of edges: the edges, the variables, and the partitions that define the previous event."""

from __future__ import annotations

import pytest

import fastcep as fc
from fastcep.plan import Plan, make_plan
from fastcep.plan.plan import PartitionPlan
from fastcep.query.patterns import pattern_variables

SCHEMA = fc.Schema(
    {name: {"k": "int64", "f": "float64"} for name in "ABC"} | {"X": {"f": "float64"}, "Y": {"k": "float64"}},
    time="t",
    type="type",
    sources={"Y": {"k": "real"}},
)
STRICT = "STRATEGY strict_contiguity"


def plan_of(text: str) -> Plan:
    return make_plan(fc.parse(f"PATTERN {text}", SCHEMA))


def contiguity_keys(text: str) -> list[str]:
    """Return edges as ``source-variable: keys``; edges from the start have no keys."""
    plan = plan_of(text)
    names = [variable.name for variable in pattern_variables(plan.query.pattern)]
    assert not any(edge.key_texts for edge in plan.edges if edge.source < 0)
    return [
        f"{edge.source}-{names[edge.variable]}: {', '.join(f'{row}={event}' for row, event in edge.key_texts)}"
        for edge in plan.edges
        if edge.source >= 0
    ]


def test_a_strategy_asks_on_every_edge_for_the_last_event() -> None:
    assert contiguity_keys(f"SEQ(A a, B+ b[], C? c, A d) WITHIN 1h {STRICT}") == [
        "0-b: latest(a)=previous(b)",
        "1-b: latest(a, b)=previous(b)",
        "1-c: latest(a, b)=previous(c)",
        "1-d: latest(a, b)=previous(d)",
        "2-d: latest(a, b, c)=previous(d)",
    ]


def test_next_asks_where_its_part_begins() -> None:
    assert contiguity_keys("SEQ(A a, B? b, NEXT C+ c[]) WITHIN 1h") == [
        "0-b: ",
        "0-c: latest(a)=previous(c)",
        "1-c: latest(a, b)=previous(c)",
        "2-c: ",
    ]
    assert contiguity_keys("SEQ(A? a, NEXT B b) WITHIN 1h") == ["0-b: latest(a)=previous(b)"]


def test_next_and_consecutive_of_a_group() -> None:
    assert contiguity_keys("SEQ(A a, NEXT (SEQ(B b, NEXT C c))+ g[] CONSECUTIVE) WITHIN 1h") == [
        "0-g.b: latest(a)=previous(g.b)",
        "2-g.b: latest(g.b, g.c)=previous(g.b)",
        "1-g.c: latest(g.b)=previous(g.c)",
    ]


def test_what_is_asked_twice_is_one_key() -> None:
    assert contiguity_keys(f"SEQ(A a, NEXT B+ b[] CONSECUTIVE) WITHIN 1h {STRICT}") == [
        "0-b: latest(a)=previous(b)",
        "1-b: latest(a, b)=previous(b), latest(b)=previous(b)",
    ]


@pytest.mark.parametrize(
    ("text", "partition"),
    [
        ("SEQ(A a, B b) WITHIN 1h PARTITION BY k", None),
        ("SEQ(A a, NEXT B b) WITHIN 1h", None),
        (f"SEQ(A a, NEXT B b) WITHIN 1h PARTITION BY k {STRICT}", None),
        ("SEQ(A a, NEXT B b) WITHIN 1h PARTITION BY k", PartitionPlan((False,), ((0,), (0,), (0,), (), ()))),
        (
            "SEQ(A a, B b) WITHIN 1h PARTITION BY k, f STRATEGY partition_contiguity",
            PartitionPlan((False, True), ((0, 1), (0, 1), (0, 1), (), ())),
        ),
    ],
)
def test_partitions_of_the_previous_event(text: str, partition: PartitionPlan | None) -> None:
    """Events whose attribute has another dtype are in no partition."""
    assert plan_of(text).partition == partition


def test_which_rows_can_be_seen_to_be_cut_off() -> None:
    def cut(text: str) -> list[tuple[int, tuple[int, ...]]]:
        return [(index.latest, index.partition) for index in plan_of(text).indexes]

    assert cut("SEQ(A a, B b) WITHIN 1h") == [(-1, ())]
    assert cut("SEQ(A a, NEXT B b) WITHIN 1h") == [(0, ())]
    assert cut("SEQ(A a, NEXT B b) WHERE a.f = b.f WITHIN 1h PARTITION BY k") == [(1, (2,))]
    assert cut("SEQ(A a, NEXT B? b, C c) WITHIN 1h") == [(-1, ()), (-1, ()), (-1, ())], "it may go on with c"
