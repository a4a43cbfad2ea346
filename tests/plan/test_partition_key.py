"""Partition keys by which the state of a query can be split, and the reasons why others cannot."""

from __future__ import annotations

import pytest

import fastcep as fc
from fastcep.plan import Plan, make_plan
from fastcep.plan.plan import KeyPlan

NUMBERS = {"ID": "int64", "V": "int64", "F": "float64"}
SCHEMA = fc.Schema(dict.fromkeys("ABCD", NUMBERS), type="type")
TRIPS = fc.Schema({"BikeTrip": {"bike": "int64", "start": "int64", "end": "int64"}})
HOT = (
    "PATTERN SEQ(BikeTrip{3,} a[], BikeTrip b) "
    "WHERE a[i+1].bike = a[i].bike AND a[i+1].start = a[i].end AND a[last].bike = b.bike WITHIN 1h"
)
END = "WITHIN 8ms"
TYPES = {"s": "string", "p": "bool", "x": "float64", "n": "int64"}
TEXTS = fc.Schema(dict.fromkeys("ABC", TYPES), type="type")
NOTHING = "no attribute is equal in all variables, including negated ones"

KEYED = {
    f"PATTERN SEQ(A a) WHERE [ID] {END}": "ID",
    f"PATTERN SEQ(A a, NEG B b, C c) WHERE [ID] {END}": "ID ID ID",
    f"PATTERN SEQ(A a, NEG B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID {END}": "ID ID ID",
    f"PATTERN SEQ(A a, B b, NEG C c) WHERE [ID] {END}": "ID ID ID",
    f"PATTERN SEQ(A a, NEG B b) WHERE a.F = b.F {END}": "F F",
    f"PATTERN PERIODIC(A a, 2ms, C c) WHERE [ID] {END}": "ID ID",
    f"PATTERN APERIODIC(A a, B b, C c) WHERE [ID] {END}": "ID ID ID",
    f"PATTERN SEQ(A a, B? b, C c) WHERE a.ID = b.ID AND a.ID = c.ID {END}": "ID ID ID",
    f"PATTERN AND(A a, B b, C c) WHERE [F] {END}": "F F F",
    f"PATTERN SEQ(A a, OR(B b, C c)) WHERE [ID] {END}": "ID ID ID",
    f"PATTERN SEQ(A a, (SEQ(B b, C c))+ g[]) WHERE [ID] {END}": "ID ID ID",
    f"PATTERN SEQ(A a, B+ b[], C c) WHERE [ID] {END} STRATEGY skip_till_next": "ID ID ID",
    f"PATTERN SEQ(A a, B+ b[], C c) WHERE a.ID = b[i].ID AND a.ID = c.ID {END}": "ID ID ID",
    f"PATTERN SEQ(A+ a[], C c) WHERE a[i+1].ID = a[i].ID AND a[last].ID = c.ID {END}": "ID ID",
    f"PATTERN SEQ(A a, B b) WHERE a.ID = b.V {END}": "ID V",
    f"PATTERN SEQ(A a, B b) WHERE a.ID = b.V AND a.ID = b.ID {END}": "ID ID",
    f"PATTERN SEQ(A a, C c) WHERE [ID] AND a.V = c.ID {END}": "ID ID",
    f"PATTERN SEQ(A a, NEG C c) WHERE [ID] AND a.V = c.ID {END}": "ID ID",
    f"PATTERN SEQ(A a, B b) WHERE [V, ID] {END}": "V V",
    f"PATTERN SEQ(A a, B b) {END} PARTITION BY ID": "ID ID",
    f"PATTERN SEQ(A a, B b) {END} PARTITION BY V, ID": "V V",
    f"PATTERN SEQ(A a, B b) WHERE [ID] {END} CONSUME consumed": "ID ID",
    f"PATTERN SEQ(A a, B b) {END} PARTITION BY ID AFTER MATCH SKIP PAST LAST": "ID ID",
    f"PATTERN SEQ(A a, B b) {END} PARTITION BY V, ID AFTER MATCH SKIP PAST LAST": "V V",
    "PATTERN SEQ(A a, NEG C c) WINDOW OPEN ON C w CLOSE AFTER 9ms PARTITION BY ID LIMIT 2 PER WINDOW": "ID ID",
    "PATTERN SEQ(A a, B b) WHERE [ID] WINDOW OPEN ON C w CLOSE AFTER 9ms": "ID ID",
    f"PATTERN ANY(2, A a, B b, C c) WHERE [ID] {END}": "ID ID ID",
    f"PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V {END}": "ID ID ID",
    f"PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND b.ID = c.ID AND a.V = 10 AND c.V = a.V {END}": "ID ID ID",
    f"PATTERN SEQ(A a, B+ b[], C c) WHERE a.ID = b[i].ID AND a.ID = c.ID AND b[i].V = a.V {END}": "ID ID ID",
}

