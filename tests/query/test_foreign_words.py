"""Words of other languages: the error says what to write, and what it says works."""

from __future__ import annotations

import re

import pytest
import typer.testing

import fastcep as fc
from fastcep.cli.commands import app
from fastcep.errors import ParseError, ValidationError
from fastcep.query.foreign_words import _AT, _BEFORE

SCHEMA = fc.Schema({"A": {"v": "int64"}, "B": {"v": "int64"}}, time="t", type="type")
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
    ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A B))",
     "PATTERN SEQ(A a, B b) WHERE a.v = b.v WITHIN 5min RETURN a.v",
     "PATTERN SEQ(A a, B b) WHERE a.v = b.v WITHIN 5min RETURN a.v"),
    ("from every e1=A -> e2=B select e1.v insert into Out", "a query is written PATTERN SEQ(A a, B b)",
     "PATTERN SEQ(A a, B b) WHERE a.v = b.v WITHIN 5min RETURN a.v"),
]  # fmt: skip


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
    for _, hint in (*_AT, *_BEFORE):
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
