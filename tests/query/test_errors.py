"""Parser errors: the message and the underlined text."""

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
    assert error.line is not None and error.column is not None
    line = (text.splitlines() or [""])[error.line - 1]
    assert str(error).splitlines()[1] == f"  {line}"
    return error.message, line[error.column - 1 : error.column - 1 + error.length]


W = " WITHIN 1ms"


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        # names
        ("SEQ(Aa a)" + W, "unknown event type 'Aa'; did you mean 'A'?", "Aa"),
        ("SEQ(Biketrip a)" + W, "did you mean 'BikeTrip'?", "Biketrip"),
        ("SEQ(BikeTrip a) WHERE a.bikeid = 1" + W, "'bikeid' of BikeTrip; did you mean 'bike'?", "a.bikeid"),
        ("SEQ(A a, B bee) WHERE a.V = be.V" + W, "unknown variable 'be'; did you mean 'bee'?", "be.V"),
        ("SEQ(A a) WHERE z.V = 1" + W, "unknown variable 'z'; the pattern has a", "z.V"),
        ("SEQ(A a, B a)" + W, "variable 'a' is used twice", "a"),
        ("SEQ(A i)" + W, "a variable cannot be called 'i'", "i"),
        ('SEQ(A "")' + W, "cannot be empty", '""'),
        ("SEQ(A query)" + W, "output column", "query"),
        ("SEQ((A|C) u) WHERE u.V = 1" + W, "not an attribute that all of A | C share", "u.V"),
        ("SEQ((A|C) u) WHERE u.name = 'x'" + W, "A has string, C has none", "u.name"),
        ("SEQ((A|A) u)" + W, "names 'A' twice", "A"),
        ("SEQ(A a) WHERE sqr(a.V) = 1" + W, "unknown function 'sqr'; did you mean 'sqrt'?", "sqr"),
        # variables of several events
        ("SEQ(A+ a[]) WHERE a.V = 1" + W, "write a[i].V (every one), a[first].V", "a.V"),
        ("SEQ(A a) WHERE a[i].V = 1" + W, "holds one event and has no index; write a.V", "a[i].V"),
        ("SEQ(A a) WHERE SUM(a[].V) = 1" + W, "holds one event, not a list; write a.V", "SUM(a[].V)"),
        ("SEQ(A a) WHERE SUM(a.V) = 1" + W, "SUM aggregates over a repeated variable", "SUM(a.V)"),
        ("SEQ(A+ a[]) WHERE SUM(a[]) = 1" + W, "SUM needs an attribute", "a[]"),
        ("SEQ(A+ a[]) WHERE SUM(a[].name) = 1" + W, "SUM needs numbers", "SUM(a[].name)"),
        ("SEQ(A+ a[]) WHERE SUM(a[].V, 1) = 1" + W, "takes one list", "SUM(a[].V, 1)"),
        ("SEQ(A+ a[]) WHERE sqrt(a[].V) = 1" + W, "'sqrt' takes no list", "sqrt"),
        ("SEQ(A+ a[]) WHERE a[].V = 1" + W, "the list a[].V is allowed only", "a[].V"),
        ("SEQ(A+ a[]) WHERE a[] = 1" + W, "is allowed only in COUNT(a[])", "a[]"),
        ("SEQ(A+ a[]) WHERE a[k].V = 1" + W, "unknown index 'k'; expected i, i+1", "k"),
        ("SEQ(A+ a[]) WHERE a[-1].V = 1" + W, "write [last]", "-1"),
        ("SEQ(A+ a[]) WHERE a[first+1].V = 1" + W, "[first] takes no offset; write [0], [1]", "first+1"),
        ("SEQ(A+ a[]) WHERE a[last+1].V = 1" + W, "no element comes after [last]; write [last], [last-1]", "last+1"),
        ("SEQ(A+ a)" + W, "a holds several events, so it is written a[]", "a"),
        ("SEQ(A a[])" + W, "or A+ a[] for several", "a"),
        ("SEQ(A? a[])" + W, "has no []; write a", "a"),
        ("SEQ(A{3,2} a[])" + W, "write {2,3}", "{3,2}"),
        ("SEQ(A{0,0} a[])" + W, "at least 1", "{0,0}"),
        ("SEQ(A{0} a[])" + W, "{0} allows no event; the number must be at least 1", "{0}"),
        ("SEQ(A{,0} a[])" + W, "{,0} allows no event; the upper bound must be at least 1", "{,0}"),
        ("SEQ(A{1,99999999999999999999} a[])" + W, "does not fit int64 (at most 9223372036854775807); omit it for "
        "any number, as in {2,}", "99999999999999999999"),
        ("SEQ(A{99999999999999999999} a[])" + W, "omit it for any number", "99999999999999999999"),
        ("SEQ(A{,99999999999999999999} a[])" + W, "omit it for any number", "99999999999999999999"),
        ("SEQ(A{-2} a[])" + W, "expected ',' or a whole number; a quantifier is {3}, {2,4}, {2,} or {,4}", "-"),
        ("SEQ(A{1,-2} a[])" + W, "expected a whole number or '}'; a quantifier is {3}", "-"),
        ("SEQ(A{} a[])" + W, "expected ',' or a whole number; a quantifier is {3}", "}"),
        ("SEQ(A{,} a[])" + W, "expected a whole number; a quantifier is {3}", "}"),
        ("SEQ(A{2:4} a[])" + W, "a quantifier is {3}, {2,4}", ":"),
        ("SEQ(A{n} a[])" + W, "a quantifier is {3}, {2,4}", "n"),
        ("SEQ(A{2} a)" + W, "a holds several events, so it is written a[]", "a"),
        # types
        ("SEQ(A a) WHERE a.V" + W, "a.V has the type int64; compare it", "a.V"),
        ("SEQ(A a) WHERE a.V = 1 AND a.x + 1" + W, "a.x + 1 has the type float64", "a.x + 1"),
        ("SEQ(A a) WHERE a.name < 1" + W, "< compares a.name, which is a string, with 1, which is an int64", "1"),
        ("SEQ(A a) WHERE a.flag < TRUE" + W, "< needs numbers, but a.flag is a bool", "a.flag"),
        ("SEQ(A a) WHERE a.flag + 1 = 2" + W, "+ needs numbers, but a.flag is a bool", "a.flag"),
        ("SEQ(A a) WHERE a.name = 1" + W, "which is a string, with 1, which is an int64", "1"),
        ("SEQ(A a) WHERE a.V IN {1, 'x'}" + W, "IN compares a.V", "'x'"),
        ("SEQ(A a) WHERE a.name BETWEEN 'a' AND 2" + W, "BETWEEN compares a.name, which is a string, with 2", "2"),
        ("SEQ(A a) WHERE a.flag BETWEEN 1 AND 2" + W, "BETWEEN needs numbers", "a.flag"),
        ("SEQ(A a) WHERE hour(a.time, 'Berlin') = 1" + W, "'Berlin' is not the name of a time zone", "'Berlin'"),
        ("SEQ(A a) WHERE hour(a.name) = 1" + W, "hour needs a time, but a.name is a string", "a.name"),
        ("SEQ(A a) WHERE a.time > TIMESTAMP '27.11.2026'" + W, "'27.11.2026' is not a time; expected a date",
         "TIMESTAMP '27.11.2026'"),
        ("SEQ(A a) WHERE a.time > TIMESTAMP '2600-01-01'" + W, "expected one from 1678 to 2261",
         "TIMESTAMP '2600-01-01'"),
        ("SEQ(A a) WHERE a.V LIKE 'x'" + W, "LIKE compares texts, but a.V is an int64", "a.V"),
        ("SEQ(A a) WHERE a.name LIKE 'x!' ESCAPE '!'" + W, "ends in the escape character '!'; write it twice", "'x!'"),
        ("SEQ(A a) WHERE a.name LIKE 'x' ESCAPE ''" + W, "ESCAPE needs one character, as in ESCAPE '!'", "''"),
        ("SEQ(A a) WHERE length(a.V) = 1" + W, "length needs a text, but a.V is an int64", "a.V"),
        ("SEQ(A a) WHERE substr(a.name, 'x') = ''" + W, "substr needs a whole number, but 'x' is a string", "'x'"),
        ("SEQ(A a) WHERE substr(a.name) = ''" + W, "substr takes 2 or 3 arguments, not 1", "substr(a.name)"),
        ("SEQ(A a) WHERE coalesce(a.V, 'x') = 1" + W,
         "the values of coalesce must have the same kind, but a.V is an int64 and 'x' is a string", "'x'"),
        ("SEQ(A a) WHERE CASE WHEN a.V THEN TRUE END" + W, "WHEN needs a condition, but a.V is an int64", "a.V"),
        ("SEQ(A a) WHERE CASE WHEN a.flag THEN 1 ELSE 'x' END = 1" + W, "the values of CASE must have the same", "'x'"),
        ("SEQ(A a) WHERE CASE a.V END = 1" + W, "expected", "END"),
        ("SEQ(A a) WHERE NOT a.V" + W, "NOT needs a condition", "a.V"),
        ("SEQ(A a) WHERE a.flag OR a.V" + W, "OR needs a condition", "a.V"),
        ("SEQ(A a) WHERE abs(a.name) = 1" + W, "abs needs numbers", "a.name"),
        ("SEQ(A a) WHERE sqrt(a.V, 1) = 1" + W, "sqrt takes 1 argument, not 2", "sqrt(a.V, 1)"),
        ("SEQ(A a) WHERE min() = 1" + W, "min takes at least 1 argument", "min()"),
        ("SEQ(A a) WHERE a.V = 9223372036854775808" + W, "does not fit int64", "9223372036854775808"),
        ("SEQ(A a) WHERE a.V = -9223372036854775809" + W, "does not fit int64", "9223372036854775809"),
        ("SEQ(A a) WHERE a" + W, "the name a alone is not a value; write a.attribute if", "a"),
        # keys
        ("SEQ(A a, C c) WHERE [name]" + W, "C has no such attribute", "[name]"),
        ("SEQ(A a, C c) WHERE [V]" + W, "int64 in A and float64 in C", "[V]"),
        ("SEQ(A a) WHERE [ID, ID]" + W, "names 'ID' twice", "[ID, ID]"),
        ("SEQ(A a) WHERE [time]" + W, "built in", "[time]"),
        ("SEQ(A a) WHERE a.V = 1 OR [ID]" + W, "only as a separate condition", "[ID]"),
        ("SEQ(A a) WHERE NOT [ID]" + W, "only as a separate condition", "[ID]"),
        ("SEQ(A a) WITHIN 1ms PARTITION BY ID, IDD", "needs 'IDD' in every type", "IDD"),
        ("SEQ(A a) WITHIN 1ms PARTITION BY ID, ID", "twice", "ID"),
        # RETURN
        ("SEQ(A+ a[]) WITHIN 1ms RETURN a[i].V", "RETURN has no [i]: write a[].V", "a[i].V"),
        ("SEQ(A+ a[]) WITHIN 1ms RETURN a[].V + 1", "or alone in RETURN", "a[].V"),
        ("SEQ(A a) WITHIN 1ms RETURN a.V, a.x AS \"a.V\"", "two output columns", '"a.V"'),
        ("SEQ(A a) WITHIN 1ms RETURN a.V AS a", "the name of a variable", "a"),
        ("SEQ(A a) WITHIN 1ms RETURN a.V AS detected_at", "a column of every result", "detected_at"),
        ("SEQ(A a) WITHIN 1ms RETURN [ID]", "only as a separate condition", "[ID]"),
        ("SEQ(A a) WITHIN 1ms RETURN a.W", "unknown attribute 'W'", "a.W"),
        # clauses
        ("SEQ(A a)", "every query needs a window; add WITHIN", "SEQ(A a)"),
        ("SEQ(A a) WHERE a.V = 1", "every query needs a window", "a.V = 1"),
        ("SEQ(A a) WITHIN 1ms WHERE a.V = 1", "WHERE must come before WITHIN; the order is", "WHERE a.V = 1"),
        ("SEQ(A a) WITHIN 1ms RETURN a.V PARTITION BY ID", "PARTITION BY must come before RETURN", "PARTITION BY ID"),
        ("SEQ(A a) WITHIN 1ms WITHIN 2ms", "WITHIN is written twice", "WITHIN 2ms"),
        ("SEQ(A a) WITHIN 1ms WINDOW EVERY 1s CLOSE AFTER 1s", "exclude each other", "WINDOW EVERY 1s CLOSE AFTER 1s"),
        ("SEQ(A a) WITHIN 0 EVENTS", "at least 1", "0"),
        ("SEQ(A a) WITHIN 1.5ns", "not a whole number of nanoseconds", "1.5ns"),
        ("SEQ(A a) WITHIN 99999999999 d", "too long", "99999999999 d"),
        ("SEQ(A a) WITHIN 1ms STRATEGY skip", "expected skip_till_any, skip_till_next", "skip"),
    ],
)  # fmt: skip
def test_refused(text: str, message: str, marked: str, schema: Schema) -> None:
    actual, underlined = refuse("PATTERN " + text, schema)
    assert message in actual
    assert underlined == marked


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("", "the text ends too early; expected PATTERN or QUERY", ""),
        ("SEQ(A a)", "expected PATTERN or QUERY", "SEQ"),
        ("PATTERN A a WITHIN 1ms", "one event is written SEQ(A a)", "A"),
        ("PATTERN SEQ(Any a) WITHIN 1ms", 'as a name, write "Any" in double quotes', "a"),
        ("PATTERN SEQ(A a B b) WITHIN 1ms", "unexpected 'B'; expected ')', ','", "B"),
        ("PATTERN SEQ(A a) WHERE a.V = 1 WITHN 1ms", "did you mean 'WITHIN'?", "WITHN"),
        ("PATTERN SEQ(A a) WHERE a.V == 1 WITHIN 1ms", "'==' is not an operator; write =", "=="),
        ("PATTERN SEQ(A a) WHERE a.V <> 1 WITHIN 1ms", "write !=", "<>"),
        ("PATTERN SEQ(A a) WHERE 1 < a.V < 3 WITHIN 1ms", "comparisons do not chain", "<"),
        ("PATTERN SEQ(A a) WHERE a.V > WITHIN 1ms", "add a value or condition before WITHIN", "1ms"),
        ("PATTERN SEQ(A a) WHERE a.V = 'x WITHIN 1ms", "starts with ' is not closed", "'"),
        ("PATTERN SEQ(A a) WHERE a.V = 1 & a.ID = 2 WITHIN 1ms", "write AND", "&"),
        ("PATTERN SEQ(A a) WHERE a.V = 1; WITHIN 1ms", "unexpected ';'", ";"),
        ("PATTERN SEQ(A a) WITHIN 5", "the text ends too early; expected EVENTS", ""),
        ("PATTERN SEQ(A a) WHERE (a.V = 1 WITHIN 1ms", "expected", "WITHIN"),
        ("PATTERN SEQ() WITHIN 1ms", "unexpected ')'", ")"),
    ],
)
def test_syntax(text: str, message: str, marked: str, schema: Schema) -> None:
    actual, underlined = refuse(text, schema)
    assert message in actual
    assert underlined == marked


def test_at_most_64_variables(schema: Schema) -> None:
    variables = [f"A v{number}" for number in range(65)]
    assert len(parse(f"PATTERN SEQ({', '.join(variables[:64])}) WITHIN 1ms", schema).pattern.patterns) == 64
    message, marked = refuse(f"PATTERN SEQ({', '.join(variables)}) WITHIN 1ms", schema)
    assert "65 variables; at most 64" in message
    assert marked == "A v64"


def test_place_and_caret(schema: Schema) -> None:
    with pytest.raises(ParseError) as caught:
        parse("PATTERN SEQ(BikeTrip a)\nWHERE a.bikeid = 1\nWITHIN 1h", schema, filename="trips.cep")
    assert str(caught.value) == (
        "trips.cep:2:7: unknown attribute 'bikeid' of BikeTrip; did you mean 'bike'?\n"
        "  WHERE a.bikeid = 1\n"
        "        ^^^^^^^^"
    )