NOT_KEYED = {
    f"PATTERN SEQ(A a, B b) {END}": NOTHING,
    f"PATTERN SEQ(A a, B b) WHERE a.ID < b.ID {END}": NOTHING,
    f"PATTERN SEQ(A a, B b) WHERE a.ID = b.ID OR a.V = b.V {END}": NOTHING,
    f"PATTERN SEQ(A a, B b) WHERE a.ID + 1 = b.ID {END}": NOTHING,
    f"PATTERN SEQ(A a, OR(B b, C c), D d) WHERE d.ID = c.ID AND a.ID = b.ID AND a.ID = c.V AND a.ID = d.ID {END}":
        "not every step joins by ID",
    f"PATTERN SEQ(A a, NEG B b, C c) WHERE a.ID = c.ID {END}": NOTHING,
    f"PATTERN SEQ(A a, B? b, C c) WHERE a.ID = b.ID AND b.ID = c.ID {END}": NOTHING,
    f"PATTERN SEQ(A a, B+ b[], C c) WHERE a.ID = c.ID AND b[i+1].ID = b[i].ID {END}": NOTHING,
    f"PATTERN SEQ(A+ a[], C c) WHERE a[last].ID = c.ID {END}": NOTHING,
    f"PATTERN SEQ(A+ a[], C c) WHERE a[i].ID = c.ID {END}": "not every step joins by ID",
    f"PATTERN AND(A a, B b, C c) WHERE a.F = b.F AND a.F = c.F {END}": "not every step joins by F",
    f"PATTERN SEQ(A a, A b) WHERE a.ID = b.V {END}": "type A can be bound to two variables with different keys",
    f"PATTERN SEQ(A a, B b) WHERE a.ID = b.F {END}": "ID = F is not of one type",
    f"PATTERN SEQ(A a, B b) WHERE a.time = b.ID {END}": NOTHING,
    f"PATTERN SEQ(A a, B b) WHERE a.type = b.type AND a.seq = b.V {END}": NOTHING,
    f"PATTERN SEQ(A a, B b) WHERE [ID] {END} AFTER MATCH SKIP PAST LAST": "drops the partial matches of all keys",
    "PATTERN SEQ(A a, B b) WHERE [ID] WINDOW OPEN ON C w CLOSE AFTER 3 EVENTS LIMIT 2 PER WINDOW": "LIMIT counts",
}


def plan_of(text: str, schema: fc.Schema = SCHEMA) -> Plan:
    return make_plan(fc.parse(text, schema))


@pytest.mark.parametrize("text", KEYED)
def test_keyed(text: str) -> None:
    key = plan_of(text).key
    assert isinstance(key, KeyPlan), key
    assert " ".join(key.attributes) == KEYED[text]


@pytest.mark.parametrize("text", NOT_KEYED)
def test_not_keyed(text: str) -> None:
    key = plan_of(text).key
    assert isinstance(key, str)
    assert NOT_KEYED[text] in key


def test_trips() -> None:
    assert getattr(plan_of(HOT, TRIPS).key, "attributes", None) == ("bike", "bike")


@pytest.mark.parametrize(("attribute", "dtype"), [("s", "s"), ("x", "f"), ("n", "i"), ("p", "b")])
def test_types_of_keys(attribute: str, dtype: str) -> None:
    key = plan_of(f"PATTERN SEQ(A a, C b) WHERE [{attribute}] WITHIN 8ns", TEXTS).key
    assert isinstance(key, KeyPlan)
    assert (key.dtype, key.columns[0], key.columns[1]) == (dtype, key.columns[2], -1)


def test_word_of_the_key() -> None:
    """In an index with several words, the key is the word that is the key on both sides."""
    plan = plan_of(f"PATTERN SEQ(A a, C c) WHERE [ID] AND a.V = c.ID {END}")
    assert isinstance(plan.key, KeyPlan)
    assert (plan.indexes[0].key_texts, plan.key.indexes) == (("a.V", "partition.ID"), (1,))


def test_every_index_has_the_key() -> None:
    for text in KEYED:
        plan = plan_of(text)
        assert isinstance(plan.key, KeyPlan)
        assert len(plan.key.indexes) == len(plan.indexes)
        assert len(plan.key.negations) == len(plan.negations)
        for index, word in zip(plan.indexes, plan.key.indexes, strict=True):
            assert index.key_texts[word].rpartition(".")[2] in plan.key.attributes
        for state, word in zip(plan.states, plan.key.waiting, strict=True):
            assert (word >= 0) == state.deferred or not plan.negations
