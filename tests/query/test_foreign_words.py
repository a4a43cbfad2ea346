"""Words of other languages: the error says what to write, and what it says works."""

from __future__ import annotations

import re

import pytest
import typer.testing

import fastcep as fc
from fastcep.cli.commands import app
from fastcep.errors import ParseError, ValidationError
from fastcep.query.parsing.foreign_words import _AROUND, _AT, _FUNCTIONS, _IN_CLAUSES, _IN_PATTERN

SCHEMA = fc.Schema({"A": {"v": "int64", "s": "string"}, "B": {"v": "int64"}}, time="t", type="type")
END = " WITHIN 5min"
# What a user writes, what the error recommends, and the query that the recommendation gives.
CASES = [
    ("MEASURES a.v PATTERN SEQ(A a)" + END, "RETURN a.v AS name", "PATTERN SEQ(A a) WITHIN 5min RETURN a.v AS name"),
    ("PATTERN SEQ(A a) WITHIN 5min MEASURES a.v AS w", "RETURN a.v AS name",
     "PATTERN SEQ(A a) WITHIN 5min RETURN a.v AS name"),
    ("PATTERN SEQ(A a, B b) DEFINE b AS b.v > a.v" + END, "WHERE a.v > 1 AND b.v > a.v",
     "PATTERN SEQ(A a, B b) WHERE a.v > 1 AND b.v > a.v" + END),
    ("PATTERN A followedBy B" + END, "SEQ(A a, B b)", "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN A -> B" + END, "SEQ(A a, B b)", "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN A a -> B b" + END, "a sequence is written SEQ(A a, B b)", "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN e1=A -> e2=B" + END, "a sequence is written SEQ(A a, B b)", "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN SEQ(A a followedByAny B b)" + END, "SEQ(A a, B b)", "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN SEQ(A a -> B b)" + END, "SEQ(A a, B b)", "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN every A a -> B b" + END, "leave out EVERY; a sequence is written SEQ(A a, B b)",
     "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN SEQ(every A a, B b)" + END, "leave out EVERY", "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN SEQ(A+ a[]) WHERE a.last.v > 1" + END, "write a[last].v",
     "PATTERN SEQ(A+ a[]) WHERE a[last].v > 1" + END),
    ("PATTERN SEQ(A+ a[]) WHERE a.first.v > 1" + END, "write a[first].v",
     "PATTERN SEQ(A+ a[]) WHERE a[first].v > 1" + END),
    ("PATTERN SEQ(A+ a[]) WHERE LAST(a.v) > 1" + END, "write a[last].v",
     "PATTERN SEQ(A+ a[]) WHERE a[last].v > 1" + END),
    ("PATTERN SEQ(A+ a[]) WHERE COUNT(*) > 1" + END, "COUNT(a[])", "PATTERN SEQ(A+ a[]) WHERE COUNT(a[]) > 1" + END),
    ("PATTERN SEQ(A+ a[]) WITHIN 5min HAVING COUNT(a[]) > 2", "WHERE COUNT(a[]) > 2",
     "PATTERN SEQ(A+ a[]) WHERE COUNT(a[]) > 2" + END),
    ("# comment\nPATTERN SEQ(A a)" + END, "a comment starts with --", "-- comment\nPATTERN SEQ(A a)" + END),
    ("PATTERN SEQ(A a) # comment\n" + END, "a comment starts with --", "PATTERN SEQ(A a) -- comment\n" + END),
    ("// comment\nPATTERN SEQ(A a)" + END, "a comment starts with --", "-- comment\nPATTERN SEQ(A a)" + END),
    ("/* c */ PATTERN SEQ(A a)" + END, "a comment starts with --", "-- c\nPATTERN SEQ(A a)" + END),
    ("PATTERN SEQ(A a) WITHIN 1h30min", "write 90min", "PATTERN SEQ(A a) WITHIN 90min"),
    ("PATTERN SEQ(A a) WITHIN 1 h 30 min 5 s", "write 5405s", "PATTERN SEQ(A a) WITHIN 5405s"),
    ("PATTERN SEQ(A a, B b) WHERE b.time - a.time < 1m30s" + END, "write 90s",
     "PATTERN SEQ(A a, B b) WHERE b.time - a.time < 90s" + END),
    ("PATTERN SEQ(A a) WITHIN 5 minutes", "write 5min", "PATTERN SEQ(A a) WITHIN 5min"),
    ("PATTERN SEQ(A a) WITHIN 2 hours", "write 2h", "PATTERN SEQ(A a) WITHIN 2h"),
    ("PATTERN SEQ(A a) WITHIN 1.5 hrs", "write 1.5h", "PATTERN SEQ(A a) WITHIN 1.5h"),
    ("PATTERN SEQ(A a) WITHIN 2 weeks", "write 14d", "PATTERN SEQ(A a) WITHIN 14d"),
    ("PATTERN SEQ(A a) ONE ROW PER MATCH" + END, "RETURN a.v, b.v",
     "PATTERN SEQ(A a, B b) WITHIN 5min RETURN a.v, b.v"),
    ("PATTERN SEQ(A a) ORDER BY t" + END, "leave it out", "PATTERN SEQ(A a)" + END),
    ("PATTERN SEQ(A a, B b) WHERE a.v > 1 && b.v > 1" + END, "write AND",
     "PATTERN SEQ(A a, B b) WHERE a.v > 1 AND b.v > 1" + END),
    ("PATTERN SEQ(A a, B b) WHERE a.v > 1 || b.v > 1" + END, "write OR",
     "PATTERN SEQ(A a, B b) WHERE a.v > 1 OR b.v > 1" + END),
    # Flink CEP
    ('begin("a").next("b")', "PATTERN SEQ(A a, B b) WHERE a.v = b.v WITHIN 5min RETURN a.v",
     "PATTERN SEQ(A a, B b) WHERE a.v = b.v WITHIN 5min RETURN a.v"),
    ("PATTERN SEQ(A a, B b).within(5min)", "a query is written PATTERN SEQ(A a, B b)",
     "PATTERN SEQ(A a, B b) WHERE a.v = b.v WITHIN 5min RETURN a.v"),
    ("PATTERN SEQ(A a, notFollowedBy B n, B b)" + END, "NEG N n", "PATTERN SEQ(A a, NEG B n, B b)" + END),
    ("PATTERN SEQ(A a, notNext B n, B b)" + END, "NEG N n", "PATTERN SEQ(A a, NEG B n, B b)" + END),
    ("PATTERN SEQ(A a oneOrMore)" + END, "A+ a[]", "PATTERN SEQ(A+ a[])" + END),
    ("PATTERN SEQ(oneOrMore(A a))" + END, "A+ a[]", "PATTERN SEQ(A+ a[])" + END),
    ("PATTERN SEQ(A a times(5))" + END, "A{5} a[]", "PATTERN SEQ(A{5} a[])" + END),
    ("PATTERN SEQ(timesOrMore(2) A a)" + END, "A{2,} a[]", "PATTERN SEQ(A{2,} a[])" + END),
    ("PATTERN SEQ(A a optional, B b)" + END, "A? a", "PATTERN SEQ(A? a, B b)" + END),
    ("PATTERN SEQ(optional A a, B b)" + END, "A? a", "PATTERN SEQ(A? a, B b)" + END),
    ("PATTERN SEQ(A+ a[] greedy, B b)" + END, "write SELECT longest with STRATEGY skip_till_next",
     f"PATTERN SEQ(A+ a[], B b){END} STRATEGY skip_till_next SELECT longest"),
    ("PATTERN SEQ(A+ a[] allowCombinations, B b)" + END, "remove it", "PATTERN SEQ(A+ a[], B b)" + END),
    (f"PATTERN SEQ(A a, B b){END} keyBy v", "PARTITION BY v", f"PATTERN SEQ(A a, B b){END} PARTITION BY v"),
    # MATCH_RECOGNIZE
    ("PATTERN (A B)" + END, "SEQ(A a, B b)", "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN SEQ(A a, B*? b[])" + END, "remove the ?", "PATTERN SEQ(A a, B* b[])" + END),
    ("PATTERN PERMUTE(A a, B b)" + END, "AND(A a, B b)", "PATTERN AND(A a, B b)" + END),
    ("PATTERN SEQ(A x, PERMUTE(A a, B b))" + END, "AND(A a, B b)", "PATTERN SEQ(A x, AND(A a, B b))" + END),
    ("PATTERN SEQ(A x, A a | B b)" + END, "OR(A a, B b)", "PATTERN SEQ(A x, OR(A a, B b))" + END),
    ("PATTERN SEQ(^ A a, B b)" + END, "WHERE a.seq = 0", "PATTERN SEQ(A a, B b) WHERE a.seq = 0" + END),
    ("PATTERN SEQ(A a, B b $)" + END, "remove it", "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN SEQ({- A a -}, B b)" + END, "remove {- and -}", "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN SEQ(A a, B b) SUBSET u = (a, b)" + END, "(A|B) x", "PATTERN SEQ((A|B)+ x[])" + END),
    ("PATTERN SEQ(A+ a[]) WHERE RUNNING SUM(a.v) < 9" + END, "SUM(a[..i].v)",
     "PATTERN SEQ(A+ a[]) WHERE SUM(a[..i].v) < 9" + END),
    (f"PATTERN SEQ(A+ a[]){END} RETURN FINAL LAST(a.v)", "a[last].v", f"PATTERN SEQ(A+ a[]){END} RETURN a[last].v"),
    (f"PATTERN SEQ(A+ a[]){END} RETURN COUNT(a.*)", "COUNT(a[])", f"PATTERN SEQ(A+ a[]){END} RETURN COUNT(a[])"),
    ("PATTERN SEQ(A a) WITHIN INTERVAL '5' MINUTE", "write 5min", "PATTERN SEQ(A a) WITHIN 5min"),
    ("PATTERN SEQ(A a) WITHIN INTERVAL 5 s", "write 5s", "PATTERN SEQ(A a) WITHIN 5s"),
    ("PATTERN SEQ(A a) WHERE a.v MOD 3 = 1" + END, "a.v % 3", "PATTERN SEQ(A a) WHERE a.v % 3 = 1" + END),
    # Siddhi
    ("define stream A (v long);", "EVENT A (v int64)", "PATTERN SEQ(A a)" + END),
    ("partition with (v of A) begin from A select v insert into B end;", "PARTITION BY v",
     f"PATTERN SEQ(A a){END} PARTITION BY v"),
    ("@info(name = 'q') from A select v insert into B", "a query is written", "PATTERN SEQ(A a)" + END),
    (f"PATTERN SEQ(A a){END} output every 5 events", "leave it out", "PATTERN SEQ(A a)" + END),
    ("PATTERN SEQ(a=A, B b)" + END, "as in A a", "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN SEQ(A[v == 3] a)" + END, "WHERE a.v = 3", "PATTERN SEQ(A a) WHERE a.v = 3" + END),
    ("PATTERN SEQ(A(v = 3) a)" + END, "WHERE a.v = 3", "PATTERN SEQ(A a) WHERE a.v = 3" + END),
    ("PATTERN SEQ(A<2:5> a)" + END, "A{2,5} a[]", "PATTERN SEQ(A{2,5} a[])" + END),
    ("PATTERN SEQ(A a, NEG B b FOR 5 sec)" + END, "write 5s", "PATTERN SEQ(A a, NEG B b FOR 5s)" + END),
    ("PATTERN SEQ(A a, ~B n, B b)" + END, "NEG N n", "PATTERN SEQ(A a, NEG B n, B b)" + END),
    # Esper
    ("PATTERN [every a=A -> b=B]", "SEQ(A a, B b)", "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN SEQ([5] A a)" + END, "A{5} a[]", "PATTERN SEQ(A{5} a[])" + END),
    ("PATTERN every-distinct(a.v) a=A" + END, "SEQ(NEG A n, A a) WHERE n.v = a.v",
     "PATTERN SEQ(NEG A n, A a) WHERE n.v = a.v" + END),
    ("PATTERN SEQ(every-distinct(a.v) A a)" + END, "SEQ(NEG A n, A a) WHERE n.v = a.v",
     "PATTERN SEQ(NEG A n, A a) WHERE n.v = a.v" + END),
    ("PATTERN SEQ(A a, until B b)" + END, "A+ a[] UNTIL B b", "PATTERN SEQ(A+ a[] UNTIL B b)" + END),
    ("PATTERN SEQ(A a, B b) WHERE timer:within(5 min)", "WITHIN 5min", "PATTERN SEQ(A a, B b)" + END),
    ("PATTERN SEQ(A a, timer:within(5 min))", "WITHIN 5min", "PATTERN SEQ(A a)" + END),
    ("PATTERN SEQ(A a, timer:interval(5 sec))" + END, "NEG N n FOR 5s", "PATTERN SEQ(A a, NEG B n FOR 5s)" + END),
    ("PATTERN SEQ(A+ a[]) WHERE a.size() > 2" + END, "COUNT(a[])", "PATTERN SEQ(A+ a[]) WHERE COUNT(a[]) > 2" + END),
    ("PATTERN SEQ(A a) WHERE a.s.startsWith('x')" + END, "write starts_with(a.s, 'x')",
     "PATTERN SEQ(A a) WHERE starts_with(a.s, 'x') OR ends_with(a.s, 'x') OR contains(a.s, 'x')" + END),
    ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A B))",
     "PATTERN SEQ(A a, B b) WHERE a.v = b.v WITHIN 5min RETURN a.v",
     "PATTERN SEQ(A a, B b) WHERE a.v = b.v WITHIN 5min RETURN a.v"),
    ("from every e1=A -> e2=B select e1.v insert into Out", "a query is written PATTERN SEQ(A a, B b)",
     "PATTERN SEQ(A a, B b) WHERE a.v = b.v WITHIN 5min RETURN a.v"),
]  # fmt: skip


