"""Queries from the builder equal those from text."""

from __future__ import annotations

import re
from datetime import timedelta

import numpy as np
import pytest

from fastcep.errors import ValidationError
from fastcep.events import Schema
from fastcep.query import any_type, first, functions, group, i, last, parse, same, seq, to_text


def test_the_example_of_the_design(schema: Schema) -> None:
    a, b, c = schema.A("a"), schema.B("b"), schema.C("c")
    built = seq(a, b, c).where(a.ID == b.ID, a.ID == c.ID, a.V + b.V == c.V).within("8ms").named("q1").build()
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 8ms"
    assert built == parse(text, schema, name="q1")


def test_repeated_variables(schema: Schema) -> None:
    a = schema.A("a").plus()
    b, c, d = schema.B("b").star(), schema.B("c").times(2, 5), schema.A("d").optional()
    built = (
        seq(a, b, c, d)
        .where(
            a[i + 1].V == a[i].V,
            a[i - 1].V < a.first.V,
            b[first].V == b.last.V,
            b[last].V == b[0].V,
            b[last - 1].V <= b[i - 2].V,
            c.sum("V") + c.count() >= c.count("V") * c.avg("x"),
            c.min("V") <= c.max("V"),
            c.stddev("x") > 0.5,
        )
        .within(events=10)
        .partition_by("ID")
        .returns(c.values("V"), d.V, total=c.sum("V"))
    )
    text = (
        "PATTERN SEQ(A+ a[], B* b[], B{2,5} c[], A? d) WHERE a[i+1].V = a[i].V AND a[i-1].V < a[first].V "
        "AND b[first].V = b[last].V AND b[last].V = b[0].V AND b[last-1].V <= b[i-2].V "
        "AND SUM(c[].V) + COUNT(c[]) >= COUNT(c[].V) * AVG(c[].x) "
        "AND MIN(c[].V) <= MAX(c[].V) AND STDDEV(c[].x) > 0.5 WITHIN 10 EVENTS PARTITION BY ID "
        "RETURN c[].V, d.V, SUM(c[].V) AS total"
    )
    assert built.build() == parse(text, schema)


@pytest.mark.parametrize(
    ("count", "named", "text"),
    [
        ((3,), {}, "{3}"),
        ((1,), {}, "{1}"),
        ((2, 4), {}, "{2,4}"),
        ((0, 4), {}, "{,4}"),
        ((), {"at_least": 3}, "{3,}"),
        ((), {"at_least": 0}, "*"),
        ((), {"at_most": 3}, "{,3}"),
        ((), {"at_least": 2, "at_most": 4}, "{2,4}"),
        ((), {"at_least": 2, "at_most": None}, "{2,}"),
    ],
)
def test_times(count: tuple[int, ...], named: dict[str, int], text: str, schema: Schema) -> None:
    events, rounds = schema.A("a").times(*count, **named), group("g", seq(schema.A("x"))).times(*count, **named)
    assert seq(events, rounds).within("1s").build() == parse(
        f"PATTERN SEQ(A{text} a[], (SEQ(A x)){text} g[]) WITHIN 1s", schema
    )


@pytest.mark.parametrize(
    ("count", "named", "message"),
    [
        ((), {}, "times() does not set the number of events; expected times(3) for exactly three, times(2, 4), "
        "times(at_least=3), "
         "times(at_most=3) or times(at_least=2, at_most=4)"),
        ((1, 2, 3), {}, "times(1, 2, 3) does not set the number of events; expected times(3) for exactly three, "
        "times(2, 4)"),
        ((3,), {"at_least": 2}, "times(3, at_least=2) does not set the number of events"),
        ((3, 2), {}, "times(3, 2) has its bounds in the wrong order; write times(2, 3)"),
        ((), {"at_least": 5, "at_most": 2}, "times(at_least=5, at_most=2) has its bounds in the wrong order"),
        ((0,), {}, "times(0) allows no events; its upper bound must be at least 1"),
        ((), {"at_most": 0}, "times(at_most=0) allows no events"),
        ((-1,), {}, "found -1 in times(-1), expected a number from 0 to 9223372036854775807"),
        ((), {"at_least": -2}, "found -2 in times(at_least=-2), expected a number from 0"),
        ((), {"at_most": 2**63}, "found 9223372036854775808 in times(at_most=9223372036854775808), expected a number"),
        ((3, None), {}, "found None in times(3, None), expected a whole number"),
        ((2.0,), {}, "found 2.0 in times(2.0), expected a whole number"),
        ((), {"at_least": True}, "found True in times(at_least=True), expected a whole number"),
    ],
)  # fmt: skip
def test_times_is_refused(count: tuple[int, ...], named: dict[str, int], message: str, schema: Schema) -> None:
    for repeats in (schema.A("a").times, group("g", seq(schema.A("x"))).times):
        with pytest.raises(ValidationError, match=re.escape(message)):
            repeats(*count, **named)


