"""All operators: text and builder give the same nodes."""

from __future__ import annotations

import pytest

import fastcep as fc
from fastcep.errors import ValidationError
from fastcep.events import Schema
from fastcep.query import (
    Builder,
    all_of,
    any_of,
    aperiodic,
    ast,
    first,
    group,
    i,
    last,
    one_of,
    parse,
    periodic,
    seq,
    to_text,
    with_attributes,
)
from fastcep.query.ast import (
    Aggregate,
    AnyOf,
    Aperiodic,
    Attribute,
    AttributeList,
    Conjunction,
    Disjunction,
    Group,
    Index,
    Negation,
    Periodic,
    Sequence,
    Variable,
)

A, B, C = Variable(("A",), "a"), Variable(("B",), "b"), Variable(("C",), "c")
PAIR = Sequence((A, B))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AND(A a, B b)", Conjunction((A, B))),
        ("and(A a)", Conjunction((A,))),
        ("OR(A a, SEQ(B b, C c))", Disjunction((A, Sequence((B, C))))),
        ("SEQ(SEQ(A a, B b), C c)", Sequence((PAIR, C))),
        ("ANY(2, A a, B b, C c)", AnyOf(2, (A, B, C))),
        ("ANY(3, A a[])", AnyOf(3, (Variable(("A",), "a", 3, 3, True),))),
        ("ANY(2, (A|B) a[] DISTINCT ID)", AnyOf(2, (Variable(("A", "B"), "a", 2, 2, True),), "ID")),
        ("SEQ(A a, NEG B b, C c)", Sequence((A, Negation(("B",), "b"), C))),
        ("SEQ(NEG (B|C) b, A a)", Sequence((Negation(("B", "C"), "b"), A))),
        ("SEQ((SEQ(A a, B b))+ g[])", Sequence((Group(PAIR, "g"),))),
        ("SEQ((SEQ(A a, B b))* g[])", Sequence((Group(PAIR, "g", 0),))),
        ("SEQ((SEQ(A a, B b)){2,5} g[])", Sequence((Group(PAIR, "g", 2, 5),))),
        ("SEQ((SEQ(A a, B b)){2,} g[])", Sequence((Group(PAIR, "g", 2),))),
        ("SEQ((SEQ(A a, B b)){2} g[])", Sequence((Group(PAIR, "g", 2, 2),))),
        ("SEQ((SEQ(A a, B b)){,2} g[])", Sequence((Group(PAIR, "g", 0, 2),))),
        ("SEQ((OR(A a, B b))? g, C c)", Sequence((Group(Disjunction((A, B)), "g", 0, 1, False), C))),
        ("APERIODIC(A a, B b, C c)", Aperiodic(A, B, C)),
        ("PERIODIC(SEQ(A a, B b), 5min, C c)", Periodic(PAIR, 300 * 10**9, C)),
    ],
)
def test_patterns(text: str, expected: ast.Pattern, schema: Schema) -> None:
    assert parse(f"PATTERN {text} WITHIN 1h", schema).pattern == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("g[first].a.V", Attribute("g", "V", Index("first"), "a")),
        ("g[2].b.end", Attribute("g", "end", Index("position", 2), "b")),
        ("g[].a.V", AttributeList("g", "V", "a")),
        ("COUNT(g[])", Aggregate("COUNT", "g")),
        ("count(g[].a.V)", Aggregate("COUNT", "g", "V", "a")),
        ("SUM(g[].b.end)", Aggregate("SUM", "g", "end", "b")),
        ("o.c.V", Attribute("o", "V", None, "c")),
        ("o . c . time", Attribute("o", "time", None, "c")),
    ],
)
def test_elements_of_groups(text: str, expected: ast.Expr, schema: Schema) -> None:
    pattern = "PATTERN SEQ((SEQ(A a, C b))+ g[], (SEQ(C c))? o) WITHIN 1h"
    assert parse(f"{pattern} RETURN {text} AS out", schema).returns[0].expression == expected


