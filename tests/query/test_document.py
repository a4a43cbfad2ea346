"""``.cep`` documents: schema and queries."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastcep.errors import ParseError
from fastcep.events import Schema
from fastcep.query import document_text, parse, parse_document, parse_file

TRIPS = """\
-- trips
STREAM TIME 'starttime' FORMAT '%Y-%m-%d %H:%M:%S' ZONE 'America/New_York'   -- local
EVENT BikeTrip (bike int64 FROM 'bikeid', start int64 FROM 'start station id', end int64 FROM 'end station id')
QUERY hot_paths
PATTERN SEQ(BikeTrip{2,} a[], BikeTrip b) WHERE a[i+1].bike = a[i].bike AND a[i+1].start = a[i].end
  AND a[last].bike = b.bike WITHIN 1h
"""
EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "papers").glob("*.cep"))


def test_the_example_of_the_design() -> None:
    document = parse_document(TRIPS)
    assert document.schema == Schema(
        {"BikeTrip": {"bike": "int64", "start": "int64", "end": "int64"}},
        time="starttime",
        time_format="%Y-%m-%d %H:%M:%S",
        time_zone="America/New_York",
        sources={"BikeTrip": {"bike": "bikeid", "start": "start station id", "end": "end station id"}},
    )
    (query,) = document.queries
    assert query.name == "hot_paths"
    assert query.text is not None and query.text.startswith("QUERY hot_paths") and query.text.endswith("1h")
    assert query == parse(query.text, document.schema)


def test_codes_numbers_and_options() -> None:
    document = parse_document(
        "STREAM TIME 0 UNIT us TYPE 5 SEQUENCE 2 NO HEADER OTHER TYPES IGNORE\n"
        "EVENT Su = 0 (job int64 FROM 3, cpu float64 FROM 9)\n"
        "EVENT Sc = 1 (job int64 FROM 3)\n"
        "EVENT Ev = 2 ()\n"
        "QUERY one PATTERN SEQ(Su a, Sc b) WHERE [job] WITHIN 1h\n"
        "QUERY two PATTERN SEQ(Sc a) WITHIN 3 EVENTS"
    )
    assert document.schema == Schema(
        {"Su": {"job": "int64", "cpu": "float64"}, "Sc": {"job": "int64"}, "Ev": {}},
        time=0,
        type=5,
        sequence=2,
        time_unit="us",
        other_types="ignore",
        codes={"Su": 0, "Sc": 1, "Ev": 2},
        sources={"Su": {"job": 3, "cpu": 9}, "Sc": {"job": 3}},
        header=False,
    )
    assert [query.name for query in document.queries] == ["one", "two"]
    assert parse_document(document_text(document)) == document


def test_negative_codes() -> None:
    """A code can be any int64, as in the schema, so that the document in a snapshot can contain it."""
    codes = {"Down": -3, "Up": 3, "Lowest": -(2**63), "Highest": 2**63 - 1}
    document = parse_document(
        "STREAM TYPE 't'\n"
        "EVENT Down = -3 (x int64)\n"
        f"EVENT Up = 3 () EVENT Lowest = {-(2**63)} () EVENT Highest = {2**63 - 1} ()\n"
        "QUERY q PATTERN SEQ(Down a, Up b) WHERE a.x = -3 WITHIN 1ms"
    )
    assert document.schema == Schema({"Down": {"x": "int64"}, "Up": {}, "Lowest": {}, "Highest": {}}, type="t",
                                     codes=codes)  # fmt: skip
    text = document_text(document)
    assert "EVENT Down = -3 (" in text
    assert parse_document(text) == document


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    document = parse_file(path)
    assert [query.name for query in document.queries] == [path.stem]
    assert parse_document(document_text(document)) == document


def test_there_are_examples() -> None:
    names = {"cluster", "hot_paths", "hybrid_q1", "hybrid_q2", "hybrid_q3", "hybrid_q4"}
    assert {path.stem for path in EXAMPLES} >= names


Q = " QUERY q PATTERN SEQ(A a) WITHIN 1ms"


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("", "declares no events", ""),
        ("EVENT A ()", "has no query", ""),
        ("STREAM STREAM EVENT A ()" + Q, "STREAM is written twice", "STREAM"),
        ("STREAM TIME 'a' TIME 'b' EVENT A ()" + Q, "written twice", "TIME 'b'"),
        ("STREAM TIME 'a' UNIT sec EVENT A ()" + Q, "unknown UNIT 'sec'; expected ns, us, ms", "sec"),
        ("STREAM OTHER TYPES ignor EVENT A ()" + Q, "did you mean 'ignore'?", "ignor"),
        ("STREAM ZONE 'Mars/Base' EVENT A ()" + Q, "unknown time_zone 'Mars/Base'", "STREAM ZONE 'Mars/Base'"),
        ("STREAM NO HEADER EVENT A (x int64 FROM 0)" + Q, "give its number", "STREAM NO HEADER"),
        ("EVENT A () EVENT A ()" + Q, "'A' is declared twice", "A"),
        ("EVENT A () EVENT B ()" + Q, "add TYPE 'column'", "EVENT A ()"),
        ("STREAM TYPE 't' EVENT A = 1 () EVENT B ()" + Q, "B has no code", "B"),
        ("STREAM TYPE 't' EVENT A = 1 () EVENT B = 1 ()" + Q, "same code 1", "STREAM TYPE 't'"),
        ("STREAM TYPE 't' EVENT A = -1 () EVENT B = -1 ()" + Q, "same code -1", "STREAM TYPE 't'"),
        ("STREAM TYPE 't' EVENT A = - ()" + Q, "unexpected '('; expected a whole number", "("),
        ("EVENT A = 1 ()" + Q, "codes need a column", "EVENT A = 1 ()"),
        ("EVENT A (x int)" + Q, "unknown type 'int' of A.x; did you mean 'int64'?", "int"),
        ("EVENT A (x int64, x bool)" + Q, "declares 'x' twice", "x"),
        ("EVENT A (time int64)" + Q, "'time' is built in", "time"),
        ("EVENT A (x int64 FROM 'c', y bool FROM 'c')" + Q, "declare the same dtype",
         "EVENT A (x int64 FROM 'c', y bool FROM 'c')"),
        ("EVENT A ()" + Q + Q, "two queries are called 'q'", "q"),
        ("EVENT A () QUERY PATTERN SEQ(A a) WITHIN 1ms", "unexpected 'SEQ'; expected PATTERN", "SEQ"),
        ("EVENT A () PATTERN SEQ(A a) WITHIN 1ms", "unexpected keyword PATTERN", "PATTERN"),
    ],
)  # fmt: skip
def test_refused(text: str, message: str, marked: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_document(text, "x.cep")
    error = caught.value
    assert message in error.message
    assert error.line == 1 and error.column is not None
    assert text[error.column - 1 : error.column - 1 + error.length] == marked
    assert str(error).startswith("x.cep:1:")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "q.cep"
    path.write_bytes(b"\xef\xbb\xbf" + TRIPS.replace("\n", "\r\n").encode())
    assert parse_file(path) == parse_document(TRIPS)
    path.write_bytes(b"\xff")
    with pytest.raises(ParseError, match="not UTF-8"):
        parse_file(path)
