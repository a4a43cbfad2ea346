"""Models on disk: round trips, and rejection of damaged or wrong files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from reference.user_functions import own_registry
from support.shedding.markov_models import letters
from support.shedding.shed_runs import Q1, SCHEMA, query
from xxhash import xxh64

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.errors import ModelError, ValidationError
from fastcep.shedding.model import Model, check_folder, load_model

PARTS = {
    "members a": pa.table({"class": [0, 1], "values": [[0.1, float("nan")], None]}).replace_schema_metadata({"x": "y"}),
    'g."odd/../näme"': pa.table({"text": pa.array(["a", "b", "a"]).dictionary_encode(), "n": [2**62, None, -1]}),
    "empty": pa.table({"x": pa.array([], pa.float32())}),
    "Empty": pa.table({}),
}
PARAMETERS = {"clusters": 10, "per": "leaf", "percentile": 90.5, "of": [1, None, True, "ä"]}
NUMBERS = {"rate": 0.1 + 0.2, "large": 2**60, "by": {"a": {"b": []}}}


def hashed(data: str | bytes) -> str:
    return xxh64(data if isinstance(data, bytes) else data.encode()).hexdigest()


def model(**other: Any) -> Model:
    given: dict[str, Any] = {"kind": "hybrid", "query": query(), "parameters": PARAMETERS, "numbers": NUMBERS}
    return Model(**given | {"parts": PARTS} | other)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model().save(tmp_path / "m")
    return tmp_path / "m"


def manifest(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest and update its checksum."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text("utf-8"))
    content.pop("xxh64")
    change(content)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    path.write_text(json.dumps(content | {"xxh64": hashed(text)}), "utf-8")


# ------------------------------------------------------------------------------------------------------- there and back


def test_a_round_trip_is_exact(saved: Path) -> None:
    found = load_model(str(saved))
    assert (found.kind, found.query, found.query.schema) == ("hybrid", query(), SCHEMA)
    assert (found.parameters, found.numbers, list(found.parts)) == (PARAMETERS, NUMBERS, list(PARTS))
    for name, part in PARTS.items():
        assert found.parts[name].schema.equals(part.schema, check_metadata=True)
        assert str(found.parts[name].to_pylist()) == str(part.to_pylist())
    found.check(query())


def test_the_manifest_says_what_it_is(saved: Path) -> None:
    content = json.loads((saved / "manifest.json").read_text("utf-8"))
    assert (content["format"], content["version"], content["kind"]) == ("fastcep-model", 1, "hybrid")
    assert content["query"]["text"] == fc.to_text(query())
    assert content["schema"]["text"].startswith("STREAM TIME 'ts' UNIT us TYPE 'type'\nEVENT A (ID int64, V int64)")
    for name in ("query", "schema"):
        assert content[name]["xxh64"] == hashed(content[name]["text"])
    files = {part["file"]: part["xxh64"] for part in content["parts"].values()}
    assert {path.name for path in saved.iterdir()} == {"manifest.json", *files}
    assert all(hashed((saved / file).read_bytes()) == found for file, found in files.items())
    assert content["parts"]["members a"]["file"] == "00-members-a.arrow"


def test_a_schema_with_everything(tmp_path: Path) -> None:
    document = fc.parse_document(
        "STREAM TIME 0 FORMAT '%Y' ZONE 'Europe/Berlin' TYPE 2 SEQUENCE 1 NO HEADER OTHER TYPES IGNORE\n"
        "EVENT \"or\" = 5 (\"an d\" string FROM 7, x float64 FROM 3)\nEVENT B = -1 (x float64 FROM 4)\n"
        'QUERY "q 1" PATTERN SEQ("or" a, B b) WHERE a.x < b.x AND a."an d" = \'it\'\'s\' WITHIN 5 EVENTS WEIGHT 2 '
        "RETURN a.x AS y"
    )  # fmt: skip
    (own,) = document.queries
    model(query=own).save(tmp_path / "m")
    found = load_model(tmp_path / "m").query
    assert found == own and found.schema == own.schema and found.weight == 2


def test_functions_must_be_defined(tmp_path: Path) -> None:
    with own_registry():

        @fc.function("float64(float64)")
        def halved(x: float) -> float:
            return x / 2

        model(query=query("PATTERN SEQ(A a, B b) WHERE halved(a.V) = b.V WITHIN 2ms")).save(tmp_path / "m")
        assert "halved" in fc.to_text(load_model(tmp_path / "m").query)
    with pytest.raises(ModelError, match=r"cannot parse; if it uses your own functions.*halved"):
        load_model(tmp_path / "m")


# ---------------------------------------------------------------------------------------------------------------- check


def test_another_query_or_schema_is_refused() -> None:
    own = model()
    own.check(query(name="another name"))
    with pytest.raises(ModelError, match=r"(?s)model 'hybrid' is for query 'q1', not for 'q2'; fit one .*WITHIN 2ms"):
        own.check(query(Q1.replace("2ms", "3ms"), "q2"))
    other = fc.Schema(
        {name: {"ID": "int64", "V": "float64"} for name in "ABCD"}, time="ts", type="type", time_unit="us"
    )
    with pytest.raises(ModelError, match=r"not for query 'q1', whose schema differs: A\.V is float64, expected int64"):
        own.check(fc.parse(Q1, other, name="q1"))


# -------------------------------------------------------------------------------------------------------------- writing


def test_a_model_replaces_a_model(saved: Path) -> None:
    model(parts={"one": PARTS["empty"]}).save(saved)
    assert list(load_model(saved).parts) == ["one"] and len(list(saved.iterdir())) == 2
    assert [path.name for path in saved.parent.iterdir()] == ["m"]


def test_an_empty_folder_and_a_link_are_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    model().save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and load_model(tmp_path / "empty").numbers == NUMBERS


@pytest.mark.parametrize("strange", ["notes.txt", "manifest.json", ""])
def test_what_is_no_model_is_not_replaced(tmp_path: Path, strange: str) -> None:
    target = tmp_path / "t"
    if strange:
        target.mkdir()
    (target / strange).write_text("{}")
    for write in (model().save, check_folder):
        with pytest.raises(ModelError, match=r"exists and is not a model|is a file; a model is a folder"):
            write(target)
    assert (target / strange).read_text() == "{}" and [path.name for path in tmp_path.iterdir()] == ["t"]


def test_a_model_with_other_files_is_not_replaced(saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    for write in (model().save, check_folder):
        with pytest.raises(ModelError, match=r"has a model and 'notes\.txt', which is not one of its files"):
            write(saved)
    assert (saved / "notes.txt").read_text() == "mine" and load_model(saved).numbers == NUMBERS


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for write in (model().save, check_folder):
        with pytest.raises(ValidationError, match=r"there is no folder '.*nowhere'; create it first"):
            write(tmp_path / "nowhere" / "m")
        with pytest.raises(ValidationError, match=r"cannot write '.*file/m': '.*file' is no folder"):
            write(tmp_path / "file" / "m")
        with pytest.raises(ValidationError, match=r"cannot write '.*x': File name too long"):
            write(tmp_path / ("x" * 300))
        with pytest.raises(ModelError, match=r"'/' exists and is not a model"):
            write("/")


def test_folders_that_will_be_made(tmp_path: Path) -> None:
    check_folder(tmp_path / "a" / "b" / "m", parents=True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(ValidationError, match=r"cannot write '.*m': '.*file' is no folder"):
        check_folder(tmp_path / "file" / "b" / "m", parents=True)


def test_permission_to_write_is_looked_at(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for refused, target in ((saved, saved), (saved.parent, saved), (saved.parent, saved.parent / "n" / "m")):
        monkeypatch.setattr(os, "access", lambda path, _, refused=refused: Path(path) != refused)
        with pytest.raises(ValidationError, match=rf"cannot write '{target}': the folder '{refused}' is not writable"):
            check_folder(target, parents=True)


def test_the_old_model_stays_if_the_new_one_cannot_be_put(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if target == saved and (self / "01-two.arrow").exists():
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(ValidationError, match=r"cannot write .*No space left on device; free space"):
        model(parts={"one": PARTS["empty"], "two": PARTS["empty"]}).save(saved)
    assert list(load_model(saved).parts) == list(PARTS)
    assert [path.name for path in saved.parent.iterdir()] == ["m"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", "\ud800", (1, 2), {1: 2}])
def test_only_what_json_holds_is_written(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ValidationError, match=r"model 'hybrid' has parameters or numbers that JSON .*; give"):
        model(numbers={"x": value}).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_there_are_kinds() -> None:
    with pytest.raises(ValidationError, match=r"no model of kind 'hybird'; did you mean 'hybrid'\?"):
        model(kind="hybird")


# --------------------------------------------------------------------------------------------------------------- damage


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"'.*/x' does not exist; give the folder of a model, or fit one"):
        load_model(tmp_path / "x")
    (tmp_path / "y").write_text("")
    with pytest.raises(ModelError, match="is no folder"):
        load_model(tmp_path / "y")
    (tmp_path / "z").mkdir()
    with pytest.raises(ModelError, match=r"'.*/z' has no model: there is no file 'manifest\.json' in it; copy"):
        load_model(tmp_path / "z")
    (tmp_path / "z" / "manifest.json").mkdir()
    with pytest.raises(ModelError, match=r"manifest\.json' cannot be read: Is a directory"):
        load_model(tmp_path / "z")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", r"manifest\.json' is damaged: it is not JSON"),
        (b"\xff\xfe\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is not of a model"),
        (b'{"format": "other"}', "is not of a model"),
        (b'{"format": "fastcep-model"}', "is written in version None of the format, expected 1"),
        (b'{"format": "fastcep-model", "version": 1, "x": NaN}', "was altered: found the checksum"),
    ],
)
def test_a_manifest_that_is_none(saved: Path, text: bytes, message: str) -> None:
    (saved / "manifest.json").write_bytes(text)
    with pytest.raises(ModelError, match=message):
        load_model(saved)


KEYS = ("format", "version", "kind", "query", "schema", "parameters", "numbers", "parts")


@pytest.mark.parametrize("key", KEYS)
def test_every_part_of_a_manifest_is_looked_at(saved: Path, key: str) -> None:
    path = saved / "manifest.json"
    text = path.read_text("utf-8")
    assert set(json.loads(text)) == {*KEYS, "fastcep", "xxh64"}
    for value in (None, 3, "x", [1], {"x": 1}, {"x": {"file": 1}}, {"text": 5}):
        path.write_text(text, "utf-8")
        manifest(saved, lambda content, value=value: content.update({key: value}))  # type: ignore[misc]
        if key in ("parameters", "numbers") and isinstance(value, dict):
            assert getattr(load_model(saved), key) == value
            continue
        with pytest.raises(ModelError, match=r"manifest\.json|kind"):
            load_model(saved)
    path.write_text(text, "utf-8")
    manifest(saved, lambda content: content.pop(key))
    with pytest.raises(ModelError, match=r"manifest\.json"):
        load_model(saved)


def test_what_was_altered_is_refused(saved: Path) -> None:
    path = saved / "manifest.json"
    path.write_text(path.read_text("utf-8").replace("90.5", "90.6"), "utf-8")
    with pytest.raises(ModelError, match=r"manifest\.json' was altered: found the checksum \w+, expected \w+; copy"):
        load_model(saved)


@pytest.mark.parametrize("name", list(PARTS))
def test_a_part_that_is_damaged(saved: Path, name: str) -> None:
    file = saved / json.loads((saved / "manifest.json").read_text("utf-8"))["parts"][name]["file"]
    data = file.read_bytes()
    for wrong in (data[:-1], data + b"x", data[:20] + bytes([data[20] ^ 1]) + data[21:], b""):
        file.write_bytes(wrong)
        with pytest.raises(ModelError, match=r"was altered: found the checksum \w+ of '.*\.arrow', expected \w+; copy"):
            load_model(saved)
    file.unlink()
    with pytest.raises(ModelError, match=r"is missing: there is no file '.*\.arrow'; copy the folder again, or fit"):
        load_model(saved)


def test_a_part_that_was_written_wrong(saved: Path) -> None:
    (saved / "00-x.arrow").write_bytes(b"no Arrow")
    listed = {"file": "00-x.arrow", "xxh64": hashed(b"no Arrow")}
    manifest(saved, lambda content: content.update(parts={"x": listed}))
    with pytest.raises(ModelError, match=r"x\.arrow': part 'x' cannot be read: .* so it was written like this"):
        load_model(saved)


@pytest.mark.parametrize("file", ["../x.arrow", "/etc/passwd", "a/../b", "..", "", "manifest.json", None, 5])
def test_parts_are_in_the_folder(saved: Path, file: str) -> None:
    manifest(saved, lambda content: content["parts"]["empty"].update(file=file))
    with pytest.raises(ModelError, match=r"parts\['empty'.*\.file: found .* expected the name of a file of the"):
        load_model(saved)


def test_a_kind_or_version_of_the_future(saved: Path) -> None:
    manifest(saved, lambda content: content.update(kind="quantum", fastcep="9.0"))
    with pytest.raises(ModelError, match=r"kind 'quantum'; fastcep .* knows only .*; use fastcep 9\.0"):
        load_model(saved)
    manifest(saved, lambda content: content.update(version=2))
    with pytest.raises(ModelError, match=r"version 2 of the format, expected 1; use fastcep 9\.0, which wrote it"):
        load_model(saved)


def test_a_query_that_is_none_any_more(saved: Path) -> None:
    manifest(saved, lambda content: content["query"].update(text="QUERY q1 PATTERN SEQ(A a, Z z) WITHIN 2ms"))
    with pytest.raises(ModelError, match=r"manifest\.json' has a query that this fastcep cannot parse.*Z"):
        load_model(saved)
    manifest(saved, lambda content: content["schema"].update(text=""))
    with pytest.raises(ModelError, match="cannot parse"):
        load_model(saved)


@pytest.mark.parametrize("kind", ["hybrid", "pspice"])
def test_a_model_does_not_depend_on_what_is_returned(kind: str) -> None:
    """An engine with ``attributes=True`` returns more than the query for which the model was fitted."""
    schema = fc.Schema({name: {"ID": "int64", "V": "int64"} for name in "ABCD"}, time="ts", type="type", time_unit="us")
    pair = fc.parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID AND a.V = b.V WITHIN 2ms", schema, name="q")
    events = ds1(events=3_000, seed=1)
    model = fc.fit(pair, events, kind=kind, **({"validate": False} if kind == "hybrid" else {}))
    engine = fc.Engine(pair, attributes=True, latency_bound="1h", shedder=kind, model=model)
    assert "a.V" in engine.process(events).to_arrow().column_names


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["hybrid", "pspice", "espice"])
def test_rows_of_ignored_types_have_no_effect_on_a_fit(kind: str) -> None:
    types = {name: {"ID": "int64", "V": "int64"} for name in "ABC"}
    schema = fc.Schema(types, time="ts", type="type", time_unit="us", other_types="ignore")
    window = "WINDOW OPEN EVERY 30 EVENTS CLOSE AFTER 30 EVENTS" if kind == "espice" else "WITHIN 400us"
    query = fc.parse(f"PATTERN SEQ(A a, B b, C c) WHERE a.V <= b.V {window}", schema)
    history = letters(types="ABCZZ")
    declared = history.filter(pc.not_equal(history["type"], "Z"))
    assert len(declared) < len(history)
    assert fc.fit(query, history, kind=kind).hash == fc.fit(query, declared, kind=kind).hash