def test_a_name_behind_a_dot_may_be_a_keyword(schema: Schema) -> None:
    query = parse('PATTERN SEQ((SEQ(C "and"))? o, (SEQ(C "in"))+ g[]) WHERE o.and.end = g[i].in.end WITHIN 1h', schema)
    assert to_text(query).splitlines()[2] == "WHERE o.and.end = g[i].in.end"
    assert parse(to_text(query), schema) == query


def test_columns_of_attributes(schema: Schema) -> None:
    query = parse("PATTERN SEQ(A a, NEG A n, (SEQ(C c, NEG A m, C d))+ g[], (SEQ(C e))? o) WITHIN 1h", schema)
    names = [(item.name, type(item.expression)) for item in with_attributes(query).returns]
    assert names == [
        *((f"a.{name}", Attribute) for name in ("time", "ID", "V", "x", "name", "flag")),
        *((f"g.{inner}.{name}", AttributeList) for inner in "cd" for name in ("time", "ID", "V", "end")),
        *((f"o.e.{name}", Attribute) for name in ("time", "ID", "V", "end")),
    ]


# ------------------------------------------------------------------------------- builder


def built(schema: Schema) -> list[tuple[Builder, str]]:
    a, b, c, n = schema.A("a"), schema.B("b"), schema.C("c"), schema.B("n").negated()
    x = schema.A("x").several()
    g, o = group("g", seq(a, n, b)).plus(), group("o", all_of(a, b)).optional()
    return [
        (all_of(a, seq(b, c)).where(a.V == b.V), "AND(A a, SEQ(B b, C c)) WHERE a.V = b.V"),
        (seq(a, one_of(b, c)), "SEQ(A a, OR(B b, C c))"),
        (one_of(a, any_of(1, b, c)), "OR(A a, ANY(1, B b, C c))"),
        (
            any_of(3, x, distinct="V").where(x[i].V > 1, x.sum("V") > 3, x.first.V < x.last.V),
            "ANY(3, A x[] DISTINCT V) WHERE x[i].V > 1 AND SUM(x[].V) > 3 AND x[first].V < x[last].V",
        ),
        (seq(a, n, c).where(n.V > a.V), "SEQ(A a, NEG B n, C c) WHERE n.V > a.V"),
        (aperiodic(a, b.plus(), c).where(c.V > a.V), "APERIODIC(A a, B+ b[], C c) WHERE c.V > a.V"),
        (seq(a, aperiodic(b, schema.A("d"), c)), "SEQ(A a, APERIODIC(B b, A d, C c))"),
        (periodic(seq(a, b), "5min", c), "PERIODIC(SEQ(A a, B b), 5min, C c)"),
        (
            seq(c, g).where(
                g[i].a.V < g[i + 1].b.V,
                g[i].n["V"] == c.V,
                g.first.a.V < g[last].a.V,
                g[0].a.V < g[first].b.V,
                g.count() > 2,
                g.a.count("V") > 1,
                g.a.sum("V") + g.inner("b").avg("x") > g.b.min("V") + g.b.max("V") + g.b.stddev("V"),
            ),
            "SEQ(C c, (SEQ(A a, NEG B n, B b))+ g[]) WHERE g[i].a.V < g[i+1].b.V AND g[i].n.V = c.V "
            "AND g[first].a.V < g[last].a.V AND g[0].a.V < g[first].b.V AND COUNT(g[]) > 2 AND COUNT(g[].a.V) > 1 "
            "AND SUM(g[].a.V) + AVG(g[].b.x) > MIN(g[].b.V) + MAX(g[].b.V) + STDDEV(g[].b.V)",
        ),
        (seq(o, c).where(o.a.V == c.V, o["b"].V > 1), "SEQ((AND(A a, B b))? o, C c) WHERE o.a.V = c.V AND o.b.V > 1"),
        (seq(group("h", seq(a)).times(2, 3), group("k", one_of(b)).star()), "SEQ((SEQ(A a)){2,3} h[], (OR(B b))* k[])"),
    ]


@pytest.mark.parametrize("number", range(11))
def test_built_queries(number: int, schema: Schema) -> None:
    query, text = built(schema)[number]
    assert query.within("1h").build() == parse(f"PATTERN {text} WITHIN 1h", schema)
    assert len(built(schema)) == 11


