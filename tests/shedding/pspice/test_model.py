"""Models of pSPICE: exact values, bins and interpolation, storage, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Callable
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.shedding.markov_models import ABC, TABLE, fitted, letters
from support.shedding.shed_runs import query

import fastcep as fc
from fastcep.errors import ModelError, ValidationError
from fastcep.shedding import Model, PSpice
from fastcep.shedding.counts import matrix, mean_times, transition_counts
from fastcep.shedding.pspice.drop_order import scaled_utilities
from fastcep.shedding.pspice.fit import fit_pspice, model_of_counts
from fastcep.shedding.pspice.markov import completion_probability, remaining_time
from fastcep.shedding.pspice.model import PSpiceModel

NEXT = "PATTERN SEQ(A a, B b, C c) WITHIN 64 EVENTS STRATEGY skip_till_next"


def thirds(bin: int, window: int = 64) -> PSpiceModel:
    """Return a model whose states a, a b move on with probability 1/3; each step takes 5 ns for a and 6 ns for a b."""
    counts = transition_counts(query(NEXT), letters(), cost_table=TABLE)
    rows = [(-1, -1, 6, 6, 9, 0.0), (-1, 0, 3, 0, 0, 0.0), (0, 0, 200, 200, 300, 1000.0), (0, 1, 100, 0, 0, 500.0),
            (1, 1, 200, 200, 300, 1200.0), (1, -3, 100, 0, 0, 600.0)]  # fmt: skip
    source, target, observations, stayed, met, time = zip(*rows, strict=True)
    names = ["" for _ in rows]
    columns: list[Any] = [
        pa.array(source, pa.int32()), pa.array(target, pa.int32()), names, names, observations, stayed, met, time,
    ]  # fmt: skip
    table = pa.table(columns, schema=counts.schema)
    return PSpiceModel.of_counts(query(NEXT), table, bin, window // bin, window, {"bin": bin})


# ---------------------------------------------------------------- exact values


@pytest.mark.parametrize(
    ("remaining", "expected"), [(0, (0, 0)), (1, (0, 1 / 3)), (2, (1 / 9, 5 / 9)), (5, (131 / 243, 211 / 243))]
)
def test_exact_probabilities(remaining: int, expected: tuple[float, float]) -> None:
    probability, time = thirds(1).at([remaining])
    assert probability[0, :2] == pytest.approx(expected, abs=1e-12)
    if remaining == 2:  # a step of 5 ns, then one of 5 or 6 ns
        assert time[0, :2] == pytest.approx([5 + 2 / 3 * 5 + 1 / 3 * 6, 6 + 2 / 3 * 6])


def test_probabilities_are_binomial_tails() -> None:
    """ALGORITHMS: after 50 events, 0.99999996 and 1 - 1.6e-9."""
    probability, _ = thirds(1).at([50])
    for missing in (1, 2):
        tail = sum(comb(50, hits) * 2 ** (50 - hits) for hits in range(missing)) / 3**50
        assert 1 - probability[0, 2 - missing] == pytest.approx(tail, abs=1e-12)
    assert 1 - probability[0, 1] == pytest.approx(1.6e-9, rel=0.05)


def test_of_both_strategies() -> None:
    """Tables are those of the chain; under skip_till_any they are expected numbers."""
    for text in (ABC, NEXT):
        model = fitted(text, bin=3)
        steps, times = matrix(model.counts), mean_times(model.counts)
        remaining = np.arange(len(model.probability)) * 3
        states = slice(1, 1 + len(model.states))
        assert (model.probability == completion_probability(steps, remaining)[:, states]).all()
        assert (model.time == remaining_time(steps, times, remaining)[:, states]).all()
    assert fitted(ABC).probability.max() > 1 >= fitted(NEXT).probability.max()


# --------------------------------------------------------- bins, interpolation


@pytest.mark.parametrize("bin", [1, 4, 7, 32])
def test_probability_and_time_are_interpolated_apart(bin: int) -> None:
    """Not their quotient: with few remaining events, both are near 0 and their quotient is far from it."""
    model = thirds(bin)
    exact = thirds(1)
    remaining = np.array([0, bin / 4, bin / 2, bin, 1.5 * bin])
    probability, time = model.at(remaining)
    low, high = exact.at([0])[0], exact.at([bin])[0]
    assert probability[[0, 3]] == pytest.approx(np.concatenate([low, high]))
    assert probability[1] == pytest.approx((3 * low[0] + high[0]) / 4)
    assert probability[2] == pytest.approx((low[0] + high[0]) / 2)
    assert time[2] == pytest.approx(exact.at([bin])[1][0] / 2)
    assert probability[4] == pytest.approx((exact.at([bin])[0][0] + exact.at([2 * bin])[0][0]) / 2)
    (utility,) = scaled_utilities([model], [1.0], [remaining[1:]], by_time=True)
    assert utility[1, 0] == pytest.approx(utility[1, 1]) == pytest.approx(utility[1, 2])  # both are proportional to n


def test_beyond_the_last_row_its_values_are_used() -> None:
    model = thirds(4, 16)
    assert len(model.probability) == 5
    for place in (16, 17, 1e9, np.inf):
        assert [table[0].tolist() for table in model.at([place])] == [
            model.probability[-1].tolist(),
            model.time[-1].tolist(),
        ]
    assert model.at([-3.0])[0].tolist() == model.at([0.0])[0].tolist()


def test_a_single_row() -> None:
    single = dataclasses.replace(thirds(4), probability=np.ones((1, 2)), time=np.ones((1, 2)))
    assert single.at([0, 3, 100])[0].tolist() == [[1, 1]] * 3


def test_weights_and_scales() -> None:
    """Utility = weight * P / tau, both scaled by their maximum over all queries; tau at least 1e-6."""
    cheap, dear = (
        thirds(1),
        dataclasses.replace(thirds(1), probability=thirds(1).probability / 2, time=thirds(1).time * 4),
    )
    remaining = [np.array([20.0, 0.0])] * 2
    first, second = scaled_utilities([cheap, dear], [1.0, 3.0], remaining, by_time=True)
    probability, time = (table[:, :2] for table in cheap.at(remaining[0]))  # without the match itself
    first, second = first[:2], second[:2]
    most, longest = cheap.probability.max(), dear.time.max()
    assert first[:, 0] == pytest.approx(probability[0] / most / (time[0] / longest))
    assert second[:, 0] == pytest.approx(3 / 2 / 4 * first[:, 0])
    assert not first[:, 1].any()  # no event remains
    alone = scaled_utilities([cheap, dear], [1.0, 3.0], remaining, by_time=False)
    assert alone[0][:2, 0] == pytest.approx(probability[0] / most)
    assert alone[1][:, 0] == pytest.approx(3 / 2 * alone[0][:, 0])
    free = dataclasses.replace(cheap, time=cheap.time * 1e-9)
    floored, _ = scaled_utilities([free, dear], [1.0, 1.0], remaining, by_time=True)
    assert floored[:2, 0] == pytest.approx(probability[0] / most / 1e-6)


def test_the_size_of_the_tables() -> None:
    """By default 1/256 of the mean window a row, up to twice the mean window."""
    assert fitted(ABC).bin == 1 and fitted(ABC).probability.shape == (81, len(fitted(ABC).states))
    longer = fit_pspice(
        query("PATTERN SEQ(A a, B b) WHERE a.V = b.V WITHIN 1000 EVENTS STRATEGY skip_till_next"), letters()
    )
    assert (longer.bin, longer.window) == (4, 1000) and len(longer.probability) == 501
    assert fitted(ABC, bin=7).probability.shape[0] == 1 + -(-80 // 7)


# -------------------------------------------------------------------- storage


@pytest.mark.parametrize("text", [ABC, NEXT, "PATTERN SEQ(A a, B b) WINDOW OPEN ON D d CLOSE AFTER 300us"])
def test_round_trip(text: str, tmp_path: Path) -> None:
    model = fitted(text)
    model.stored().save(tmp_path / "model")
    again = PSpiceModel.of(fc.load_model(tmp_path / "model"))
    for name in ("query", "states", "bin", "window", "parameters"):
        assert getattr(again, name) == getattr(model, name)
    assert (again.probability == model.probability).all() and (again.time == model.time).all()
    assert again.counts.equals(model.counts, check_metadata=True)
    assert again.children is not None and model.children is not None
    assert (again.children.per_event == model.children.per_event).all()
    assert again.stored().hash == model.stored().hash
    assert repr(PSpice(tmp_path / "model")) == "PSpice(q1; seed=0)"
    assert (again.chain().children == model.chain().children).all()


def test_fit_by_kind() -> None:
    model = fc.fit(query(ABC), letters(), kind="pspice", cost_table=TABLE)
    assert model.kind == "pspice" and model.hash == fitted(ABC).stored().hash
    with pytest.raises(ValidationError, match="model 'pspice' has no option 'bins'; did you mean"):
        fc.fit(query(ABC), letters(), kind="pspice", bins=3)


def replaced(part: str, column: str, values: Callable[[Any], Any]) -> Callable[[Model], Model]:
    def change(model: Model) -> Model:
        table = model.parts[part]
        place = table.column_names.index(column)
        new = pa.array(values(table[column].to_pylist()), table.schema.field(place).type)
        table = table.set_column(place, table.schema.field(place), new)
        return dataclasses.replace(model, parts=model.parts | {part: table})

    return change


def part(name: str, change: Callable[[pa.Table], pa.Table]) -> Callable[[Model], Model]:
    return lambda model: dataclasses.replace(model, parts=model.parts | {name: change(model.parts[name])})


def numbers(**changed: Any) -> Callable[[Model], Model]:
    return lambda model: dataclasses.replace(model, numbers=model.numbers | changed)


def first(value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [value, *values[1:]]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda model: dataclasses.replace(model, parts={}), "no table 'utility'"),
        (lambda model: dataclasses.replace(model, parts={"utility": model.parts["utility"]}), "no table 'transitions'"),
        (lambda model: dataclasses.replace(model, numbers={}), "numbers.bin: found nothing"),
        (numbers(bin=0), "numbers.bin: found 0"), (numbers(bin=2), "utility.remaining: found other rows"),
        (numbers(bin=1.0), "numbers.bin"), (numbers(window=0.0), "numbers.window: found 0.0"),
        (numbers(window=-1.0), "numbers.window"), (numbers(window=float("nan")), "numbers.window"),
        (numbers(window="5"), "numbers.window"), (numbers(states=[]), "utility: found no rows"),
        (numbers(states=["x"]), "utility.remaining"), (numbers(states="ab"), "numbers.states"),
        (numbers(states=["a", "x", "y"]), "utility.state: found other states"),
        (part("utility", lambda table: table.slice(1)), "utility.remaining"),
        (part("utility", lambda table: table.slice(0, 0)), "utility: found no rows"),
        (part("utility", lambda table: table.drop_columns(["time"])), "no table 'utility'"),
        (part("utility", lambda table: table.append_column("time", table["time"])), "no table 'utility'"),
        (part("transitions", lambda table: table.drop_columns(["time"])), "no table 'transitions'"),
        (part("transitions", lambda table: table.replace_schema_metadata(None)), "transitions: found other metadata"),
        (part("transitions", lambda table: table.slice(0, 0)), "transitions: found no event"),
        (replaced("utility", "state", first(1)), "utility.state: found other states"),
        (replaced("utility", "state_name", first("x")), "utility.state: found other states"),
        (replaced("utility", "remaining", first(1)), "utility.remaining"),
        (replaced("utility", "probability", first(float("nan"))), "negative or not finite"),
        (replaced("utility", "probability", first(None)), "negative or not finite"),
        (replaced("utility", "time", first(-1.0)), "negative or not finite"),
        (replaced("utility", "time", first(float("inf"))), "negative or not finite"),
        (replaced("transitions", "source", first(9)), "an unknown state"),
        (replaced("transitions", "source", first(-2)), "an unknown state"),
        (replaced("transitions", "target", first(-4)), "an unknown state"),
        (replaced("transitions", "observations", first(-1)), "out of range"),
        (replaced("transitions", "stayed", first(1 << 40)), "out of range"),
        (replaced("transitions", "stayed", first(None)), "transitions: found nulls"),
        (replaced("transitions", "time", first(float("nan"))), "out of range"),
        (replaced("transitions", "time", first(-1.0)), "out of range"),
        (numbers(counted_window=-1.0), "numbers.counted_window"),
        (part("children_error", lambda table: table.select([0, 1])), "no table 'children_error'"),
        (part("children", lambda table: table.drop_columns(["slice"])), "no table 'children'"),
        (replaced("children", "parent", first(-2)), "children: found a state or slice that is out of range"),
        (replaced("children", "child", first(7)), "children: found a state or slice that is out of range"),
        (replaced("children", "slice", first(64)), "children: found a state or slice that is out of range"),
        (replaced("children", "slice", first(None)), "children: found nulls"),
        (replaced("children", "per_event", first(0.0)), "children: found a number that is not above 0"),
        (replaced("children_error", "error", first(float("inf"))), "children_error: found a number that is not"),
        (part("children", lambda table: pa.concat_tables([table, table])), "children: found the same states and slice"),
    ],
)  # fmt: skip
def test_a_malformed_part_is_refused(change: Callable[[Model], Model], problem: str) -> None:
    with pytest.raises(ModelError, match=f"model 'pspice' of query 'q1' is malformed: .*{problem}.*; fit a new one"):
        PSpice(change(fitted(ABC).stored()))


@pytest.mark.parametrize("key", ["states", "strategy", "stream"])
@pytest.mark.parametrize("value", [None, "x", 5, {}])
def test_other_metadata_of_the_counts_are_refused(key: str, value: Any) -> None:
    model = fitted(ABC).stored()
    counts = model.parts["transitions"]
    ((name, text),) = counts.schema.metadata.items()
    counts = counts.replace_schema_metadata({name: json.dumps(json.loads(text) | {key: value})})
    with pytest.raises(ModelError, match="is malformed: transitions"):
        PSpice(dataclasses.replace(model, parts=model.parts | {"transitions": counts}))


def test_a_model_of_another_kind_is_refused() -> None:
    other = dataclasses.replace(fitted(ABC).stored(), kind="hybrid")
    with pytest.raises(ModelError, match=r"a model of kind 'hybrid', expected 'pspice': fit one with fastcep.fit\("):
        PSpice(other)


# -------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("text", "clause"),
    [("SEQ(A a, B b) WITHIN UNBOUNDED", "WITHIN UNBOUNDED"),
     ("SEQ(A a, B b) WITHIN 9 EVENTS SELECT last", "SELECT last"),
     ("SEQ(A a, B b) WITHIN 9 EVENTS STRATEGY strict_contiguity", "STRATEGY strict_contiguity"),
     ("SEQ(A a, B b) WITHIN 9 EVENTS CONSUME consumed", "CONSUME consumed"),
     ("SEQ(A a, B b) WITHIN 9 EVENTS AFTER MATCH SKIP PAST LAST", "AFTER MATCH SKIP PAST LAST"),
     ("SEQ(A a, B b) WINDOW OPEN ON D d CLOSE AFTER 9 EVENTS LIMIT 2 PER WINDOW", "LIMIT 2 PER WINDOW"),
     ("PERIODIC(A a, 5us, B b) WITHIN 90us", "PERIODIC"), ("SEQ(A a, NEG B b) WITHIN 90us", "NEG at the end")],
)  # fmt: skip
def test_unsupported_clauses_are_refused_by_name(text: str, clause: str) -> None:
    with pytest.raises(ValidationError, match=f"query 'q1' has {clause}"):
        fit_pspice(query(f"PATTERN {text}"), letters().slice(0, 500))


@pytest.mark.parametrize("types", ["", "BCD", "D"])
def test_a_history_without_a_partial_match_is_refused(types: str) -> None:
    events = letters(300, types=types) if types else letters().slice(0, 0)
    with pytest.raises(ValidationError, match="the history has no partial match of query 'q1'; give more history"):
        fit_pspice(query(ABC), events)


@pytest.mark.parametrize("bin", [0, -1, 1.5, "2", True, np.int64(0)])
def test_a_wrong_bin_is_refused_before_the_history_is_read(bin: Any) -> None:
    with pytest.raises(ValidationError, match=r"fit: bin=.*; expected a whole number, at least 1"):
        fit_pspice(query(ABC), None, bin=bin)


@pytest.mark.parametrize("types", ["ABD", "ACD"])
def test_a_history_without_matches_gives_utilities_of_0(types: str) -> None:
    model = fit_pspice(query(ABC), letters(400, types=types), cost_table=TABLE)
    assert not model.probability.any()
    assert not scaled_utilities([model], [1.0], [np.array([20.0])], by_time=True)[0].any()


def test_numbers_of_matches_beyond_all_bounds_are_finite() -> None:
    text = "PATTERN SEQ(A a, B+ b[], C c) WITHIN 14 EVENTS"
    counts = transition_counts(query(text), letters(1000), cost_table=TABLE)
    model = PSpiceModel.of_counts(query(text), counts, 1000, 60, 14, {})
    assert model.probability.max() == 1e300 and np.isfinite(model.time).all()
    assert all(np.isfinite(table).all() for table in model.at(np.linspace(0, 70_000, 99)))
    for by_time in (True, False):
        (utility,) = scaled_utilities([model], [1.0], [np.linspace(0, 60_000, 9)], by_time=by_time)
        assert np.isfinite(utility).all()


def test_the_longest_windows() -> None:
    longest = query("PATTERN SEQ(A a, B b, C c) WITHIN 9000000000000000000 EVENTS")
    model = model_of_counts(longest, transition_counts(longest, letters(60), cost_table=TABLE), None)
    assert model.window == 9e18 and np.isfinite(model.time).all() and model.probability[1:, 0].all()


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["pspice", "espice"])
def test_a_history_that_can_be_read_only_once(kind: str) -> None:
    text = "PATTERN SEQ(A a, B b) WINDOW OPEN ON D d CLOSE AFTER {} EVENTS"
    queries = [query(text.format(size), f"q{size}") for size in (20, 30)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # type and position say little
        expected = fc.fit(queries, letters(), kind=kind)
        for item in (queries, queries[0]):
            reader = pa.RecordBatchReader.from_batches(letters().schema, letters().to_batches(max_chunksize=1_000))
            found = fc.fit(item, reader, kind=kind)
            models = found if isinstance(found, list) else [found]
            assert [model.hash for model in models] == [model.hash for model in expected[: len(models)]]
