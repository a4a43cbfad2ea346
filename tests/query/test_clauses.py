"""Explicit windows and the clauses from STRATEGY to WEIGHT: text and builder give the same nodes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

import fastcep as fc
from fastcep.errors import ValidationError
from fastcep.events import Schema
from fastcep.query import (
    Builder,
    adjacent,
    after,
    all_of,
    any_of,
    any_type,
    aperiodic,
    ast,
    every,
    functions,
    group,
    on,
    parse,
    parse_document,
    seq,
    to_text,
)
from fastcep.query.ast import Attribute, Binary, Bound, ExplicitWindow, Group, Literal, Negation, Sequence, Variable

A, B, C = Variable(("A",), "a"), Variable(("B",), "b"), Variable(("C",), "c")
SECOND = 10**9


def of(variable: str, name: str = "ID") -> Attribute:
    return Attribute(variable, name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EVERY 500 EVENTS CLOSE AFTER 8000 EVENTS", ExplicitWindow(Bound(events=500), Bound(events=8000))),
        ("OPEN EVERY 5s CLOSE AFTER 1 min",
         ExplicitWindow(Bound(nanoseconds=5 * SECOND), Bound(nanoseconds=60 * SECOND))),
        ("OPEN ON A o CLOSE AFTER 8s",
         ExplicitWindow(Bound(types=("A",), variable="o"), Bound(nanoseconds=8 * SECOND))),
        ("OPEN ON (A|B) o WHERE o.V > 1 AND o.type = 'B' CLOSE AFTER 10 EVENTS",
         ExplicitWindow(
             Bound(types=("A", "B"), variable="o",
                   where=Binary("AND", Binary(">", of("o", "V"), Literal(1)),
                                Binary("=", of("o", "type"), Literal("B")))),
             Bound(events=10))),
        ("OPEN ON A o CLOSE ON B c WHERE c.ID = o.ID",
         ExplicitWindow(Bound(types=("A",), variable="o"),
                        Bound(types=("B",), variable="c", where=Binary("=", of("c"), of("o"))))),
        ("EVERY 5s CLOSE ON B c", ExplicitWindow(Bound(nanoseconds=5 * SECOND), Bound(types=("B",), variable="c"))),
    ],
)  # fmt: skip
def test_windows(text: str, expected: ExplicitWindow, schema: Schema) -> None:
    assert parse(f"PATTERN SEQ(A a) WINDOW {text}", schema).window == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SEQ(A a, NEXT B b, C c)", Sequence((A, B, C), (1,))),
        ("SEQ(A a, NEXT B b, NEXT C c)", Sequence((A, B, C), (1, 2))),
        ("SEQ(A a, NEXT (SEQ(B b))* g[])", Sequence((A, Group(Sequence((B,)), "g", 0)), (1,))),
        ("SEQ(A a, NEXT AND(B b, C c))", Sequence((A, ast.Conjunction((B, C))), (1,))),
        ("SEQ(A a, NEG B n, NEXT C c)", Sequence((A, Negation(("B",), "n"), C), (2,))),
        ("OR(C c, SEQ(A a, NEXT B b))", ast.Disjunction((C, Sequence((A, B), (1,))))),
        ("SEQ(A+ a[] CONSECUTIVE)", Sequence((Variable(("A",), "a", 1, None, True, True),))),
        ("SEQ(B b, NEXT A{2,3} a[] CONSECUTIVE)", Sequence((B, Variable(("A",), "a", 2, 3, True, True)), (1,))),
        ("SEQ((SEQ(A a, NEXT B b))+ g[] CONSECUTIVE)",
         Sequence((Group(Sequence((A, B), (1,)), "g", 1, None, True, True),))),
        ("AND(A* a[] CONSECUTIVE, B b)", ast.Conjunction((Variable(("A",), "a", 0, None, True, True), B))),
    ],
)  # fmt: skip
def test_contiguity_of_variables(text: str, expected: ast.Pattern, schema: Schema) -> None:
    assert parse(f"PATTERN {text} WITHIN 1h", schema).pattern == expected


POLICIES = (
    ("STRATEGY skip_till_next", {"strategy": "skip_till_next"}),
    ("STRATEGY STRICT_CONTIGUITY", {"strategy": "strict_contiguity"}),
    ("SELECT First", {"select": "first"}),
    ("SELECT last", {"select": "last"}),
    ("SELECT cumulative", {"select": "cumulative"}),
    ("CONSUME consumed", {"consume": "consumed"}),
    ("LIMIT 3 PER WINDOW", {"limit": 3}),
    ("AFTER MATCH SKIP TO NEXT", {"after_match": "skip to next"}),
    ("AFTER MATCH SKIP PAST LAST", {"after_match": "skip past last"}),
    ("WEIGHT 2", {"weight": 2.0}),
    ("WEIGHT 0.25", {"weight": 0.25}),
    ("STRATEGY skip_till_any SELECT each CONSUME zero AFTER MATCH NO SKIP WEIGHT 1", {}),
    (
        "STRATEGY skip_till_next SELECT last CONSUME consumed LIMIT 1 PER WINDOW AFTER MATCH SKIP TO NEXT WEIGHT 5",
        {"strategy": "skip_till_next", "select": "last", "consume": "consumed", "limit": 1,
         "after_match": "skip to next", "weight": 5.0},
    ),
)  # fmt: skip


@pytest.mark.parametrize(("text", "fields"), POLICIES)
def test_policies(text: str, fields: dict[str, object], schema: Schema) -> None:
    plain = "PATTERN SEQ(A a, B b) WINDOW EVERY 5s CLOSE AFTER 9s"
    query = parse(f"{plain} {text} RETURN COUNT(b[])" if "b[]" in text else f"{plain} {text}", schema)
    assert query == replace(parse(plain, schema), **fields)  # type: ignore[arg-type]
    assert parse(to_text(query), schema) == query


def test_partition_contiguity(schema: Schema) -> None:
    query = parse("PATTERN SEQ(A a, B b) WITHIN 1h PARTITION BY ID STRATEGY partition_contiguity", schema)
    assert (query.strategy, query.partition) == ("partition_contiguity", ("ID",))


def test_the_words_of_the_clauses_are_still_names(schema: Schema) -> None:
    text = "PATTERN SEQ(A first, C zero) WINDOW OPEN ON A each CLOSE ON B skip WHERE skip.V = each.V SELECT last"
    query = parse(text, schema)
    assert isinstance(query.window, ExplicitWindow)
    assert (query.window.opening.variable, query.window.closing.variable) == ("each", "skip")
    assert parse(to_text(query), schema) == query


def test_a_document_with_all_clauses() -> None:
    document = parse_document(
        "STREAM TYPE 'kind'\n"
        "EVENT Pos1 (vehicle int64)\n"
        "EVENT Pos2 (vehicle int64)\n"
        "QUERY passed\n"
        "PATTERN SEQ(Pos1 a, NEXT Pos1+ b[] CONSECUTIVE, Pos2 z)\n"
        "WHERE b[i].vehicle != a.vehicle\n"
        "WINDOW OPEN ON Pos1 o CLOSE ON Pos2 c WHERE c.vehicle = o.vehicle\n"
        "PARTITION BY vehicle\n"
        "STRATEGY partition_contiguity SELECT first CONSUME consumed\n"
        "LIMIT 2 PER WINDOW\n"
        "AFTER MATCH SKIP PAST LAST\n"
        "WEIGHT 3.5\n"
        "RETURN z.vehicle AS vehicle\n"
        "QUERY plain PATTERN SEQ(Pos1 a) WITHIN 1h\n"
    )
    passed, plain = document.queries
    assert (passed.limit, passed.weight, passed.after_match) == (2, 3.5, "skip past last")
    assert (plain.limit, plain.weight, plain.after_match) == (None, 1.0, "no skip")
    assert parse(to_text(passed), document.schema) == passed


# ------------------------------------------------------------------------------- builder


def built(schema: Schema) -> list[tuple[Builder, str]]:
    a, b, c, o, e = schema.A("a"), schema.B("b"), schema.C("c"), schema.A("o"), schema.C("e")
    several = schema.B("b").plus().consecutive()
    g = group("g", seq(a, adjacent(b))).star().consecutive()
    window = "WINDOW EVERY 5s CLOSE AFTER 9s"
    start = seq(a, b).window(opens=every("5s"), closes=after("9s"))
    either = any_type(schema.A, schema.B)("u")
    return [
        (start, f"SEQ(A a, B b) {window}"),
        (
            seq(a, b).window(opens=every(events=500), closes=after(events=8000)),
            "SEQ(A a, B b) WINDOW EVERY 500 EVENTS CLOSE AFTER 8000 EVENTS",
        ),
        (
            seq(a, b).window(opens=on(o, o.V > 1, o.ID == 2), closes=on(e, e.ID == o.ID, o.x > e.V)),
            "SEQ(A a, B b) WINDOW OPEN ON A o WHERE o.V > 1 AND o.ID = 2 CLOSE ON C e WHERE e.ID = o.ID AND o.x > e.V",
        ),
        (
            seq(a, b).window(opens=on(either, functions.abs(either.V) > 1), closes=after(timedelta(seconds=9))),
            "SEQ(A a, B b) WINDOW OPEN ON (A|B) u WHERE abs(u.V) > 1 CLOSE AFTER 9s",
        ),
        (seq(a, b).window(opens=every("5s"), closes=on(e)), "SEQ(A a, B b) WINDOW EVERY 5s CLOSE ON C e"),
        (seq(a, adjacent(b), c).within("1h"), "SEQ(A a, NEXT B b, C c) WITHIN 1h"),
        (seq(a, adjacent(adjacent(all_of(b, c)))).within("1h"), "SEQ(A a, NEXT AND(B b, C c)) WITHIN 1h"),
        (
            seq(a, adjacent(several), c).where(several.first.V > a.V).within("1h"),
            "SEQ(A a, NEXT B+ b[] CONSECUTIVE, C c) WHERE b[first].V > a.V WITHIN 1h",
        ),
        (
            seq(c, adjacent(g)).where(g.count() < 3, g.a.sum("V") > 1).within("1h"),
            "SEQ(C c, NEXT (SEQ(A a, NEXT B b))* g[] CONSECUTIVE) WHERE COUNT(g[]) < 3 AND SUM(g[].a.V) > 1 WITHIN 1h",
        ),
        (
            start.strategy("skip_till_next").select("first").consume("consumed").limit(3)
            .after_match("SKIP PAST LAST").weight(2),
            f"SEQ(A a, B b) {window} STRATEGY skip_till_next SELECT first CONSUME consumed LIMIT 3 PER WINDOW "
            "AFTER MATCH SKIP PAST LAST WEIGHT 2",
        ),
        (
            start.select("last").select("cumulative").after_match("skip to next"),
            f"SEQ(A a, B b) {window} SELECT cumulative AFTER MATCH SKIP TO NEXT",
        ),
        (
            start.strategy("skip_till_any").select("each").consume("zero").after_match("no skip").weight(1),
            f"SEQ(A a, B b) {window}",
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(12))
def test_built_queries(number: int, schema: Schema) -> None:
    query, text = built(schema)[number]
    assert query.build() == parse(f"PATTERN {text}", schema)
    assert len(built(schema)) == 12


def test_the_package_exports_them() -> None:
    assert (fc.adjacent, fc.every, fc.after, fc.on) == (adjacent, every, after, on)


def test_builders_are_immutable(schema: Schema) -> None:
    start = seq(schema.A("a")).within("1s")
    assert start.select("first") != start
    assert start.build().select == "each"
    assert hash(start.select("first")) == hash(start.select("first"))


def test_mistakes_of_the_builder(schema: Schema) -> None:
    a, b, o, c = schema.A("a"), schema.B("b"), schema.A("o"), schema.C("c")
    query = seq(a, b)
    with pytest.raises(ValidationError, match=r'<EVERY 5s> as closes of window\(\), expected after\("5s"\) or on'):
        query.window(opens=every("5s"), closes=every("5s"))
    with pytest.raises(ValidationError, match=r'found <AFTER 5s> as opens of window\(\), expected every\("5s"\) or on'):
        query.window(opens=after("5s"), closes=after("5s"))
    with pytest.raises(ValidationError, match=r"found '5s' as opens of window"):
        query.window(opens="5s", closes=after("5s"))  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"every\(\) takes a time or events=n"):
        every()
    with pytest.raises(ValidationError, match=r"after\(\) takes a time or events=n"):
        after("5s", events=3)
    with pytest.raises(ValidationError, match=r"found 2\.5 in every\(events=…\), expected a whole number"):
        every(events=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"on\(\) takes a single variable .* not <ON A o>"):
        on(on(o))  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"not the type A alone"):
        on(schema.A)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="on\\(\\) takes a single variable"):
        on(o.plus())  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="on\\(\\) takes a single variable"):
        on(o.optional())
    with pytest.raises(ValidationError, match="one schema"):
        query.window(opens=on(Schema({"Z": {}}).Z("z")), closes=after("5s"))
    with pytest.raises(ValidationError, match=r"adjacent\(\) is allowed only in seq\(\), not in all_of\(\)"):
        all_of(a, adjacent(b))  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"adjacent\(\) is allowed only in seq\(\), not in aperiodic\(\)"):
        aperiodic(a, adjacent(b), c)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"any_of\(\) takes variables"):
        any_of(1, a, adjacent(b))  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"ANY has no CONSECUTIVE; write SEQ\(A\{3\} a\[\] CONSECUTIVE\)"):
        any_of(3, a.several().consecutive()).within("1h").build()
    with pytest.raises(ValidationError, match="NEXT is not allowed before NEG B b"):
        seq(a, adjacent(b.negated()), c).within("1h").build()
    with pytest.raises(ValidationError, match=r"CONSECUTIVE needs several events, but b holds at most one"):
        seq(b.times(0, 1).consecutive()).within("1h").build()
    with pytest.raises(ValidationError, match=r"unknown STRATEGY 'skip_till_nxt'; .* did you mean 'skip_till_next'\?"):
        query.within("1h").strategy("skip_till_nxt").build()
    with pytest.raises(ValidationError, match=r"SELECT '3'; expected each, first, last, cumulative or longest$"):
        query.within("1h").select(3).build()  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"unknown AFTER MATCH 'skip past last row'.* mean 'skip past last'"):
        query.within("1h").after_match("skip past last row").build()
    with pytest.raises(ValidationError, match=r"found '3' in limit\(\), expected a whole number"):
        query.limit("3")  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"found 'much' in weight\(\), expected a number"):
        query.weight("much")  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="WEIGHT nan is invalid"):
        query.within("1h").weight(float("nan")).build()
    with pytest.raises(ValidationError, match="EVERY -3 EVENTS opens no window"):
        query.window(opens=every(events=-3), closes=after("5s")).build()
    with pytest.raises(ValidationError, match=r"o is the event that opens the window, not a variable of the pattern"):
        query.where(o.V > a.V).window(opens=on(o), closes=after("5s")).build()
    with pytest.raises(ValidationError, match=r"has its own where\(\), within\(\) or other clause"):
        seq(c, query.select("first"))
    with pytest.raises(ValidationError, match=r"or \.window\(opens=…, closes=…\)"):
        query.build()