def test_operators(schema: Schema) -> None:
    a, b = schema.A("a"), schema.A("b")
    built = seq(a, b).within(None).where(
        (a.V == 1) & (b.V != 2) | ~(a.x < 3),
        1 + a.V - 2 * b.V > 7 / a.x,  # noqa: SIM300
        a.V // 2 % 3 <= (2**a.V) ** 2,
        a.V.isin([1, 2]) & a.name.notin(["x"]),
        a.x.between(0, 1.5),
        abs(-a.V) == functions.max(a.V, b.V),
        functions.sqrt(a.x) + functions.floor(b.x) >= functions.avg(a.x, 2),
        b.time - a.time < timedelta(seconds=2),
        a.time > functions.duration("5min"),
        a.name == "it's",
        a.V == np.int64(3),  # noqa: SIM300
        a.x == None,  # noqa: E711
        a.flag == True,  # noqa: E712
        same("ID", "name"),
    )  # fmt: skip
    text = (
        "PATTERN SEQ(A a, A b) WHERE (a.V = 1 AND b.V != 2 OR NOT a.x < 3) AND 1 + a.V - 2 * b.V > 7 / a.x "
        "AND a.V // 2 % 3 <= (2 ^ a.V) ^ 2 AND (a.V IN {1, 2} AND a.name NOT IN {'x'}) AND a.x BETWEEN 0 AND 1.5 "
        "AND abs(-a.V) = max(a.V, b.V) AND sqrt(a.x) + floor(b.x) >= avg(a.x, 2) AND b.time - a.time < 2s "
        "AND a.time > 5min AND a.name = 'it''s' AND a.V = 3 AND a.x = NULL AND a.flag = TRUE AND [ID, name] "
        "WITHIN UNBOUNDED"
    )
    query = built.build()
    assert query == parse(text, schema)
    assert parse(to_text(query), schema) == query


def test_union(schema: Schema) -> None:
    x = any_type(schema.A, schema.B)("x").plus()
    assert seq(x).where(x[i].V > 1).within("1s").build() == parse(
        "PATTERN SEQ((A|B)+ x[]) WHERE x[i].V > 1 WITHIN 1s", schema
    )


def test_names_that_python_or_the_builder_uses() -> None:
    schema = Schema({"A": {"first": "int64", "plus": "int64", "class": "int64", "a b": "int64"}})
    a = schema.A("a")
    k = schema.A("k").plus()
    built = seq(a, k).where(a.first == a["plus"], a["class"] == k[i].first, k[0]["a b"] == k.last.plus).within("1s")
    text = (
        "PATTERN SEQ(A a, A+ k[]) WHERE a.first = a.plus AND a.class = k[i].first "
        'AND k[0]."a b" = k[last].plus WITHIN 1s'
    )
    assert built.build() == parse(text, schema)


def test_builders_are_immutable(schema: Schema) -> None:
    a = schema.A("a")
    start = seq(a).within("1s")
    assert start.where(a.V == 1).build() != start.build()
    assert start.named("q").build().name == "q"
    assert start.build().name == "query"
    assert a.plus() is not a


def test_mistakes(schema: Schema) -> None:
    a, b = schema.A("a"), schema.B("b").plus()
    with pytest.raises(AttributeError, match=r"unknown attribute 'Id' of A; did you mean 'ID'\?"):
        _ = a.Id
    with pytest.raises(AttributeError, match=r"b holds several events; write b\[i\]\.V"):
        _ = b.V
    with pytest.raises(TypeError, match="holds one event and has no index"):
        a[i]  # type: ignore[index]
    with pytest.raises(TypeError, match="number from 0"):
        b[-1]
    with pytest.raises(TypeError, match="takes no offset"):
        b[first + 1]
    with pytest.raises(TypeError, match="no element comes after"):
        b[last + 1]
    with pytest.raises(TypeError, match=r"use & \| ~"):
        bool(a.V == 1)
    with pytest.raises(AttributeError):
        b.sum("W")
    with pytest.raises(ValidationError, match="not a constant"):
        a.V.isin([object()])
    with pytest.raises(ValidationError, match="NaN equals nothing"):
        _ = a.x == float("nan")
    with pytest.raises(ValidationError, match="at least one value"):
        a.V.isin([])
    with pytest.raises(ValidationError, match="takes variables"):
        seq(schema.A)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="at least one variable"):
        seq()
    with pytest.raises(ValidationError, match="one schema"):
        seq(a, Schema({"Z": {}}).Z("z"))
    with pytest.raises(ValidationError, match=r"add \.within"):
        seq(a).build()
    with pytest.raises(ValidationError, match="not both"):
        seq(a).within("1s", events=3)
    with pytest.raises(ValidationError, match=r"a\.V has the type int64"):
        seq(a).where(a.V).within("1s").build()
    with pytest.raises(ValidationError, match="is used twice"):
        seq(a, a).within("1s").build()
    with pytest.raises(ValidationError, match="unknown variable 'b'"):
        seq(a).where(b[0].V == 1).within("1s").build()
    with pytest.raises(ValidationError, match="does not fit int64"):
        seq(a).where(a.V == 2**63).within("1s").build()