# Conditions with functions of other languages, and what the error recommends.
FUNCTIONS = [
    ("LAG(a.v) < 3", "a[i-1].v < 3"), ("LEAD(a.v) < 3", "a[i+1].v < 3"),
    ("NEXT(a.v) < 3", "a[i+1].v < 3"), ("FIRST(a.v, 1) < 3", "a[1].v < 3"), ("LAST(a.v, 1) < 3", "a[last-1].v < 3"),
    ("CLASSIFIER() = 'A'", ""), ("MATCH_NUMBER() = 1", ""), ("nvl(b.v, 0) = 1", "coalesce(b.v, 0) = 1"),
    ("ifnull(b.v, 0) = 1", "coalesce(b.v, 0) = 1"),
    ("IF(b.v > 1, 2, 3) = 2", "CASE WHEN b.v > 1 THEN 2 ELSE 3 END = 2"),
    ("ifThenElse(b.v > 1, 2, 3) = 2", "CASE WHEN b.v > 1 THEN 2 ELSE 3 END = 2"),
    ("skip_till_next(a, b)", "STRATEGY skip_till_next"), ("skip_till_any(a, b)", "STRATEGY skip_till_any"),
    ("strict_contiguity(a, b)", "STRATEGY strict_contiguity"),
    ("partition_contiguity(a, b)", "PARTITION BY v STRATEGY partition_contiguity"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "remedied"), FUNCTIONS)
