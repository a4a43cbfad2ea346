import pickle

import pytest

from fastcep.errors import SchemaError
from fastcep.events import Column, Schema

TYPES = {"A": {"ID": "int64", "V": "float64"}, "B": {"ID": "int64", "name": "string"}}


def test_types_that_read_the_same_source_share_a_column():
    schema = Schema(TYPES, type="type")
    assert schema.type_names == ("A", "B")
    assert schema.columns == (Column("ID", "int64"), Column("V", "float64"), Column("name", "string"))
    assert schema.column_of("A", "ID") == schema.column_of("B", "ID") == 0
    assert schema.column_of("B", "name") == 2
    assert dict(schema.attributes("A")) == TYPES["A"]
    assert schema.type_id("B") == 1


def test_sources_rename_columns():
    schema = Schema({"Trip": {"bike": "int64", "kind": "string"}}, sources={"Trip": {"bike": "bikeid", "kind": "type"}})
    assert schema.columns == (Column("bikeid", "int64"), Column("type", "string"))


def test_equal_by_content_and_picklable():
    def make(**options):
        return Schema(TYPES, type="type", codes={"B": 1, "A": 0}, sources={"A": {"V": "v"}}, **options)

    schema = make()
    assert schema == make() and hash(schema) == hash(make())
    assert schema == eval(repr(schema), {"Schema": Schema})
    copy = pickle.loads(pickle.dumps(schema))
    assert copy == schema and hash(copy) == hash(schema) and copy.columns == schema.columns
    assert schema != make(time_unit="us") and schema != make(sequence="n") and schema != "schema"
    assert Schema(TYPES, type="type") != Schema(dict(reversed(TYPES.items())), type="type")
    assert Schema({"A": {"x": "int64"}}, sources={"A": {"x": "x"}}) == Schema({"A": {"x": "int64"}})


def test_immutable():
    types = {"A": {"x": "int64"}}
    schema = Schema(types)
    types["A"]["y"] = "int64"
    assert list(schema.attributes("A")) == ["x"]
    with pytest.raises(AttributeError, match="immutable"):
        schema.time = "t"
    with pytest.raises(AttributeError, match="immutable"):
        del schema.time
    with pytest.raises(TypeError):
        schema.attributes("A")["z"] = "int64"


def test_handles_call_the_registered_factory(monkeypatch):
    schema = Schema({**TYPES, "odd name": {}}, type="type")
    monkeypatch.setattr(Schema, "_variable_factory", None)
    with pytest.raises(RuntimeError, match=r"fastcep\.query"):
        schema.A("a")
    monkeypatch.setattr(Schema, "_variable_factory", lambda *arguments: arguments)
    assert schema.A("a") == (schema, "A", "a")
    assert schema["odd name"]("o") == (schema, "odd name", "o")
    with pytest.raises(AttributeError, match="did you mean 'A'"):
        schema.a  # noqa: B018
    with pytest.raises(SchemaError, match="no event type 'C'"):
        schema["C"]


def test_headerless():
    schema = Schema({"A": {"x": "int64"}}, time=0, type=1, sources={"A": {"x": 2}}, header=False)
    assert schema.columns == (Column(2, "int64"),)
    for wrong in ({"time": "ts"}, {"type": "type"}, {"sequence": "n"}, {"sources": {}}):
        options = {"time": 0, "type": 1, "sources": {"A": {"x": 2}}, **wrong}
        with pytest.raises(SchemaError, match="give its number"):
            Schema({"A": {"x": "int64"}}, header=False, **options)


@pytest.mark.parametrize(
    ("types", "options", "message"),
    [
        ({}, {}, "the event types are {}; expected a mapping of at least one"),
        (TYPES, {}, "no type column"),
        ({"A": {"x": "int"}}, {}, "did you mean 'int64'"),
        ({"A": {"time": "int64"}}, {}, "built-in"),
        ({"A": {"": "int64"}}, {}, "not a name"),
        ({"": {}}, {}, "not a name"),
        ({"A": ["x"]}, {}, "expected its attributes, as in"),
        ({"A": {"x": "int64"}, "B": {"x": "float64"}}, {"type": "t"}, "'x' is int64 for A.x but float64 for B.x"),
        (TYPES, {"type": "t", "time_unit": "sec"}, "time_unit"),
        (TYPES, {"type": "t", "other_types": "skip"}, "ignore"),
        (TYPES, {"type": "t", "time": -1}, "column of time"),
        (TYPES, {"type": "t", "sequence": True}, "column of sequence"),
        (TYPES, {"type": "t", "sources": {"C": {}}}, "undeclared event type 'C'"),
        (TYPES, {"type": "t", "sources": {"A": {"id": "x"}}}, "did you mean 'ID'"),
        (TYPES, {"type": "t", "codes": {"A": 0}}, "'B' has no code"),
        (TYPES, {"type": "t", "codes": {"A": 0, "B": 0}}, "same code"),
        (TYPES, {"type": "t", "codes": {"A": 0, "B": 2**63}}, "int64"),
        (TYPES, {"type": "t", "codes": {"A": 0, "B": 1, "C": 2}}, "undeclared"),
        ({"A": {}}, {"codes": {"A": 0}}, "no type column"),
        ({"A": {}}, {"time_zone": "Mars/Olympus"}, "unknown time_zone"),
        ({"A": {}}, {"time_format": ""}, "strptime"),
    ],
)
def test_wrong_schema(types, options, message):
    with pytest.raises(SchemaError, match=message):
        Schema(types, **options)


def test_unknown_attribute():
    with pytest.raises(SchemaError, match="did you mean 'name'"):
        Schema(TYPES, type="t").column_of("B", "nam")
