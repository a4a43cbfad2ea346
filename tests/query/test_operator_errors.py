"""Errors on operators: the whole message and the underlined text."""

from __future__ import annotations

import pytest

from fastcep.errors import ParseError
from fastcep.events import Schema
from fastcep.query import parse


def refuse(text: str, schema: Schema) -> tuple[str, str]:
    """Return the message and the underlined text of the error."""
    with pytest.raises(ParseError) as caught:
        parse(text, schema)
    error = caught.value
    assert error.line == 1 and error.column is not None
    at = error.column - 1
    marker = " " * at + "^" * error.length
    assert str(error) == f"query:1:{error.column}: {error.message}\n  {text}\n  {marker}"
    return error.message, text[at : at + error.length]


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("SEQ(AND(NEG A a, B b)) WITHIN 1h",
         "NEG is allowed only in a SEQ, not as a part of AND; write SEQ(P p, NEG A a, Q q) "
         "there", "NEG A a"),
        ("OR(A a, NEG B b) WITHIN 1h",
         "NEG is allowed only in a SEQ, not as a part of OR; write SEQ(P p, NEG B b, Q q) "
         "there", "NEG B b"),
        ("APERIODIC(A a, NEG B b, C c) WITHIN 1h",
         "NEG is allowed only in a SEQ, not as a part of APERIODIC; write SEQ(P p, NEG B b, Q "
         "q) there", "NEG B b"),
        ("PERIODIC(NEG A a, 1s, C c) WITHIN 1h",
         "NEG is allowed only in a SEQ, not as a part of PERIODIC; write SEQ(P p, NEG A a, Q "
         "q) there", "NEG A a"),
        ("SEQ(A a, SEQ(B? b, NEG C c, A d)) WITHIN 1h",
         "all parts before NEG C c may be empty in its SEQ, which is not the whole pattern, so it is undefined "
         "where it begins; add a variable before it that must occur, or move it to the outermost SEQ", "NEG C c"),
        ("SEQ(A a, SEQ(NEG C n, B b)) WITHIN 1h",
         "no event is bound before NEG C n in its SEQ, which is not the whole pattern, so it is undefined where it "
         "begins; add a variable before it that must occur, or move it to the outermost SEQ", "NEG C n"),
        ("OR(A a, SEQ(B b, NEG C n)) WITHIN 1h",
         "no event is bound after NEG C n in its SEQ, which is not the whole pattern, so it is undefined where it "
         "ends; add a variable after it that must occur, or move it to the outermost SEQ", "NEG C n"),
        ("SEQ(A a, (SEQ(A x, NEG B y))+ g[]) WITHIN 1h",
         "no event is bound after NEG B y in its SEQ, which is not the whole pattern, so it is undefined where it "
         "ends; add a variable after it that must occur, or move it to the outermost SEQ", "NEG B y"),
        ("SEQ(A a, NEG B b) WITHIN 5 EVENTS",
         "no event is bound after NEG B b, so it ends with the window, which must be a time or explicit; write WITHIN "
         "5min or WINDOW OPEN … CLOSE …, or add a variable after it that must occur", "NEG B b"),
        ("SEQ(B? a, NEG B b, C c) WITHIN UNBOUNDED",
         "all parts before NEG B b may be empty, so it begins with the window, which must be a time or "
         "explicit; write WITHIN 5min or WINDOW OPEN … CLOSE …, or add a variable before it that must occur",
         "NEG B b"),
        ("SEQ(NEG A a, NEG B b) WITHIN 1h",
         "a SEQ of only NEG matches no event; add a variable that must occur, as in SEQ(A a, …)",
         "SEQ(NEG A a, NEG B b)"),
        ("SEQ((SEQ(A a, (SEQ(A x))+ h[]))+ g[]) WITHIN 1h",
         "group h is inside group g, but groups cannot be nested; write the variables of h in g, or "
         "repeat single variables beside it", "(SEQ(A x))+ h[]"),
        ("SEQ((SEQ(A a, A+ x[]))+ g[]) WITHIN 1h",
         "x holds several events, which is not possible inside the repeating group g; write A x "
         "there", "A+ x[]"),
        ("SEQ((AND(A a, ANY(2, A x[])))? g) WITHIN 1h",
         "ANY of one variable holds several events, which is not possible in group g; list single variables, as in "
         "ANY(2, A a, B b, C c)", "ANY(2, A x[])"),
        ("SEQ((PERIODIC(A a, 5s, C x))+ g[]) WITHIN 1h",
         "PERIODIC reports ticks, not events, so it can only be the whole pattern, not a part of a group; write "
         "PATTERN PERIODIC(…)", "PERIODIC(A a, 5s, C x)"),
        ("SEQ((SEQ(A? a, B? b))+ g[]) WITHIN 1h",
         "a round of group g may be empty, but must bind at least one event; remove ? or * from one of its parts, "
         "or raise its lower bound to 1", "SEQ(A? a, B? b)"),
        ("SEQ((OR(A a, SEQ(B? b)))? g) WITHIN 1h",
         "a round of group g may be empty, but must bind at least one event; remove ? or * from one of its parts, "
         "or raise its lower bound to 1", "OR(A a, SEQ(B? b))"),
        ("SEQ((SEQ(A x))+ g) WITHIN 1h", "g holds several rounds, so it is written g[]", "g"),
        ("SEQ((SEQ(A x))? g[]) WITHIN 1h",
         "g holds at most one round, so it has no []; write g, or )* g[] for several", "g"),
        ("SEQ((SEQ(A x)){0} g[]) WITHIN 1h", "{0} allows no round; the number must be at least 1", "{0}"),
        ("SEQ((SEQ(A x)){,0} g[]) WITHIN 1h", "{,0} allows no round; the upper bound must be at least 1", "{,0}"),
        ("SEQ((SEQ(A x)){} g[]) WITHIN 1h",
         "unexpected '}'; expected ',' or a whole number; a quantifier is {3}, {2,4}, {2,} or {,4}", "}"),
        ("SEQ((SEQ(A x)){3,2} g[]) WITHIN 1h", "{3,2} has its bounds in the wrong order; write {2,3}", "{3,2}"),
        ("SEQ((SEQ(A x)){0,0} g[]) WITHIN 1h", "{0,0} allows no round; the upper bound must be at least 1", "{0,0}"),
        ("SEQ(A a, PERIODIC(B b, 5s, C c)) WITHIN 1h",
         "PERIODIC reports ticks, not events, so it can only be the whole pattern, not a part of SEQ; write "
         "PATTERN PERIODIC(…)", "PERIODIC(B b, 5s, C c)"),
        ("PERIODIC(A a, 0s, C c) WITHIN 1h", "PERIODIC every 0ns has no next tick; expected at least 1ns", "0s"),
        ("PERIODIC(A a, 1us, C c) WITHIN 1h",
         "PERIODIC every 1us ticks 3600000000 times in 1h; at most 1000000 are possible; use a longer period or a "
         "shorter WITHIN", "1us"),
        ("PERIODIC(A a, 1s, C c) WITHIN 5 EVENTS",
         "PERIODIC needs a time window, in which it ticks; write WITHIN 1h", "PERIODIC(A a, 1s, C c)"),
        ("PERIODIC(A? a, 1s, C c) WITHIN 1h",
         "the first part of PERIODIC may be empty, but must bind at least one event; remove ? or * from one of its "
         "parts, or raise its lower bound to 1", "A? a"),
        ("PERIODIC(A a, 1s, C? c) WITHIN 1h",
         "the last part of PERIODIC must be a single event, written T x, not C? c; for several types "
         "write (A|B) x", "C? c"),
        ("PERIODIC(A a, 1s, SEQ(C c)) WITHIN 1h",
         "the last part of PERIODIC must be a single event, written T x, not SEQ(C c); for several "
         "types write (A|B) x", "SEQ(C c)"),
        ("APERIODIC(A? a, B b, C c) WITHIN 1h",
         "the first part of APERIODIC may be empty, but must bind at least one event; remove ? or * from one of its "
         "parts, or raise its lower bound to 1", "A? a"),
        ("APERIODIC(A a, B* b[], C c) WITHIN 1h",
         "the second part of APERIODIC may be empty, but must bind at least one event; remove ? or * from one of "
         "its parts, or raise its lower bound to 1", "B* b[]"),
        ("APERIODIC(A a, B b, C+ c[]) WITHIN 1h",
         "the last part of APERIODIC must be a single event, written T x, not C+ c[]; for several "
         "types write (A|B) x", "C+ c[]"),
        ("APERIODIC(A a, B b, NEG C c) WITHIN 1h",
         "the last part of APERIODIC must be a single event, written T x, not NEG C c; for several "
         "types write (A|B) x", "NEG C c"),
        ("ANY(0, A a) WITHIN 1h", "ANY(0, …) binds no event; write at least 1", "0"),
        ("ANY(3, A a, B b) WITHIN 1h",
         "ANY(3, …) lists 2 variables, so it cannot bind 3; write at most 2, or list more variables", "3"),
        ("ANY(2, A a) WITHIN 1h",
         "ANY(2, …) lists 1 variable, so it cannot bind 2; write at most 1, or list more variables", "2"),
        ("ANY(2, A? a, B b) WITHIN 1h",
         "ANY takes variables without ?, + or other bounds, because its number sets how many; write A a, or ANY(n, A "
         "a[]) for n events of one variable", "?"),
        ("ANY(2, A+ a[] DISTINCT ID) WITHIN 1h",
         "ANY takes variables without ?, + or other bounds, because its number sets how many; write A a, or ANY(n, A "
         "a[]) for n events of one variable", "+"),
        ("ANY(2, A a[], B b) WITHIN 1h",
         "a[] must be the only variable of ANY; write ANY(n, T a[]), or a without []", "A a[]"),
        ("ANY(2, A a, B b DISTINCT ID) WITHIN 1h",
         "DISTINCT needs one variable of several events, as in ANY(3, T x[] DISTINCT a); for single variables write "
         "conditions such as a.v != b.v", "ID"),
        ("ANY(2, A a[] DISTINCT IDD) WITHIN 1h",
         "unknown attribute 'IDD' of A after DISTINCT; did you mean 'ID'?", "IDD"),
        ("ANY(2, (A|C) a[] DISTINCT name) WITHIN 1h",
         "unknown attribute 'name' of A | C after DISTINCT; it has ID, time, seq, type; choose one of them", "name"),
        ("ANY(1, A a DISTINCT ID, B b DISTINCT ID) WITHIN 1h", "DISTINCT is written twice; keep one", "ID"),
        ("SEQ(A a, (SEQ(B b, A a))+ g[]) WITHIN 1h",
         "variable 'a' is used twice in the pattern; give each variable its own name", "a"),
        ("SEQ(A a, (SEQ(A x))+ a[]) WITHIN 1h",
         "variable 'a' is used twice in the pattern; give each variable its own name", "a"),
        ("SEQ(A a, NEG B a, C c) WITHIN 1h",
         "variable 'a' is used twice in the pattern; give each variable its own name", "a"),
        ("SEQ(A a, NEG Bb n, C c) WITHIN 1h",
         "unknown event type 'Bb'; did you mean 'B'? Declared types: A, B, C, BikeTrip", "Bb"),
        ('SEQ(A "g.x", (SEQ(A x))+ g[]) WITHIN 1h',
         "variable 'g.x' has the output name of x in group g; choose another name", '"g.x"'),
        ("SEQ((SEQ(A i))+ g[]) WITHIN 1h",
         "a variable cannot be called 'i', which is the index in x[i]; choose another name", "i"),
        ("SEQ((SEQ(A a))+ i[]) WITHIN 1h",
         "a variable cannot be called 'i', which is the index in x[i]; choose another name", "i"),
        ("SEQ(A a, NEG BikeTrip n, B b) WHERE [ID] WITHIN 1h",
         "[…] needs 'ID' in every type of the pattern, but BikeTrip has no such attribute; it has bike, start, "
         "end; use an attribute of all types, or conditions in WHERE", "[ID]"),
        ("APERIODIC(A a, B b, BikeTrip c) WITHIN 1h PARTITION BY ID",
         "PARTITION BY needs 'ID' in every type of the pattern, but BikeTrip has no such attribute; it has bike, "
         "start, end; use an attribute of all types, or conditions in WHERE", "ID"),
        ('SEQ((SEQ(A a))+ g[]) WITHIN 1h RETURN COUNT(g[]) AS "g.a"',
         "the output column 'g.a' has the name of a variable; choose another with AS", '"g.a"'),
    ],
)  # fmt: skip
def test_patterns(text: str, message: str, marked: str, schema: Schema) -> None:
    assert refuse(f"PATTERN {text}", schema) == (message, marked)


