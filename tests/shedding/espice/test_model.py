"""Models of eSPICE: utilities by hand, windows of other sizes, storage, and what is refused."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import harness
from support.shedding import positional
from support.shedding.shed_runs import SCHEMA as DS1

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.errors import ModelError, ValidationError
from fastcep.shedding import ESpice, Model
from fastcep.shedding.auto.trial import try_models
from fastcep.shedding.counts import position_counts
from fastcep.shedding.espice.fit import fit_espice
from fastcep.shedding.espice.information import mutual_information
from fastcep.shedding.espice.model import ESpiceModel
from fastcep.shedding.refit.result import FitJob

SCHEMA = fc.Schema({name: {"k": "int64"} for name in "ABCO"}, time="ts", type="type", time_unit="ns")
FOUR = "WINDOW OPEN ON O o CLOSE AFTER 4 EVENTS"


def small(pattern: str = f"SEQ(A a, B b) {FOUR}", text: str = "O A B B O A A B O B B A", **options: Any) -> ESpiceModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return fit_espice(
            fc.parse(f"PATTERN {pattern}", SCHEMA, name="q"), harness.batch(SCHEMA, harness.stream(SCHEMA, text)),
            **options,
        )  # fmt: skip


def test_utilities_by_hand() -> None:
    """Windows O A B B, O A A B and O B B A, with two matches, two and none."""
    model = small()
    assert (model.positions, model.bin, model.windows) == (4, 1, 3)
    third = 1 / 3
    assert model.events * 3 == pytest.approx(np.array([[0, 2, 1, 1], [0, 1, 2, 2], [0] * 4, [0] * 4]))
    assert model.matched * 3 == pytest.approx(np.array([[0, 3, 1, 0], [0, 0, 1, 3], [0] * 4, [0] * 4]))
    # matches per event: A 3/2, 1, 0 and B 0, 1/2, 3/2; of both types 1 and 4/5 where they never were
    assert model.rate[0] == pytest.approx([1, 1.5, 1, 0]) and model.rate[1] == pytest.approx([4 / 5, 0, 0.5, 1.5])
    assert model.utility()[:2].tolist() == [[67, 100, 67, 0], [53, 0, 33, 100]]
    # by the paper, the counts relative to the largest
    assert model.utility(literal=True)[:2].tolist() == [[0, 100, 33, 0], [0, 0, 33, 100]]
    assert model.events.sum() == pytest.approx(9 * third)


def test_events_that_nothing_can_bind_are_left_out() -> None:
    pattern = f"SEQ(A a, B b) WHERE a.k > 0 AND b.k >= a.k {FOUR}"
    events = {"type": list("OAAB") * 2, "ts": range(8), "k": [0, 0, 1, 1, 0, 1, 0, 1]}
    query = fc.parse(f"PATTERN {pattern}", SCHEMA, name="q")
    counts = position_counts(query, pa.table({name: list(values) for name, values in events.items()}), bindable=True)
    assert [tuple(row.values()) for row in counts.to_pylist()] == [("A", 1, 1, 1), ("A", 2, 1, 1), ("B", 3, 2, 2)]


def test_a_match_never_rounds_to_no_utility() -> None:
    """B is in one of 300 windows followed by A, and C in each."""
    text = " ".join(["O C A N".replace("N", "C")] * 300 + ["O B A C"])
    model = small(f"OR(SEQ(C c, A a), SEQ(B b, A x)) {FOUR}", text)
    utility = model.utility(literal=True)
    assert utility[1, 1] == 1 and utility.max() == 100


def test_negated_types_are_most_useful() -> None:
    model = small(f"SEQ(A a, NEG C c, B b) {FOUR}", "O A C B O A B B")
    assert model.utility()[2].tolist() == [100] * 4 == model.utility(literal=True)[2].tolist()
    assert model.negated.tolist() == [False, False, True, False]


def test_windows_of_other_sizes() -> None:
    """Half the size: a bin has the mean of two cells. Twice the size: two bins share one."""
    model = small()
    half, double = model.cells(2), model.cells(8)
    assert (half.bin, double.bin) == (1, 2) and double.rate == pytest.approx(model.rate)
    assert double.events == pytest.approx(2 * model.events) and double.utility.tolist() == model.utility().tolist()
    assert half.events == pytest.approx((model.events[:, ::2] + model.events[:, 1::2]) / 2)
    assert half.rate[0] == pytest.approx([3 / 2, 1 / 2]) and half.rate[1] == pytest.approx([0, 4 / 4])
    literal = model.cells(2, literal=True)
    assert literal.utility[:2].tolist() == [[50, 17], [0, 67]]
    uneven = model.cells(3)
    assert uneven.events.sum() == pytest.approx(model.events.sum() * 3 / 4)


def test_n_is_the_mean_size_of_windows() -> None:
    """Windows O A B O and O A A B B O, the second of which is scaled by 5/6, the first by 5/4."""
    model = small("SEQ(A a, B b) WINDOW OPEN ON O o CLOSE ON O c", "O A B O A A B B O")
    assert model.windows == 3 and model.positions == round((4 + 6 + 1) / 3)
    model = small("SEQ(A a, B b) WINDOW OPEN ON O o CLOSE ON O c", "O A B O A A B B O", positions=5, bin=2)
    assert (model.positions, model.bin, model.bins) == (5, 2, 3)
    assert dict(model.parameters) == {"bin": 2, "positions": 5, "equal_costs": False}
    # of the first: A at (2 * 1 + 1) * 5 / 8, B at 25/8; of the second: A at 15/12 and 25/12, B at 35/12 and 45/12
    assert model.events[:2] == pytest.approx(np.array([[2, 1, 0], [0, 3, 0]]) / 3)


def test_the_models_of_the_history_are_stored(tmp_path: Path) -> None:
    stored = positional.model()
    stored.save(tmp_path / "model")
    read = fc.load_model(tmp_path / "model")
    assert read.hash == stored.hash and read.kind == "espice"
    one, other = ESpiceModel.of(stored), ESpiceModel.of(read)
    assert np.array_equal(one.utility(), other.utility()) and one.information == other.information > 0.5
    assert stored.numbers["positions"] == positional.WINDOW and stored.numbers["bin"] == 4
    assert repr(ESpice(read)) == "ESpice(q; f=0.8, seed=0)"


# ----------------------------------------------------------------- information


def test_information() -> None:
    """Matches from cells of their own: 1 bit. From all cells alike: none, less chance."""
    assert mutual_information(np.array([1e6, 1.0]), np.array([0.0, 1e6])) == pytest.approx(1, abs=1e-3)
    assert mutual_information(np.array([500.0, 500.0]), np.array([50.0, 50.0])) == 0
    half = mutual_information(np.array([1e6, 1e6]), np.array([1e6, 0.0]))
    middle = 0.75 * np.log2(4 / 3) + 0.25 * 2
    assert half == pytest.approx(middle - 1 / 2, abs=1e-3)
    assert mutual_information(np.zeros(2), np.zeros(2)) == 0


def test_a_fit_warns_if_type_and_position_say_nothing() -> None:
    window = "WINDOW OPEN EVERY 100 EVENTS CLOSE AFTER 100 EVENTS"
    query = fc.parse(f"PATTERN AND(A a, B b) WHERE a.k = b.k {window}", SCHEMA)
    rng, n = np.random.default_rng(1), 20_000
    events = pa.table({"type": rng.choice(list("ABC"), n), "ts": np.arange(n), "k": rng.integers(0, 9, n)})
    with pytest.warns(UserWarning, match=r"almost nothing .* \(mutual information 0\.00\d bits, at least 0\.02"):
        fc.fit(query, events, kind="espice")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fc.fit(positional.query(), positional.early(300, 1), kind="espice")


THREE = (
    "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V "
    "WINDOW OPEN EVERY 500 EVENTS CLOSE AFTER 500 EVENTS"
)


def test_a_fit_logs_the_information_of_type_and_position(caplog: pytest.LogCaptureFixture) -> None:
    """On DS1 it is small: the first type of a sequence is matched early in a window, and the last one late."""
    with caplog.at_level("INFO", "fastcep.shedding"):
        model = fc.fit(fc.parse(THREE, DS1, name="three"), ds1(events=20_000, seed=1), kind="espice")
    assert 0.05 < model.numbers["information"] < 0.2
    expected = f"query 'three': type and position of an event have {model.numbers['information']:.3f} of 1 bit"
    assert sum(expected in text for text in caplog.messages) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("demand", [0.3, 0.6])
def test_auto_does_not_take_a_model_that_knows_little(demand: float) -> None:
    """On DS1 values decide about matches."""
    query = fc.parse(THREE, DS1, name="three")
    job = FitJob([query], ds1(events=20_000, seed=1), {}, fc.CostTable.named("measured"), "full", 0, demand)
    model = try_models(job)["three"].model
    assert model is not None and model.kind == "hybrid"


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("clauses", "options", "error"),
    [
        ("WITHIN 9 EVENTS", {}, "query 'q' has WITHIN 9 EVENTS, under which an event has no position"),
        (FOUR, {"bin": 0}, "fit: bin=0; expected a whole number, at least 1"),
        (FOUR, {"positions": 1.5}, r"fit: positions=1\.5; expected a whole number"),
        (FOUR, {"bins": 3}, "model 'espice' has no option 'bins'; did you mean 'bin'"),
        (f"{FOUR} STRATEGY strict_contiguity", {}, "the history has no match of query 'q'; give more history"),
    ],
)
def test_refused_fits(clauses: str, options: dict[str, Any], error: str) -> None:
    query = fc.parse(f"PATTERN SEQ(A a, B b) {clauses}", SCHEMA, name="q")
    with pytest.raises(ValidationError, match=error):
        fc.fit(query, harness.batch(SCHEMA, harness.stream(SCHEMA, "O A C B")), kind="espice", **options)


def changed(column: str, *values: Any) -> Any:
    """Return a change of the first rows of a column of the counts."""

    def change(model: Model) -> Model:
        counts = model.parts["positions"]
        new = [*values, *counts[column].to_pylist()[len(values) :]]
        number = counts.column_names.index(column)
        return dataclasses.replace(
            model, parts={"positions": counts.set_column(number, column, pa.array(new, counts[column].type))}
        )

    return change


def with_numbers(**numbers: Any) -> Any:
    return lambda model: dataclasses.replace(model, numbers=model.numbers | numbers)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (changed("type", "X"), "positions.type: found an unknown type"),
        (changed("type", None), "nulls"),
        (changed("position", 99), "out of range"),
        (changed("position", -1), "out of range"),
        (changed("events", 0), "out of range"),
        (changed("matched", -1), "out of range"),
        (changed("matched", *[0] * 6), "no match"),
        (with_numbers(bin=2), r"positions: found bins of 1"),
        (with_numbers(windows=0), "numbers.windows"),
        (with_numbers(positions=1 << 40), "at most"),
        (lambda model: dataclasses.replace(model, parts={}), "no table 'positions'"),
        (
            lambda model: dataclasses.replace(
                model, parts={"positions": model.parts["positions"].replace_schema_metadata(None)}
            ),
            "other metadata",
        ),
    ],
)
def test_malformed_models(change: Any, error: str) -> None:
    with pytest.raises(ModelError, match=f"model 'espice' of query 'q' is malformed: .*{error}.*; fit a new one"):
        ESpice(change(small().stored()))


def test_models_of_another_kind() -> None:
    with pytest.raises(ModelError, match="a model of kind 'hybrid', expected 'espice'"):
        ESpice(dataclasses.replace(small().stored(), kind="hybrid"))