def test_a_recommendation_for_a_function_works(condition: str, remedied: str) -> None:
    pattern = "PATTERN SEQ(A+ a[], B b)"
    with pytest.raises(ParseError) as caught:
        fc.parse(f"{pattern} WHERE {condition}{END}", SCHEMA)
    recommended = remedied.removesuffix(" = 2").removesuffix(" = 1").removesuffix(" < 3")
    assert recommended.replace("b.v", "a.v") in str(caught.value).splitlines()[0]
    is_clause = not remedied or "STRATEGY" in remedied
    fc.parse(f"{pattern}{END} {remedied}" if is_clause else f"{pattern} WHERE {remedied}{END}", SCHEMA)


def test_every_function_has_a_case() -> None:
    assert {condition.partition("(")[0].lower() for condition, _ in FUNCTIONS} == set(_FUNCTIONS)


@pytest.mark.parametrize(("text", "recommended", "remedied"), CASES)
def test_a_recommendation_works(text: str, recommended: str, remedied: str) -> None:
    with pytest.raises(ParseError) as caught:
        fc.parse(text, SCHEMA)
    assert recommended in str(caught.value).splitlines()[0]
    fc.parse(remedied, SCHEMA)
    words = recommended.split("write ")[-1]
    if re.match(r"(SEQ|PATTERN|RETURN|WHERE|COUNT)\b|[a-z]+\[|\d", words):
        assert words in remedied