PATTERN = "PATTERN SEQ(A a, NEG B n, (SEQ(A x, NEG C m, B y))+ g[], (SEQ(A u))? o, A+ k[])"


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("x.V = 1", "x is a variable of group g; write g[i].x.V", "x.V"),
        ("x[first].V = 1", "x is a variable of group g; write g[first].x.V", "x[first].V"),
        ("SUM(x[].V) = 1", "x is a variable of group g; write SUM(g[].x.V)", "SUM(x[].V)"),
        ("COUNT(x[]) = 1", "x is a variable of group g; write COUNT(g[].x.time)", "COUNT(x[])"),
        ("u.V = 1", "u is a variable of group o; write o.u.V", "u.V"),
        ("MAX(u[].V) = 1", "u is a variable of group o; write o.u.V", "MAX(u[].V)"),
        ("g.V = 1", "g is a group; name one of its variables (x, m, y), as in g[i].x.V", "g.V"),
        ("g[i].V = 1", "g is a group; name one of its variables (x, m, y), as in g[i].x.V", "g[i].V"),
        ("g[i].x = 1", "g[i].x is an event of the group, not a value; write g[i].x.attribute", "g[i].x"),
        ("g.x.V = 1",
         "g holds several rounds; write g[i].x.V (every one), g[first].x.V, g[last].x.V, g[0].x.V or an aggregate "
         "such as MAX(g[].x.V)", "g.x.V"),
        ("g[].x.V = 1",
         "the list g[].x.V is allowed only in an aggregate such as MAX(g[].x.V), or alone in RETURN", "g[].x.V"),
        ("SUM(g[].x) = 1",
         "g[].x is an event of the group, not a value; write SUM(g[].x.attribute)", "SUM(g[].x)"),
        ("SUM(g[].V) = 1", "g is a group; name one of its variables (x, m, y), as in SUM(g[].x.V)", "SUM(g[].V)"),
        ("COUNT(g[].x) = 1",
         "g[].x is an event of the group, not a value; write COUNT(g[].x.attribute)", "COUNT(g[].x)"),
        ("SUM(g[]) = 1", "SUM needs an attribute; write SUM(g[].attribute)", "g[]"),
        ("g[i].z.V = 1", "unknown variable 'z' of group g; it has x, m, y; choose one of them", "g[i].z.V"),
        ("a.b.V = 1", "a is a variable, not a group, so it has no 'b'; write a.V", "a.b.V"),
        ("k[i].b.V = 1", "k is a variable, not a group, so it has no 'b'; write k[i].V", "k[i].b.V"),
        ("o[i].u.V = 1", "o holds one round and has no index; write o.u.V", "o[i].u.V"),
        ("COUNT(o[]) = 1", "o holds one round, not a list; write a condition without COUNT", "COUNT(o[])"),
        ("SUM(o[].u.V) = 1", "o holds one round, not a list; write o.u.V", "SUM(o[].u.V)"),
        ("o.V = 1", "o is a group; name one of its variables (u), as in o.u.V", "o.V"),
        ("n.V = 1 OR g[i].m.V = 2",
         "n.V and g[i].m.V belong to two negated variables, but a condition can mention only one; write a condition "
         "for each, joined by AND", "g[i].m.V"),
        ("g[first].m.V = 2",
         "g.m is negated, so the index must be [i], which refers to its own round; write g[i].m.V", "g[first].m.V"),
        ("g[i+1].m.V = 2",
         "g.m is negated, so the index must be [i], which refers to its own round; write g[i].m.V", "g[i+1].m.V"),
        ("g.m.V = 1", "g.m is negated in every round of g; write g[i].m.V", "g.m.V"),
        ("n[i].V = 1", "n holds one event and has no index; write n.V", "n[i].V"),
        ("COUNT(n[]) = 1",
         "n is negated, so a match has no events of it to list; compare its attributes in a condition of "
         "WHERE", "COUNT(n[])"),
        ("MAX(g[].m.V) = 1",
         "g.m is negated, so a match has no events of it to list; compare its attributes in a condition of "
         "WHERE", "MAX(g[].m.V)"),
        ("z.V = 1", "unknown variable 'z'; the pattern has a, n, k, g, o; choose one of them", "z.V"),
        ("z.a.V = 1", "unknown variable 'z'; the pattern has a, n, k, g, o; choose one of them", "z.a.V"),
        ("g[i].x.W = 1",
         "unknown attribute 'W' of A; it has ID, V, x, name, flag, time, seq, type; choose one of them", "g[i].x.W"),
        ("SUM(g[].x.name) = 1",
         "SUM needs numbers, but g[].x.name is a string; use a number, or an attribute of type int64 or float64",
         "SUM(g[].x.name)"),
        ("g[-1].x.V = 1",
         "an index counts from 0; write [last] for the last element, [last-1] for the one before", "-1"),
    ],
)  # fmt: skip
def test_conditions(text: str, message: str, marked: str, schema: Schema) -> None:
    assert refuse(f"{PATTERN} WHERE {text} WITHIN 1h", schema) == (message, marked)


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("n.V", "RETURN has no n.V: n is negated, so a match has no event of it; remove it", "n.V"),
        ("g[i].m.V",
         "RETURN has no [i]: write g[].m.V for the list, g[first].m.V, g[last].m.V or g[0].m.V", "g[i].m.V"),
        ("g[i].x.V",
         "RETURN has no [i]: write g[].x.V for the list, g[first].x.V, g[last].x.V or g[0].x.V", "g[i].x.V"),
        ("g[].m.V",
         "g.m is negated, so a match has no events of it to list; compare its attributes in a condition of "
         "WHERE", "g[].m.V"),
        ("MAX(k[].V) + n.V", "RETURN has no n.V: n is negated, so a match has no event of it; remove it", "n.V"),
        ("o[].u.V", "o holds one round, not a list; write o.u.V", "o[].u.V"),
    ],
)  # fmt: skip
def test_returns(text: str, message: str, marked: str, schema: Schema) -> None:
    assert refuse(f"{PATTERN} WITHIN 1h RETURN {text}", schema) == (message, marked)


