"""A user's shedder or detector may return anything: invalid values raise an error that names the field."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shedding.shed_runs import query

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.errors import ValidationError
from fastcep.query import ast
from fastcep.shedding import Classes, Detector, DetectorReading, DropPlan, Load, MatchRate, QueryView, Shedder

STREAM = ds1(events=600, seed=3)


class Always(Detector):
    """Demands a half."""

    name = "always"

    def read(self, load: Load) -> DetectorReading:
        return DetectorReading(0.0, amount=0.5, why="test")

    def spec(self) -> dict[str, Any]:
        return {}


class Broken(Shedder):
    """Returns the given drop plans; without any it is valid."""

    name, drops_matches = "broken", True

    def __init__(self, drop_plans: Any = None, **fields: Any) -> None:
        self.drop_plans, self.fields = drop_plans, fields

    def detector(self, of: str) -> Detector:
        return Always()

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Any:
        if self.drop_plans is not None:
            return self.drop_plans
        return [DropPlan(**self.right(view) | self.fields) for view in views]

    def right(self, view: QueryView) -> dict[str, Any]:
        return {"births": np.full((len(view.plan.states), view.classes), 0.5), "kept": 0.25}

    def spec(self) -> Any:
        return {"name": self.name}


def engine(shedder: Any, detector: Any = None) -> fc.Engine:
    return fc.Engine(query(), clock="virtual", cost_table="paper", latency_bound=4, shedder=shedder, detector=detector)


def run(shedder: Any, detector: Any = None) -> fc.Engine:
    live = engine(shedder, detector)
    live.process(STREAM)
    return live


def refused(words: str, shedder: Any, detector: Any = None) -> None:
    with pytest.raises(ValidationError) as caught:
        run(shedder, detector)
    assert type(shedder if detector is None else detector).__name__ in str(caught.value)
    assert words in str(caught.value)


def test_valid_drop_plans_are_applied() -> None:
    assert run(Broken()).metrics()["shedding"]["dropped_partial_matches"] > 0


NO_SHARES = [float("nan"), float("inf"), -0.1, 1.1, "0.5", np.array([0.5]), [0.5], 1j]
NO_TABLES = [
    0.5, [0.5], "all", np.zeros(0), np.zeros((1, 1, 1, 1)), np.zeros((2, 7)), np.array(0.5), {"a": 1.0},
    np.zeros((4, 4), np.int64), np.zeros((4, 4), np.float32), np.array([["a"]]), np.zeros((2, 1), bool),
]  # fmt: skip


@pytest.mark.parametrize("field", ["events", "binds", "windows", "births", "drops"])
@pytest.mark.parametrize("value", NO_TABLES, ids=repr)
def test_tables_of_another_shape_or_type(field: str, value: Any) -> None:
    refused(f"decide(), query 'q1', {field}: found ", Broken(**{field: value}))


@pytest.mark.parametrize("field", ["events", "binds", "births", "drops"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.1])
def test_probabilities_out_of_range(field: str, value: float) -> None:
    class Own(Broken):
        def right(self, view: QueryView) -> dict[str, Any]:
            states, types = len(view.plan.states), len(view.plan.type_variables)
            shapes = {
                "events": (types,), "binds": (len(view.plan.negated), view.event_classes),
                "births": (states, view.classes), "drops": (states, view.classes, view.slices),
            }  # fmt: skip
            table = np.full(shapes[field], 0.5)
            table.reshape(-1)[-1] = value
            return {field: table}

    refused(f"decide(), query 'q1', {field}: found the probability {value}, expected probabilities from 0 to 1", Own())


@pytest.mark.parametrize("field", ["kept", "left", "saved", "counts", "demand_without_limit"])
@pytest.mark.parametrize("value", NO_SHARES, ids=repr)
def test_shares(field: str, value: Any) -> None:
    refused(f"decide(), query 'q1', {field}: found ", Broken(**{field: value}))


@pytest.mark.parametrize(
    ("field", "value"),
    [("bin", 0), ("bin", 1.5), ("bin", None), ("steady", 1), ("saved", None), ("work_limit", 0), ("work_limit", False)],
)
def test_other_fields(field: str, value: Any) -> None:
    refused(f"decide(), query 'q1', {field}: found {value!r}", Broken(**{field: value}))


@pytest.mark.parametrize(
    ("drop_plans", "words"),
    [
        (DropPlan(), "decide(): found DropPlan("), (0.5, "decide(): found 0.5"), ("x", "decide(): found 'x'"),
        ([], "decide(): found 0 drop plans, expected a list of 1 DropPlan"),
        ([DropPlan()] * 2, "decide(): found 2 drop plans"),
        ([None], "decide(), query 'q1': found None, expected a DropPlan"), ({}, "decide(): found {}"),
        (np.zeros(1), "decide(): found an array of float64 of the shape (1,)"),
    ],
)  # fmt: skip
def test_other_than_a_list_of_drop_plans(drop_plans: Any, words: str) -> None:
    refused(words, Broken(drop_plans))


@pytest.mark.parametrize("rate", [
    0.5, (1.0, 2.0, 3.0), MatchRate(0, 1, 1), MatchRate(1, -1, 1), MatchRate(float("nan"), 1, 1), MatchRate(1, 1, -1),
])  # fmt: skip
def test_match_rates(rate: Any) -> None:
    class Own(Broken):
        def match_rate(self, query: Any) -> Any:
            return rate

    refused("match_rate(), query 'q1': found ", Own())


@pytest.mark.parametrize(
    ("name", "value"),
    [("name", None), ("name", 3), ("seed", -1), ("seed", 1.5), ("seed", True), ("often", 1), ("in_windows", None),
     ("drops_matches", "yes"), ("observes", 0), ("cuts", np.array([True])), ("decide", 3), ("learn", None),
     ("spec", None)],
)  # fmt: skip
def test_attributes(name: str, value: Any) -> None:
    shedder = Broken()
    setattr(shedder, name, value)
    refused(f", {name}: found ", shedder)


def test_no_shedder_at_all() -> None:
    class Duck:
        name = "duck"

        def decide(self, demand: float, before: float, views: Any) -> None:
            return

    refused("check: found no such method, expected one; inherit from fastcep.shedding.Shedder", Duck())


TABLE = np.zeros(3, np.uint8)
RIGHT = Classes(("a.V",), (0,), TABLE)
NO_CLASSES: list[tuple[Any, str]] = [
    (None, "classes(): found None, expected a mapping"), ([RIGHT], "classes(): found [Classes("),
    ({"x": RIGHT}, "classes()['x']: found no such variable in query 'q1', expected one of a, b, c"),
    ({"a": 1}, "classes()['a']: found 1, expected Classes or a Tree"),
    *[
        ({"a": dataclasses.replace(RIGHT, **{field: value})}, f"classes()['a'].{field}: found ")
        for field, value in [
            ("table", [0, 1]), ("table", TABLE.astype(int)), ("table", TABLE[:0]), ("table", TABLE[:, None]),
            ("low", (0, 1)), ("low", [0]), ("low", (0.5,)), ("low", (2**60,)), ("other", 256), ("other", -1),
            ("other", None), ("features", "a.V"), ("features", ()), ("features", (1,)),
        ]
    ],
]  # fmt: skip


@pytest.mark.parametrize("method", ["classes", "event_classes"])
@pytest.mark.parametrize(("value", "words"), NO_CLASSES)
def test_classes(method: str, value: Any, words: str) -> None:
    shedder = Broken()
    setattr(shedder, method, lambda query: value)
    refused(words.replace("classes()", f"{method}()"), shedder)


@pytest.mark.parametrize("value", [0, 65, 1.0, None, "3", True])
def test_slices(value: Any) -> None:
    class Sliced(Broken):
        def slices_of(self, query: ast.Query) -> Any:
            return value

    refused(f"slices_of(): found {value!r}, expected an integer from 1 to 64", Sliced())


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        (None, "read(): found None, expected a DetectorReading"), (0.5, "read(): found 0.5"),
        (DetectorReading(float("nan")), "read().excess: found nan"),
        (DetectorReading("much"), "read().excess: found 'much'"),  # type: ignore[arg-type]
        (DetectorReading(0.0, amount=float("nan")), "read().amount: found nan"),
        (DetectorReading(0.0, utilisation=-1.0), "read().utilisation: found -1.0"),
        (DetectorReading(0.0, why=None), "read().why: found None"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_readings(reading: Any, words: str) -> None:
    class Wrong(Always):
        def read(self, load: Load) -> Any:
            return reading

    refused(words, Broken(), Wrong())


def test_detectors() -> None:
    class None_(Broken):  # noqa: N801
        def detector(self, of: str) -> Any:
            return None

    class Statistic(Always):
        statistic = "median"

    class Allowed(Always):
        allowed = 2.0

    refused("detector(): found None, expected a detector", None_())
    refused("statistic: found 'median', expected 'mean', 'p95' or 'p99'", Broken(), Statistic())
    refused("allowed: found 2.0", Broken(), Allowed())


@pytest.mark.parametrize("method", ["spec", "state", "metrics"])
@pytest.mark.parametrize("value", [None, 3, {"a": object()}, {"a": np.zeros(2)}, {(1, 2): 3}])
def test_what_is_stored(method: str, value: Any) -> None:
    shedder = Broken()
    live = run(shedder)
    setattr(shedder, method, lambda: value)
    with pytest.raises(ValidationError, match=rf"shedder 'broken' \(Broken\), {method}\(\): found "):
        live.metrics() if method == "metrics" else live.snapshot()
    delattr(shedder, method)
    live.snapshot()


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))


def array_of(shape: list[int], dtype: Any, value: float) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # NaN as an integer
        return np.full(shape, value).astype(dtype)


ARRAYS = st.builds(
    array_of,
    st.lists(st.integers(0, 4), max_size=4), st.sampled_from([np.float64, np.float32, np.int64, bool, object]),
    st.one_of(st.floats(-2, 2), st.sampled_from([float("nan"), float("inf"), 0.0, 0.5, 1.0])),
)  # fmt: skip


FIELDS = [field.name for field in dataclasses.fields(DropPlan)]


@given(st.dictionaries(st.sampled_from(FIELDS), SCALARS | ARRAYS, max_size=3))
def test_any_drop_plan_is_applied_or_refused(fields: Mapping[str, Any]) -> None:
    """Any drop plan is applied, or the error names a field that was drawn; there is no other error."""
    try:
        run(Broken(**fields)).flush()
    except ValidationError as error:
        assert str(error).startswith("shedder 'broken' (Broken), decide(), query 'q1', ")
        assert any(f", {name}: found " in str(error) for name in fields)


# ------------------------------------------------------------------------- recall


class Certain(Broken):
    """Refuses every birth, and does not say what it keeps."""

    def right(self, view: QueryView) -> dict[str, Any]:
        return {"births": np.ones((len(view.plan.states), view.classes))}


def test_a_recall_that_nobody_knows() -> None:
    """Drops that are certain, by a shedder that does not report what it keeps."""
    live = engine(Certain())
    assert live.metrics()["shedding"]["estimated_recall"] == 1.0
    live.process(STREAM)
    metrics = live.metrics()["shedding"]
    assert metrics["dropped_partial_matches"] > 0
    assert metrics["estimated_recall"] is None and metrics["queries"]["q1"]["kept"] is None
    again = fc.Engine.restore(live.snapshot(), shedder=Certain())
    assert again.metrics()["shedding"]["estimated_recall"] is None


def test_a_shedder_that_drops_nothing_need_not_say_what_it_keeps() -> None:
    assert run(Broken(births=None, kept=None)).metrics()["shedding"]["estimated_recall"] == 1.0


@pytest.mark.thorough
def test_without_asserts() -> None:
    """Repeat the checks under ``python -O``."""
    code = (
        "import numpy as np, test_validation as t\n"
        "assert False\n"  # does nothing
        "for fields in ({'births': np.zeros((2, 7))}, {'drops': np.zeros((9, 9, 9))}, {'kept': float('nan')}):\n"
        "    try:\n        t.run(t.Broken(**fields))\n"
        "    except t.ValidationError as error:\n        print(error)\n"
    )
    folders = [str(folder) for folder in Path(__file__).parents[:3]]
    done = subprocess.run(
        [sys.executable, "-O", "-c", f"import sys; sys.path[:0] = {folders!r}\n{code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [line.split(": found")[0].split()[-1] for line in done.stdout.splitlines()] == ["births", "drops", "kept"]
