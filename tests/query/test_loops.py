"""UNTIL, SELECT longest, SKIP TO FIRST and SKIP TO LAST: text, builder and errors."""

from __future__ import annotations

import pytest

from fastcep.errors import ParseError, ValidationError
from fastcep.events import Schema
from fastcep.query import Query, first, group, parse, seq, to_text

SCHEMA = Schema({name: {"v": "int64"} for name in "ABCU"}, time="t", type="kind")
A, B, C, U = (getattr(SCHEMA, name)(name.lower()) for name in "ABCU")
LONGEST = "STRATEGY strict_contiguity SELECT longest"


def message(text: str) -> tuple[str, str]:
    """Return the error of a query, and the text under its caret."""
    with pytest.raises(ParseError) as caught:
        parse(text, SCHEMA)
    _, source, marks = str(caught.value).split("\n")
    return caught.value.message, source[marks.index("^") :][: marks.count("^")]


@pytest.mark.parametrize(
    ("text", "built"),
    [
        ("SEQ(A a, B+ b[] UNTIL U u, C c) WITHIN 1h", seq(A, B.plus().until(U), C).within("1h")),
        ("SEQ(A a, B{2,} b[] CONSECUTIVE UNTIL U u) WITHIN 1h",
         seq(A, B.times(at_least=2).consecutive().until(U)).within("1h")),
        ("SEQ((SEQ(A a, B b))+ g[] UNTIL (U) u) WITHIN 1h", seq(group("g", seq(A, B)).plus().until(U)).within("1h")),
        ("SEQ(A a, B+ b[] UNTIL U u) WHERE u.v = a.v AND u.v > b[first].v WITHIN 1h",
         seq(A, B.plus().until(U)).where(U.v == A.v, U.v > B.plus()[first].v).within("1h")),
        (f"SEQ(A a, B+ b[]) WITHIN 1h {LONGEST}",
         seq(A, B.plus()).within("1h").strategy("strict_contiguity").select("longest")),
        ("SEQ(A a, B+ b[]) WITHIN 1h AFTER MATCH SKIP TO FIRST b",
         seq(A, B.plus()).within("1h").after_match("skip to first", "b")),
        ("SEQ(A a, (SEQ(B b, C c))+ g[]) WITHIN 1h AFTER MATCH SKIP TO LAST g",
         seq(A, group("g", seq(B, C)).plus()).within("1h").after_match("SKIP TO LAST", "g")),
    ],
)  # fmt: skip
def test_text_and_builder(text: str, built: object) -> None:
    """The builder makes what the parser reads, and the printed text means the same."""
    query = parse(f"PATTERN {text}", SCHEMA)
    assert query == built.build()  # type: ignore[attr-defined]
    assert parse(to_text(query), SCHEMA) == query


def test_a_name_that_is_a_keyword_is_printed_in_quotes() -> None:
    query = parse('PATTERN SEQ(A a, B "first", C "until") WITHIN 1h AFTER MATCH SKIP TO LAST "first"', SCHEMA)
    assert 'AFTER MATCH SKIP TO LAST "first"' in to_text(query)
    assert parse(to_text(query), SCHEMA) == query


@pytest.mark.parametrize(
    ("text", "fault", "marked"),
    [
        ("SEQ(A a, B b UNTIL U u) WITHIN 1h", "UNTIL ends a loop, but b holds at most one event; write B+ b[], "
         "or NEG U u "
         "before it in a SEQ", "U u"),
        ("SEQ(A a, B? b UNTIL U u) WITHIN 1h", "UNTIL ends a loop, but b holds at most one event", "U u"),
        ("SEQ(A a, B+ b[] UNTIL U u) WHERE u.v = b[last].v WITHIN 1h", "a condition on u, which ends the loop "
         "b, mentions "
         "b[last].v; it may mention only a, b[first], which are known before the second element of b", "b[last].v"),
        ("SEQ(A a, B+ b[] UNTIL U u, C c) WHERE u.v = c.v WITHIN 1h", "a condition on u, which ends the loop b, "
         "mentions c.v",
         "c.v"),
        ("SEQ((SEQ(A a))+ g[] UNTIL U u) WHERE u.v = g[first].a.v WITHIN 1h",
         "a condition on u, which ends the loop g, mentions g[first].a.v; it may mention no other "
         "variable", "g[first].a.v"),
        ("SEQ(A a, B+ b[] UNTIL A a) WITHIN 1h", "variable 'a' is used twice", "a"),
        ("SEQ(A a, B+ b[]) WITHIN 1h SELECT longest", "SELECT longest needs STRATEGY skip_till_next, "
         "partition_contiguity or "
         "strict_contiguity", "longest"),
        (f"SEQ(A a, B+ b[]) WITHIN 1h {LONGEST} CONSUME consumed", "CONSUME consumed consumes the events of a "
         "match when it "
         "ends, but SELECT longest reports a match later", "consumed"),
        (f"SEQ(A a, B+ b[], NEG C c) WITHIN 1h {LONGEST}", "SELECT longest chooses among", "longest"),
        ("SEQ(A a, B b) WITHIN 1h AFTER MATCH SKIP TO FIRST a",
         "AFTER MATCH SKIP TO FIRST a: every match begins with a, so it would skip nothing; write AFTER MATCH "
         "SKIP TO NEXT",
         "a"),
        ("SEQ(A+ a[], B b) WITHIN 1h AFTER MATCH SKIP TO FIRST a", "every match begins with the first event of "
         "a, so it would "
         "skip nothing; write AFTER MATCH SKIP TO NEXT, or AFTER MATCH SKIP TO LAST a", "a"),
        ("SEQ(A a, B b) WITHIN 1h AFTER MATCH SKIP TO LAST x", "unknown variable 'x' in AFTER MATCH SKIP TO "
         "LAST; the pattern "
         "has a, b", "x"),
        ("SEQ(A a, NEG C c, B b) WITHIN 1h AFTER MATCH SKIP TO LAST c", "c is negated, so a match has no event "
         "of it", "c"),
        ("SEQ(A a, (SEQ(B b))+ g[]) WITHIN 1h AFTER MATCH SKIP TO LAST b", "b is in the group g; write AFTER "
         "MATCH SKIP TO "
         "LAST g", "b"),
    ],
)  # fmt: skip
def test_errors(text: str, fault: str, marked: str) -> None:
    found, underlined = message(f"PATTERN {text}")
    assert fault in found
    assert underlined == marked


def test_errors_of_the_builder() -> None:
    for ending in (B.plus(), U.optional(), 1):
        with pytest.raises(ValidationError, match=r"until\(\) takes the event that ends the loop, such as schema.U"):
            B.plus().until(ending)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="one schema"):
        B.plus().until(Schema({"U": {}}, type="kind").U("u"))
    two = seq(A, B).within("1h")
    with pytest.raises(ValidationError, match="SKIP TO LAST needs the name of a variable"):
        two.after_match("skip to last").build()
    with pytest.raises(ValidationError, match="SKIP TO NEXT names no variable, but 'b' is given"):
        two.after_match("skip to next", "b").build()
    assert isinstance(two.after_match("no skip").build(), Query)