def test_at_most_64_variables_with_negated_and_inner_ones(schema: Schema) -> None:
    variables = [f"A v{number}" for number in range(62)]
    inside = "(SEQ(A x, NEG B n, A y))+ g[]"
    message, marked = refuse(f"PATTERN SEQ({', '.join(variables)}, {inside}) WITHIN 1h", schema)
    assert message == "the pattern has 65 variables; at most 64 are possible"
    assert marked == "A y"


def test_the_most_ticks(schema: Schema) -> None:
    assert parse("PATTERN PERIODIC(A a, 1us, C c) WITHIN 1s", schema).pattern
    assert refuse("PATTERN PERIODIC(A a, 999ns, C c) WITHIN 1s", schema)[1] == "999ns"


def test_the_most_states(schema: Schema) -> None:
    parts = [f"A v{number}" for number in range(11)]
    assert parse(f"PATTERN AND({', '.join(parts[:10])}) WITHIN 1h", schema).pattern
    pattern = f"AND({', '.join(parts)})"
    message, marked = refuse(f"PATTERN {pattern} WITHIN 1h", schema)
    assert message == (
        "the pattern has 2,047 states, because the parts of AND and ANY can come in every order; "
        "at most 1,024 are possible; use fewer parts, or SEQ where the order is known"
    )
    assert marked == pattern


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("SEQUENCE(A a, B b)", "did you mean SEQ?", "SEQUENCE"),
        ("ALL(A a, B b)", "did you mean AND?", "ALL"),
        ("APERIODC(A a, B b, C c)", "did you mean APERIODIC?", "APERIODC"),
        ("NEG A a", "NEG is a part of SEQ, as in SEQ(A a, NEG N n)", "NEG"),
        ("(SEQ(A a, B b))+ g[]", "a group is a part of a pattern, as in SEQ((SEQ(A a, B b))+ g[])", "("),
        ("SEQ(A a, NOT B n, C c)", "did you mean NEG B n?", "n"),
        ("SEQ(A a, !B n, C c)", "write NEG N n for an event that must not occur", "!"),
        ("SEQ(A a, NEG(B n), C c)", "write NEG N n, or NEG (M|N) n for several types", "n"),
        ("SEQ(A a, NEG (B|C n))", "write NEG N n, or NEG (M|N) n for several types", "n"),
        ("SEQ(A a, NEG SEQ(B n, B m), C c)",
         "NEG takes one event, as in NEG N n; write conditions on n in WHERE, or several NEG in a row", "("),
        ("SEQ(A a, NEG B? n, C c)",
         "NEG takes one event, as in NEG N n; write conditions on n in WHERE, or several NEG in a row", "?"),
        ("SEQ(A a, NEG B, C c)", "NEG needs a type and a variable, as in NEG B n", ","),
        ("SEQ(A a, ALTERNATIVES(B b, C c))", "the operators are SEQ, AND, OR, ANY, NEG, …", "("),
        ("SEQ(A a, EITHER(B b, C c))", "did you mean OR?", "("),
        ("ANY(A a, B b)", "write the number of events, as in ANY(2, A a, B b, C c)", "A"),
        ("ANY(2, A a, SEQ(B b, C c))",
         "ANY lists types and variables, as in ANY(2, A a, B b, C c)", "("),
        ("ANY(2 DISTINCT V, A a[])",
         "write DISTINCT and one attribute after the variable, as in ANY(3, T x[] DISTINCT a)", "DISTINCT"),
        ("ANY(2, A a[] DISTINCT a.V)",
         "write DISTINCT and one attribute after the variable, as in ANY(3, T x[] DISTINCT a)", "."),
        ("APERIODIC(A a, B b)", "it needs three parts, as in APERIODIC(A a, B b, C c)", ")"),
        ("PERIODIC(A a, 5s)", "it needs three parts, as in PERIODIC(A a, 5min, C c)", ")"),
        ("SEQ((A a, B b)+ g[], C c)", "a group is written (SEQ(A a, B b))+ g[]", "a"),
        ("SEQ(SEQ(A a, B b)+ g[], C c)", "a repeating pattern is written (SEQ(A a, B b))+ g[]", "+"),
        ("SEQ((SEQ(A a, B b))+, C c)", "a group needs a name, as in (SEQ(A a, B b))+ g[]", ","),
        ("SEQ((SEQ(A a, B b)) g, C c)", "a group needs a quantifier, as in (SEQ(A a, B b))+ g[]", "g"),
        ("SEQ(A, B)", "a variable needs a type and a name, as in A x", ","),
        ("SEQ(A|B a)", "write several types in parentheses, as in (A|B) x", "|"),
        ("SEQ(A a B b)", "is a comma missing?", "B"),
        ("SEQ(A a; B b)", "parts are separated by ,", ";"),
        ("SEQ(A a -> B b)", "a sequence is written SEQ(A a, B b)", "-"),
        ("SEQ(A a, B b OR C c)", "in a pattern write OR(A a, B b)", "OR"),
        ("SEQ(A a, (SEQ(B b))+ g[] AND C c)", "in a pattern write AND(A a, B b)", "AND"),
        ("SEQ(A a, B b WITHIN 1h", "the bracket of SEQ( is not closed: add ) before WITHIN", "WITHIN"),
        ("SEQ(A a, AND(B b, C c) WHERE a.V = 1 WITHIN 1h",
         "the bracket of SEQ( is not closed: add ) before WHERE", "WHERE"),
        ("SEQ A a", 'write SEQ(…), or as a name, write "SEQ" in double quotes', "A"),
        ("SEQ(A a) WITHIN 5 minutes", "write 5min", "minutes"),
        ("SEQ((SEQ(A a))+ g[]) WHERE SUM(g.a.V) > 1", "write SUM(g[].a.V)", "SUM(g.a.V)"),
        ("SEQ((SEQ(A a))+ g[]) WHERE COUNT(g) > 1", "write COUNT(g[])", "COUNT(g)"),
    ],
)  # fmt: skip
def test_slips(text: str, message: str, marked: str, schema: Schema) -> None:
    """Errors on the syntax of other engines name the correct syntax."""
    window = "" if "WITHIN" in text else " WITHIN 1h"
    actual, underlined = refuse(f"PATTERN {text}{window}", schema)
    assert actual.endswith(f"; {message}"), actual
    assert underlined == marked