def test_lists_of_groups_in_return(schema: Schema) -> None:
    g = group("g", seq(schema.A("a"))).plus()
    query = seq(g).within("1h").returns(g.a.values("V"), n=g.count()).build()
    assert query == parse("PATTERN SEQ((SEQ(A a))+ g[]) WITHIN 1h RETURN g[].a.V, COUNT(g[]) AS n", schema)


def test_the_package_exports_them() -> None:
    assert (fc.all_of, fc.one_of, fc.any_of, fc.aperiodic, fc.periodic, fc.group) == (
        all_of, one_of, any_of, aperiodic, periodic, group,
    )  # fmt: skip


def test_mistakes_of_the_builder(schema: Schema) -> None:
    a, b, c = schema.A("a"), schema.B("b"), schema.C("c")
    g = group("g", seq(a, b)).plus()
    with pytest.raises(ValidationError, match=r"has its own where\(\), within\(\) or other clause"):
        seq(c, all_of(a, b).within("1h"))
    with pytest.raises(ValidationError, match=r"group g needs a quantifier: \.plus\(\)"):
        seq(group("g", seq(a, b)))  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"group\(\) takes a pattern such as seq\(a, b\), not A a; write seq"):
        group("g", a)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"a\.several\(\) is allowed only in any_of\(\); write a\.plus\(\)"):
        seq(a.several())
    with pytest.raises(ValidationError, match=r"not A\+ a\[\]; use \.several\(\), because any_of sets the number"):
        any_of(3, a.plus())
    with pytest.raises(ValidationError, match=r"any_of\(\) takes variables such as"):
        any_of(3, seq(a))  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"any_of\(\) needs at least one variable"):
        any_of(3)
    with pytest.raises(ValidationError, match=r"found 'a' in any_of\(\), expected a whole number"):
        any_of("a", a)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"ANY takes variables without \?"):
        any_of(1, a.optional(), b).within("1h").build()
    with pytest.raises(ValidationError, match=r"all_of\(\) needs at least one variable"):
        all_of()
    with pytest.raises(ValidationError, match=r"aperiodic\(\) ends with a single variable .* not C\+ c\[\]"):
        aperiodic(a, b, c.plus())  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="NEG is allowed only in a SEQ, not as a part of AND"):
        all_of(a, b.negated()).within("1h").build()
    with pytest.raises(ValidationError, match="one schema"):
        periodic(a, "5s", Schema({"Z": {}}).Z("z"))
    with pytest.raises(AttributeError, match="unknown variable 'c' of group g; it has a, b"):
        _ = g.c
    with pytest.raises(AttributeError, match=r"g holds several rounds; write g\[i\]\.a\.V, g\.first\.a\.V"):
        _ = g.a.V
    with pytest.raises(AttributeError, match="unknown attribute 'W' of A"):
        _ = g[i].a.W
    with pytest.raises(TypeError, match="number from 0"):
        g[-1]
    with pytest.raises(TypeError, match="holds one round and has no index"):
        group("g", seq(a)).optional()[i]  # type: ignore[index]
    with pytest.raises(ValidationError, match=r"found \['V'\] as distinct in any_of\(\), expected the name of one"):
        any_of(2, a.several(), distinct=["V"])  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="found <A a> in any_of"):
        any_of(a, b)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r'not the type A alone; give it a variable, as in schema\.A\("x"\)'):
        seq(schema.A, b)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"NEG takes one event, not B\? b; write b\.negated\(\) without"):
        b.optional().negated()
    with pytest.raises(AttributeError, match=r"NEG takes one event, not B\+ b\[\]"):
        b.plus().negated()


def test_events_are_not_compared(schema: Schema) -> None:
    """``a == b`` would otherwise be False, and the query would never match."""
    a, b, n = schema.A("a"), schema.B("b"), schema.B("n").negated()
    g, o = group("g", seq(a, b)).plus(), group("o", seq(a, b)).optional()
    for variable in (a, a.plus(), a.several(), n, g, g[i], g[i].a, g.a, o, o.a):
        for other in (b, 1, None):
            with pytest.raises(TypeError, match=r"is a variable, not a value; compare its attributes, as in"):
                _ = variable == other
            with pytest.raises(TypeError, match=r"is a variable, not a value"):
                _ = variable != other