def test_every_hint_has_a_case() -> None:
    messages = []
    for text, _, _ in CASES:
        with pytest.raises(ParseError) as caught:
            fc.parse(text, SCHEMA)
        messages.append(str(caught.value))
    for *_, hint in (*_AT, *_IN_PATTERN, *_AROUND, *_IN_CLAUSES):
        assert any(hint in message for message in messages), hint


def test_swapped_arguments_of_parse() -> None:
    text = "PATTERN SEQ(A a) WITHIN 5min"
    with pytest.raises(ParseError, match=r"write fastcep.parse\(text, schema\)"):
        fc.parse(SCHEMA, text)  # type: ignore[arg-type]
    with pytest.raises(ParseError, match="the query is of type int, expected a text"):
        fc.parse(7, SCHEMA)  # type: ignore[arg-type]
    with pytest.raises(ParseError, match=r"the schema is of type dict, expected a fastcep.Schema"):
        fc.parse(text, {"A": {"v": "int64"}})  # type: ignore[arg-type]
    fc.parse(text, SCHEMA)


def test_swapped_arguments_of_run(tmp_path: pytest.TempPathFactory) -> None:
    events, queries = f"{tmp_path}/events.csv", f"{tmp_path}/query.cep"
    with open(events, "w", encoding="utf-8") as file:
        file.write("t,v\n1,2\n")
    with open(queries, "w", encoding="utf-8") as file:
        file.write("STREAM TIME 't' UNIT s EVENT A (v int64) QUERY q PATTERN SEQ(A a) WITHIN 5min")
    run = typer.testing.CliRunner()
    result = run.invoke(app, ["run", events, "--input", queries])
    assert result.exit_code == 2
    assert f"write it first, and the events after it: FILE.cep --input {events}" in result.output.replace("\n", "")
    assert run.invoke(app, ["run", queries, "--input", events]).exit_code == 0
    assert issubclass(ValidationError, fc.FastcepError)
