"""``fastcep.spark.fit`` returns the model of `fastcep.fit`, on real Spark."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.detection import with_rows
from support.pieces import equal_flows

import fastcep as fc
import fastcep.spark
from fastcep import datasets
from fastcep.shedding.hybrid.model import HybridModel

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

V = {"ID": "int64", "V": "int64"}
DS1 = fc.Schema(dict.fromkeys("ABCD", V), time="ts", type="type", time_unit="us")
QUERIES = {
    "Q1": "SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 2ms",
    "kleene": "SEQ(A a, B+ k[], C c) WHERE a.ID = k[i].ID AND a.ID = c.ID AND k[i].V = a.V WITHIN 1ms",
    "count": "SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V WITHIN 150 EVENTS",
    "neg": "SEQ(A a, B b, NEG C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V = b.V WITHIN 500us",
}


@pytest.fixture(scope="module")
def ds1() -> pa.Table:
    return with_rows(datasets.ds1(events=40_000, seed=5))


@pytest.fixture(scope="module")
def frame(spark: Any, ds1: pa.Table) -> Any:
    return spark.createDataFrame(ds1).repartition(3, "V").cache()


def assert_equal(one: fc.Model, other: fc.Model) -> None:
    """Compare classes and tables, with numbers up to rounding."""
    first, second = HybridModel.of(one), HybridModel.of(other)
    assert one.parts.keys() == other.parts.keys()
    assert equal_flows(first.flow, second.flow)
    for name, table in one.parts.items():
        assert table.schema == other.parts[name].schema
        for column in table.column_names:
            left, right = table[column].to_pylist(), other.parts[name][column].to_pylist()
            assert left == (right if left == right else pytest.approx(right, rel=1e-9)), (name, column)
    assert one.query == other.query


@pytest.mark.parametrize("name", QUERIES)
def test_the_model_is_that_of_one_process(frame: Any, ds1: pa.Table, name: str) -> None:
    query = fc.parse(f"PATTERN {QUERIES[name]}", DS1, name=name)
    options: dict[str, Any] = {"cost_table": "paper"}
    if name == "count":
        options |= {"per": "leaf", "clusters": "gap", "slices": 3}
    expected = fc.fit(query, ds1, validate=False, **options)
    assert_equal(fastcep.spark.fit(query, frame, order_by="row", pieces=5, **options), expected)


def test_it_sheds(frame: Any, ds1: pa.Table, tmp_path: Path) -> None:
    query = fc.parse(f"PATTERN {QUERIES['Q1']}", DS1, name="Q1")
    model = fastcep.spark.fit(query, frame, order_by="row")
    model.save(tmp_path / "model")
    shedder = fc.shedding.Hybrid(fc.load_model(tmp_path / "model"))
    report = fc.evaluate(query, ds1, shedders=[lambda seed: shedder], bounds=["80%"])
    assert report.rows[0]["recall"] > 0.8


def test_explicit_windows_are_one_piece(frame: Any, ds1: pa.Table) -> None:
    text = "PATTERN SEQ(A a, B b) WHERE a.ID = b.ID AND a.V = b.V WINDOW OPEN EVERY 90 EVENTS CLOSE AFTER 1ms"
    query = fc.parse(text, DS1, name="opened")
    assert_equal(fastcep.spark.fit(query, frame, order_by="row"), fc.fit(query, ds1, validate=False))
    with pytest.raises(fc.ValidationError, match="pieces=4: history of query 'opened' cannot be cut: a window that"):
        fastcep.spark.fit(query, frame, order_by="row", pieces=4)


@pytest.mark.parametrize(
    "clauses",
    ["WITHIN 1ms", "WITHIN 120 EVENTS", "WITHIN 1ms STRATEGY skip_till_next",
     "WINDOW OPEN EVERY 90 EVENTS CLOSE AFTER 1ms"],
)  # fmt: skip
def test_models_of_pspice_are_those_of_one_process(frame: Any, ds1: pa.Table, clauses: str) -> None:
    query = fc.parse(f"PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND b.V <= c.V {clauses}", DS1, name="q")
    here = fc.fit(query, ds1, kind="pspice", bin=3, index="key")
    there = fastcep.spark.fit(query, frame, kind="pspice", order_by="row", pieces=5, bin=3, index="key")
    assert there.numbers["states"] == here.numbers["states"] and there.numbers["bin"] == here.numbers["bin"] == 3
    assert there.numbers["window"] == pytest.approx(here.numbers["window"], rel=1e-12)
    assert there.numbers["counted_window"] == here.numbers["counted_window"] > 1
    for part in ("children", "children_error"):
        assert there.parts[part].equals(here.parts[part])
    for part in ("utility", "transitions"):
        one, other = here.parts[part], there.parts[part]
        assert one.column_names == other.column_names and len(one) == len(other) > 0
        for name in one.column_names:
            expected = one[name].to_pylist()
            exact = isinstance(expected[0], str)
            assert other[name].to_pylist() == (expected if exact else pytest.approx(expected, rel=1e-9))
    fc.shedding.PSpice(there).check(query)
    with pytest.raises(fc.ValidationError, match="model 'pspice' has no option 'slices'"):
        fastcep.spark.fit(query, frame, kind="pspice", slices=2)


def test_pspice_for_several_queries_and_windows_of_any_length(frame: Any, ds1: pa.Table) -> None:
    """A stream that cannot be cut is one piece."""
    queries = [
        fc.parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WINDOW OPEN ON A o CLOSE ON D d", DS1, name="closing"),
        fc.parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms", DS1, name="timed"),
    ]
    here = fc.fit(queries, ds1, kind="pspice")
    there = fastcep.spark.fit(queries, frame, kind="pspice", order_by="row")
    for one, other in zip(here, there, strict=True):
        assert other.query.name == one.query.name and other.numbers["states"] == one.numbers["states"]
        assert other.numbers["window"] == pytest.approx(one.numbers["window"], rel=1e-12)
        assert other.parts["utility"]["time"].to_pylist() == pytest.approx(one.parts["utility"]["time"].to_pylist())
    with pytest.raises(fc.ValidationError, match="pieces=4: history of query 'closing' cannot be cut"):
        fastcep.spark.fit(queries[0], frame, kind="pspice", order_by="row", pieces=4)
    with pytest.raises(fc.ValidationError, match="fit: found 'timed', 'timed'; expected at least one query, each with"):
        fastcep.spark.fit([queries[1], queries[1]], frame)


@pytest.mark.parametrize(
    ("clauses", "pieces"),
    [("OPEN EVERY 90 EVENTS CLOSE AFTER 150 EVENTS", 5), ("OPEN ON D d CLOSE AFTER 1ms", 5),
     ("OPEN EVERY 700us CLOSE AFTER 1ms", 5), ("OPEN ON D d WHERE d.V = 1 CLOSE ON D e WHERE e.V = 2", None)],
)  # fmt: skip
def test_models_of_espice_are_those_of_one_process(
    frame: Any, ds1: pa.Table, clauses: str, pieces: int | None
) -> None:
    query = fc.parse(f"PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND c.V > 3 WINDOW {clauses}", DS1, name="q")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # type and position say little on DS1
        here = fc.fit(query, ds1, kind="espice", bin=3)
        there = fastcep.spark.fit(query, frame, kind="espice", order_by="row", pieces=pieces, bin=3)
    assert there.numbers == here.numbers and there.hash == here.hash
    fc.shedding.ESpice(there).check(query)
    if pieces is None:
        with pytest.raises(fc.ValidationError, match="pieces=4: history of query 'q' cannot be cut: CLOSE ON an event"):
            fastcep.spark.fit(query, frame, kind="espice", order_by="row", pieces=4)


def test_refusals(frame: Any, ds1: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    query = fc.parse(f"PATTERN {QUERIES['Q1']}", DS1)
    only = "kind='third': only models of the kinds"
    with monkeypatch.context() as patch, pytest.raises(fc.ValidationError, match=only):
        patch.setattr(import_module("fastcep.spark.fitting.fit"), "check_kind", lambda kind: None)
        fastcep.spark.fit(query, frame, kind="third")
    with pytest.raises(fc.ValidationError, match="kind='hybird': there is no model of that kind; did you mean"):
        fastcep.spark.fit(query, frame, kind="hybird")
    with pytest.raises(fc.ValidationError, match="model 'hybrid' has no option 'slicess'; did you mean 'slices'"):
        fastcep.spark.fit(query, frame, slicess=3)
    with pytest.raises(fc.ValidationError, match="slices=100; expected at most 64"):
        fastcep.spark.fit(query, frame, slices=100)
    with pytest.raises(fc.ValidationError, match="validate=True: a fit on Spark uses the whole history"):
        fastcep.spark.fit(query, frame, validate=True)
    with pytest.raises(fc.ValidationError, match="pieces=0: expected a whole number from 1 to 1024, or None"):
        fastcep.spark.fit(query, frame, pieces=0)
    for empty in (frame.limit(0), None):
        with pytest.raises(fc.ValidationError, match="query 'query' has no partial match in 0 events of history"):
            fc.fit(query, ds1.slice(0, 0)) if empty is None else fastcep.spark.fit(query, empty, order_by="row")
    never = fc.parse("PATTERN SEQ(A a, B b) WHERE a.V > 99 WITHIN 1ms", DS1)
    with pytest.raises(fc.ValidationError, match="has no partial match in 40,000 events of history"):
        fastcep.spark.fit(never, frame, order_by="row")
