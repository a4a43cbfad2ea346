"""Errors on windows, strategies, selection and other clauses: the whole message and the underlined text."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from support.doc_tables import clauses as clause_table

from fastcep.errors import ParseError
from fastcep.events import Schema
from fastcep.query import ast, parse, to_text
from fastcep.query.checks.query import check


def refuse(text: str, schema: Schema) -> tuple[str, str]:
    """Return the message and the underlined text of the error."""
    with pytest.raises(ParseError) as caught:
        parse(text, schema)
    error = caught.value
    assert error.line == 1 and error.column is not None
    at = error.column - 1
    return error.message, text[at : at + error.length]


W = "WINDOW EVERY 5s CLOSE AFTER 9s"
LATE = "with NEG B n at its end a match is decided only when the window ends"
REMEDY = "remove the clause, or add a variable after the NEG that must occur"
TICKS = "PERIODIC reports ticks, each of which is decided only after its time has passed"
CHOOSES = "chooses among the matches that end in one event"


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        # trailing NEG, PERIODIC
        ("SEQ(A a, NEG B n) WITHIN 1h SELECT first", f"SELECT first {CHOOSES}, but {LATE}; {REMEDY}", "first"),
        (f"SEQ(A a, NEG B n) {W} SELECT cumulative", f"SELECT cumulative {CHOOSES}, but {LATE}; {REMEDY}",
         "cumulative"),
        ("SEQ(A a, NEG B n, C? c) WITHIN 1h SELECT last", f"SELECT last {CHOOSES}, but {LATE}; {REMEDY}", "last"),
        (f"SEQ(A a, NEG B n) {W} CONSUME consumed",
         f"CONSUME consumed consumes the events of a match when it ends, but {LATE}; {REMEDY}", "consumed"),
        ("SEQ(A a, NEG B n) WITHIN 1h AFTER MATCH SKIP TO NEXT",
         f"AFTER MATCH SKIP TO NEXT drops partial matches that overlap a match when it ends, but {LATE}; {REMEDY}",
         "AFTER MATCH SKIP TO NEXT"),
        ("PERIODIC(A a, 1s, C c) WITHIN 1h SELECT last",
         f"SELECT last {CHOOSES}, but {TICKS}; remove the clause", "last"),
        ("PERIODIC(A a, 1s, C c) WITHIN 1h CONSUME consumed",
         f"CONSUME consumed consumes the events of a match when it ends, but {TICKS}; remove the clause",
         "consumed"),
        ("PERIODIC(A a, 1s, C c) WITHIN 1h AFTER MATCH SKIP PAST LAST",
         f"AFTER MATCH SKIP PAST LAST drops partial matches that overlap a match when it ends, but {TICKS}; remove "
         f"the clause",
         "AFTER MATCH SKIP PAST LAST"),
        (f"PERIODIC(A a, 1s, C c) {W}",
         "PERIODIC needs a time window, in which it ticks; write WITHIN 1h instead of WINDOW",
         "PERIODIC(A a, 1s, C c)"),
        # policies
        ("SEQ(A a) WITHIN 1h SELECT cumulative RETURN a.V",
         "RETURN describes a single match, but SELECT cumulative combines all matches that end in an event; remove "
         "RETURN, or write SELECT each", "RETURN a.V"),
        ("SEQ(A a) WITHIN 1h LIMIT 3 PER WINDOW",
         "LIMIT needs explicit windows, because it counts the matches of each window; write WINDOW OPEN … CLOSE … "
         "instead of WITHIN, or remove LIMIT", "3"),
        ("SEQ(A a) WITHIN UNBOUNDED LIMIT 3 PER WINDOW",
         "LIMIT needs explicit windows, because it counts the matches of each window; write WINDOW OPEN … CLOSE … "
         "instead of WITHIN, or remove LIMIT", "3"),
        (f"SEQ(A a) {W} LIMIT 0 PER WINDOW",
         "LIMIT 0 PER WINDOW reports nothing; expected a number from 1 to 9223372036854775807", "0"),
        ("SEQ(A a) WITHIN 1h STRATEGY partition_contiguity",
         "partition_contiguity needs PARTITION BY, because it requires adjacent events of a partition; add PARTITION "
         "BY, or write strict_contiguity for adjacent events of the stream", "partition_contiguity"),
        ("SEQ(A a, B b) WHERE a.V = 1 AND [ID, name] WITHIN 1h STRATEGY partition_contiguity",
         "partition_contiguity needs PARTITION BY, because it requires adjacent events of a partition; write PARTITION "
         "BY ID, name instead of [ID, name], or write strict_contiguity for adjacent events of the stream",
         "partition_contiguity"),
        ("SEQ(A a) WITHIN 1h WEIGHT 0", "WEIGHT 0 is invalid; expected a number above 0", "0"),
        ("SEQ(A a) WITHIN 1h WEIGHT 1e999", "WEIGHT inf is invalid; expected a number above 0", "1e999"),
        # unknown words
        ("SEQ(A a) WITHIN 1h STRATEGY skip_til_next",
         "unknown STRATEGY 'skip_til_next'; expected skip_till_any, skip_till_next, partition_contiguity or "
         "strict_contiguity; did you mean 'skip_till_next'?", "skip_til_next"),
        ("SEQ(A a) WITHIN 1h STRATEGY Strict",
         "unknown STRATEGY 'Strict'; expected skip_till_any, skip_till_next, partition_contiguity or "
         "strict_contiguity; did you mean 'strict_contiguity'?", "Strict"),
        ("SEQ(A a) WITHIN 1h STRATEGY next",
         "unknown STRATEGY 'next'; expected skip_till_any, skip_till_next, partition_contiguity or "
         "strict_contiguity", "next"),
        ("SEQ(A a) WITHIN 1h SELECT all",
         "unknown SELECT 'all'; expected each, first, last, cumulative or longest; did you mean 'each'?", "all"),
        ("SEQ(A a) WITHIN 1h SELECT cumulativ",
         "unknown SELECT 'cumulativ'; expected each, first, last, cumulative or longest; did you mean 'cumulative'?",
         "cumulativ"),
        ("SEQ(A a) WITHIN 1h CONSUME consume",
         "unknown CONSUME 'consume'; expected zero or consumed; did you mean 'consumed'?", "consume"),
        ("SEQ(A a) WITHIN 1h CONSUME none",
         "unknown CONSUME 'none'; expected zero or consumed; did you mean 'zero'?", "none"),
        ("SEQ(A a) WITHIN 1h CONSUME all",
         "unknown CONSUME 'all'; expected zero or consumed; did you mean 'consumed'?", "all"),
        # NEXT, CONSECUTIVE
        ("SEQ(A a, NEXT NEG B b, C c) WITHIN 1h",
         "NEXT is not allowed before NEG B b, which binds no event; write it before the part that must come next, as "
         "in SEQ(A a, NEXT B b)", "NEXT NEG B b"),
        ("AND(A a, NEXT B b) WITHIN 1h",
         "NEXT is allowed only before a part of a SEQ, whose first event comes right after the previous parts; "
         "write SEQ(P p, NEXT Q q) there", "NEXT B b"),
        ("APERIODIC(A a, NEXT B b, C c) WITHIN 1h",
         "NEXT is allowed only before a part of a SEQ, whose first event comes right after the previous parts; "
         "write SEQ(P p, NEXT Q q) there", "NEXT B b"),
        ("SEQ(A a CONSECUTIVE, B b) WITHIN 1h",
         "CONSECUTIVE needs several events, but a holds at most one; write A+ a[] CONSECUTIVE, or NEXT before it to "
         "exclude events before it", "A a CONSECUTIVE"),
        ("SEQ(A a, B{0,1} b[] CONSECUTIVE) WITHIN 1h",
         "CONSECUTIVE needs several events, but b holds at most one; write B+ b[] CONSECUTIVE, or NEXT before it to "
         "exclude events before it", "B{0,1} b[] CONSECUTIVE"),
        ("SEQ(A a, (SEQ(B b))? g CONSECUTIVE) WITHIN 1h",
         "CONSECUTIVE needs several rounds, but g holds at most one; write (SEQ(B b))+ g[] CONSECUTIVE, or NEXT "
         "before it to exclude events before it", "(SEQ(B b))? g CONSECUTIVE"),
        # a NEG needs an end
        ("OR(C c, SEQ(A a, NEG B n)) WINDOW EVERY 5s CLOSE AFTER 9s",
         "no event is bound after NEG B n in its SEQ, which is not the whole pattern, so it is undefined where it "
         "ends; add a variable after it that must occur, or move it to the outermost SEQ", "NEG B n"),
    ],
)  # fmt: skip
def test_combinations(text: str, message: str, marked: str, schema: Schema) -> None:
    assert refuse(f"PATTERN {text}", schema) == (message, marked)


@pytest.mark.parametrize("clauses", ["LIMIT 3 PER WINDOW", "STRATEGY skip_till_next WEIGHT 2", "SELECT each"])
@pytest.mark.parametrize("pattern", ["SEQ(NEG B m, A a)", "SEQ(A a, NEG B n)", "SEQ(NEG B m, A? a, C c, NEG B n)"])
def test_a_negation_at_the_edge_of_an_explicit_window(pattern: str, clauses: str, schema: Schema) -> None:
    for window in (W, "WINDOW OPEN ON A o CLOSE ON B e", "WINDOW EVERY 5 EVENTS CLOSE AFTER 10 EVENTS"):
        parse(f"PATTERN {pattern} {window} {clauses}", schema)


ONE, TWO = (
    f"{name} is the event that {action} the window, not a variable of the pattern; only the conditions in WINDOW can "
    "mention it. If the match needs it, add a variable to the pattern that binds it"
    for name, action in (("o", "opens"), ("e", "closes"))
)
ON = "WINDOW OPEN ON A o CLOSE ON C e"
OPENS = (
    "a variable of the pattern, but the window opens regardless of what the pattern binds; the condition after OPEN ON "
    "can mention only o. Conditions on the pattern belong in WHERE before WINDOW"
)
CLOSES = (
    "a variable of the pattern, but the window closes regardless of what the pattern binds; the condition after CLOSE "
    "ON can mention only o and e. Conditions on the pattern belong in WHERE before WINDOW"
)


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        # extents
        ("WINDOW EVERY 0 EVENTS CLOSE AFTER 9s",
         "EVERY 0 EVENTS opens no window; expected a number from 1 to 9223372036854775807", "0"),
        ("WINDOW EVERY 0s CLOSE AFTER 9s", "EVERY 0ns opens no window; expected at least 1ns", "0s"),
        ("WINDOW EVERY 5s CLOSE AFTER 0 EVENTS",
         "CLOSE AFTER 0 EVENTS is not a valid window; expected a number from 1 to 9223372036854775807", "0"),
        ("WINDOW EVERY 5s CLOSE AFTER 0 min", "CLOSE AFTER 0ns is not a valid window; expected at least 1ns",
         "0 min"),
        # names
        ("WINDOW OPEN ON Aa o CLOSE AFTER 9s",
         "unknown event type 'Aa'; did you mean 'A'? Declared types: A, B, C, BikeTrip", "Aa"),
        ("WINDOW OPEN ON (A|B|A) o CLOSE AFTER 9s", "the union names 'A' twice; keep one", "A"),
        ("WINDOW OPEN ON A i CLOSE AFTER 9s",
         "a variable cannot be called 'i', which is the index in x[i]; choose another name", "i"),
        ("WINDOW OPEN ON A a CLOSE AFTER 9s",
         "'a' is already a variable of the pattern and cannot also name the event that opens the window; choose "
         "another name", "a"),
        ("WINDOW OPEN ON A o CLOSE ON B x",
         "'x' is already a variable of the pattern and cannot also name the event that closes the window; choose "
         "another name", "x"),
        ("WINDOW OPEN ON A g CLOSE AFTER 9s",
         "'g' is already a variable of the pattern and cannot also name the event that opens the window; choose "
         "another name", "g"),
        ("WINDOW OPEN ON A n CLOSE AFTER 9s",
         "'n' is already a variable of the pattern and cannot also name the event that opens the window; choose "
         "another name", "n"),
        ("WINDOW OPEN ON A o CLOSE ON B o",
         "'o' already names the event that opens the window and cannot also name the event that closes it; choose "
         "another name", "o"),
        # variables that conditions can mention
        (f"WHERE o.V = a.V {ON}", ONE, "o.V"),
        (f"WHERE a.V = 1 AND NOT e.V > 1 {ON}", TWO, "e.V"),
        (f"{ON} RETURN o.V", ONE, "o.V"),
        (f"{ON} RETURN e.V AS last", TWO, "e.V"),
        ("WINDOW OPEN ON A o WHERE a.V = o.V CLOSE AFTER 9s", f"a is {OPENS}", "a.V"),
        ("WINDOW OPEN ON A o WHERE COUNT(g[]) = 1 CLOSE AFTER 9s", f"g is {OPENS}", "COUNT(g[])"),
        ("WINDOW OPEN ON A o CLOSE ON C e WHERE g[first].x.V = e.V", f"g is {CLOSES}", "g[first].x.V"),
        ("WINDOW OPEN ON A o CLOSE ON C e WHERE o.V = n.V", f"n is {CLOSES}", "n.V"),
        ("WINDOW OPEN ON A o WHERE e.V = o.V CLOSE ON C e",
         "e is the event that closes the window, which has not occurred when the window opens; the condition after "
         "OPEN ON can mention only o. Compare the two events after CLOSE ON", "e.V"),
        ("WINDOW OPEN ON A o WHERE q.V = o.V CLOSE AFTER 9s",
         "unknown variable 'q'; the condition can mention o; write it", "q.V"),
        ("WINDOW EVERY 5s CLOSE ON C e WHERE o.V = e.V",
         "unknown variable 'o'; the condition can mention e; write it", "o.V"),
        # types of conditions
        ("WINDOW OPEN ON A o WHERE o.W > 1 CLOSE AFTER 9s",
         "unknown attribute 'W' of A; it has ID, V, x, name, flag, time, seq, type; choose one of them", "o.W"),
        ("WINDOW OPEN ON (A|C) o WHERE o.name = 'x' CLOSE AFTER 9s",
         "'name' is not an attribute that all of A | C share with the same type (A has string, C has none); 'o' has "
         "only the shared attributes; these are ID; write it", "o.name"),
        ("WINDOW OPEN ON A o WHERE o.V CLOSE AFTER 9s",
         "OPEN ON … WHERE needs conditions, but o.V has the type int64; compare it, as in o.V = …", "o.V"),
        ("WINDOW OPEN ON A o CLOSE ON C e WHERE e.ID = o.ID AND e.V + 1",
         "CLOSE ON … WHERE needs conditions, but e.V + 1 has the type float64; compare it, as in e.V + 1 = …",
         "e.V + 1"),
        ("WINDOW OPEN ON A o WHERE o.name < 3 CLOSE AFTER 9s",
         "< compares o.name, which is a string, with 3, which is an int64; both sides must have the same kind; "
         "write '3' for a text", "3"),
        ("WINDOW OPEN ON A o WHERE o[first].V > 3 CLOSE AFTER 9s",
         "o holds one event and has no index; write o.V", "o[first].V"),
        ("WINDOW OPEN ON A o CLOSE ON C e WHERE SUM(e[].V) > 3",
         "e holds one event, not a list; write e.V", "SUM(e[].V)"),
        ("WINDOW OPEN ON A o WHERE o[].V = 3 CLOSE AFTER 9s",
         "the list o[].V is allowed only in an aggregate such as MAX(o[].V), or alone in RETURN", "o[].V"),
        ("WINDOW OPEN ON A o WHERE [ID] CLOSE AFTER 9s",
         "[ID] compares the variables of the pattern, but this condition has only one event; remove it", "[ID]"),
        ("WINDOW OPEN ON A o CLOSE ON C e WHERE e.V > 1 AND [ID]",
         "[ID] compares the variables of the pattern; write e.ID = o.ID for the events of the window", "[ID]"),
    ],
)  # fmt: skip
def test_windows(text: str, message: str, marked: str, schema: Schema) -> None:
    assert refuse(f"PATTERN SEQ(A a, NEG A n, (SEQ(B x))+ g[]) {text}", schema) == (message, marked)


SKIPS = "; write AFTER MATCH SKIP TO NEXT, SKIP PAST LAST, SKIP TO FIRST x, SKIP TO LAST x or NO SKIP"
FORMS = "WINDOW EVERY 1min CLOSE AFTER 5min, or WINDOW OPEN ON A o CLOSE ON B c"
ENDS = "CLOSE AFTER 5min, CLOSE AFTER 100 EVENTS or CLOSE ON B c"
NAMED = "; write one event, as in OPEN ON A o"
COLUMNS = "; SELECT is each, first, last, cumulative, longest; for output columns write RETURN a.v"
ORDER = (
    "the order is PATTERN, WHERE, WITHIN or WINDOW, PARTITION BY, STRATEGY, SELECT, CONSUME, LIMIT, AFTER MATCH, "
    "WEIGHT, RETURN"
)
STRATEGIES = "; the strategies are skip_till_any, skip_till_next, partition_contiguity, strict_contiguity"


@pytest.mark.parametrize(
    ("text", "hint", "marked"),
    [
        # AFTER MATCH, as Flink and SQL write it
        ("WITHIN 1h AFTER MATCH SKIP PAST LAST ROW", SKIPS, "ROW"),
        ("WITHIN 1h AFTER MATCH SKIP PAST LAST EVENT RETURN a.V", SKIPS, "EVENT"),
        ("WITHIN 1h AFTER MATCH SKIP TO NEXT ROW", SKIPS, "ROW"),
        ("WITHIN 1h AFTER MATCH SKIP TO b", SKIPS, "b"),
        ("WITHIN 1h AFTER MATCH SKIP PAST b", SKIPS, "b"),
        ("WITHIN 1h AFTER MATCH", SKIPS, ""),
        ("WITHIN 1h AFTER SKIP TO NEXT", SKIPS, "SKIP"),
        ("WITHIN 1h SKIP TO NEXT", SKIPS, "SKIP"),
        # windows
        ("WITHIN 5min SLIDE 1min", f"; did you mean {FORMS}?", "SLIDE"),
        ("WITHIN 5min EVERY 1min", f"; did you mean {FORMS}?", "EVERY"),
        ("OPEN ON A o CLOSE AFTER 1min", f"; did you mean {FORMS}?", "OPEN"),
        ("WINDOW TUMBLING (5min)", f"; as in {FORMS}", "TUMBLING"),
        ("WINDOW 5min", f"; as in {FORMS}", "5min"),
        ("WINDOW OPEN 5min CLOSE AFTER 1min", f"; as in {FORMS}", "5min"),
        ("WINDOW ON A o CLOSE AFTER 5min", f"; as in {FORMS}", "ON"),
        ("WINDOW EVERY 5min", f"; a window also needs an end, as in {ENDS}", ""),
        ("WINDOW OPEN ON A o RETURN a.V", f"; a window also needs an end, as in {ENDS}", "RETURN"),
        ("WINDOW OPEN ON A o WHERE o.V = 1 SELECT last", f"; a window also needs an end, as in {ENDS}", "SELECT"),
        ("WINDOW OPEN ON A o CLOSE 5min", f"; as in {ENDS}", "5min"),
        ("WINDOW OPEN ON A o CLOSE WHEN c.V = 1", f"; as in {ENDS}", "WHEN"),
        ("WINDOW OPEN ON A CLOSE AFTER 5min", NAMED, "AFTER"),
        ("WINDOW OPEN ON (A|B) CLOSE AFTER 5min", NAMED, "AFTER"),
        ("WINDOW OPEN ON A o CLOSE ON B WHERE B.V = 1", NAMED, "B"),
        ("WINDOW OPEN ON A o CLOSE ON B", NAMED, ""),
        ("WINDOW OPEN ON A+ o[] CLOSE AFTER 5min", NAMED, "+"),
        ("WINDOW OPEN ON A o[] CLOSE AFTER 5min", NAMED, "["),
        ("WINDOW OPEN ON A | B o CLOSE AFTER 5min", "; write several types as OPEN ON (A|B) o", "|"),
        ("WINDOW OPEN ON (A, B) o CLOSE AFTER 5min", "; several types are written (A|B)", ","),
        ("WINDOW OPEN ON A o AND o.V > 1 CLOSE AFTER 5min", "; write its conditions after WHERE", "AND"),
        ("WINDOW OPEN ON A o CLOSED AFTER 5min", "; did you mean 'CLOSE'?", "CLOSED"),
        ("WINDOW EVERY 5min CLOSE AFTER 5", "; a time needs a unit: ns, us, ms, s, min, h or d, as in 5min", ""),
        ("WINDOW EVERY 5 CLOSE AFTER 5min", "; a time needs a unit: ns, us, ms, s, min, h or d, as in 5min", "CLOSE"),
        ("WINDOW OPEN ON A o WHERE o.V > CLOSE AFTER 5min", "; add a value or condition before CLOSE", "AFTER"),
        # other clauses
        ("WITHIN 1h GROUP BY ID", "; did you mean PARTITION BY?", "GROUP"),
        ("WITHIN 1h STRATEGY skip-till-next", STRATEGIES, "-"),
        ("WITHIN 1h STRATEGY skip till next", STRATEGIES, "till"),
        ("WITHIN 1h STRATEGY", STRATEGIES, ""),
        ("WITHIN 1h CONSUME", "; CONSUME is zero or consumed", ""),
        ("WITHIN 1h SELECT", COLUMNS, ""),
        ("WITHIN 1h SELECT first 3", "; to limit the matches of a window write LIMIT 3 PER WINDOW", "3"),
        ("WITHIN 1h SELECT first match",
         "; expected the end or the next clause (WHERE, WITHIN, PARTITION BY, RETURN, …)", "match"),
        ("WITHIN 1h SELECT *", COLUMNS, "*"),
        ("WITHIN 1h SELECT a.V", COLUMNS, "."),
        ("WITHIN 1h SELECT a, b", COLUMNS, ","),
        ("WITHIN 1h LIMIT 3", "; write LIMIT 3 PER WINDOW", ""),
        ("WITHIN 1h LIMIT 3 RETURN a.V", "; write LIMIT 3 PER WINDOW", "RETURN"),
        ("WITHIN 1h LIMIT 3 PER MINUTE", "; write LIMIT 3 PER WINDOW", "MINUTE"),
        ("WITHIN 1h SELEC first", "; did you mean 'SELECT'?", "SELEC"),
        ("WITHIN 1h WEIGHT -1", "; expected a number; write a number above 0, as in WEIGHT 2", "-"),
    ],
)  # fmt: skip
def test_slips(text: str, hint: str, marked: str, schema: Schema) -> None:
    message, underlined = refuse(f"PATTERN SEQ(A a) {text}", schema)
    assert message.endswith(hint)
    assert underlined == marked


@pytest.mark.parametrize(
    ("pattern", "hint", "marked"),
    [
        ("SEQ(A a, B+ CONSECUTIVE b[])", "; write CONSECUTIVE after the variable, as in B+ b[] CONSECUTIVE", "b"),
        ("SEQ(A a, B CONSECUTIVE+ b[])", "; write CONSECUTIVE after the variable, as in B+ b[] CONSECUTIVE", "+"),
        ("SEQ(A a NEXT B b)", "; is a comma missing?", "NEXT"),
        ("ANY(3, A a[] CONSECUTIVE)",
         "; ANY binds its events in any order; for consecutive events write SEQ(A{3} a[] CONSECUTIVE)", "CONSECUTIVE"),
    ],
)  # fmt: skip
def test_slips_in_patterns(pattern: str, hint: str, marked: str, schema: Schema) -> None:
    message, underlined = refuse(f"PATTERN {pattern} WITHIN 1h", schema)
    assert message.endswith(hint)
    assert underlined == marked


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("WITHIN 1h SELECT first STRATEGY skip_till_next", f"STRATEGY must come before SELECT; {ORDER}",
         "STRATEGY skip_till_next"),
        ("WITHIN 1h WEIGHT 2 AFTER MATCH SKIP TO NEXT", f"AFTER MATCH must come before WEIGHT; {ORDER}",
         "AFTER MATCH SKIP TO NEXT"),
        ("WITHIN 1h SELECT first SELECT last", "SELECT is written twice; keep one", "SELECT last"),
        (f"WITHIN 1h {W}", "WITHIN and WINDOW exclude each other; keep one", W),
    ],
)  # fmt: skip
def test_order_of_clauses(text: str, message: str, marked: str, schema: Schema) -> None:
    assert refuse(f"PATTERN SEQ(A a) {text}", schema) == (message, marked)


def test_the_page_has_the_table_of_clauses() -> None:
    assert Path(clause_table.PAGE).read_text(encoding="utf-8") == clause_table.page()


def test_clauses_combine_with_each_other(schema: Schema) -> None:
    """All combinations of the clauses are accepted, except those of SELECT longest that have no meaning."""
    pairs = itertools.product(ast.STRATEGIES, ast.SELECTIONS, ast.CONSUMPTIONS, (None, 2), ast.AFTER_MATCH)
    plain = parse(f"PATTERN SEQ(A a, NEXT B+ b[] CONSECUTIVE, C c) {W} PARTITION BY ID", schema)
    for strategy, select, consume, limit, after_match in pairs:
        if select == "longest" and (strategy == "skip_till_any" or consume == "consumed"):
            continue
        skip_to = "b" if after_match in ("skip to first", "skip to last") else None
        query = replace(plain, strategy=strategy, select=select, consume=consume, limit=limit, after_match=after_match)
        query = check(replace(query, skip_to=skip_to))
        assert parse(to_text(query), schema) == query
