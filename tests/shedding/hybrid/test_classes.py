"""Classes from members: informative features, values of classes, classification."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.shedding.fit_members import sums, table

import fastcep
from fastcep.errors import ValidationError
from fastcep.overload.protocols import Classes, Tree
from fastcep.shedding.hybrid.classes import Fitted, choose_features, fit_classes


def table_of(fitted: Fitted) -> Classes:
    assert isinstance(fitted.classes, Classes)
    return fitted.classes


def worth(fitted: Fitted, name: str = "mean_contribution") -> list[float]:
    return [sum(row) for row in fitted.values[name].to_pylist()]


def by_x(rows: int = 400, **other: Any) -> dict[str, Any]:
    """Return members with contribution x, from 0 to 3, and consumption 10 x."""
    x = np.arange(rows) % 4
    return {"contribution": x[:, None], "consumption": 10 * x[:, None], "x": x} | other


# ----------------------------------------------------------------------------------------------------------- features


def test_features_that_tell_nothing_are_dropped() -> None:
    assert choose_features(sums()) == ("total", "a", "b")
    assert choose_features(sums(), ["key", "total"]) == ("total",)
    assert choose_features(sums(150_000)) == ("total", "a", "b")


def test_a_key_tells_if_some_are_more_frequent() -> None:
    random = np.random.default_rng(2)
    key = random.zipf(1.5, 5_000).clip(max=1_000)
    found = np.bincount(key)[key][:, None]
    assert choose_features(table(found, found, key=key, other=random.permutation(key))) == ("key",)


def test_what_only_consumption_knows_is_told() -> None:
    random = np.random.default_rng(3)
    x = random.uniform(0, 1, 3_000)
    cost = random.poisson(10 + 20 * (x > 0.7))[:, None]
    assert choose_features(table(np.zeros((3_000, 1)), cost, x=x)) == ("x",)


def test_rare_matches_are_enough() -> None:
    """Fewer than 50 of 150,000 become matches: hardly any variance, but one half never becomes one."""
    members = sums(150_000, rate=0.01)
    assert 30 < sum(pc.list_flatten(members["contribution"]).to_numpy()) < 60
    assert choose_features(members) == ("total",)
    fitted = fit_classes(members, per="leaf")
    assert table_of(fitted).features == ("total",)
    assert worth(fitted)[0] == 0.0 and not table_of(fitted).table[11 - 2 :].any()


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(4))
def test_costs_of_a_few_do_not_hide_matches(seed: int) -> None:
    """K-means finds clusters of costs and of outliers; few members, separated by one feature, have matches."""
    random = np.random.default_rng(seed)
    place, other = random.integers(0, 70, 20_000), random.integers(0, 300, 20_000)
    matches = random.poisson(np.where(place < 4, 0.6, 0.0))[:, None]
    cost = random.pareto(1.5, (20_000, 3)) + matches
    fitted = fit_classes(table(np.repeat(matches, 3, 1), cost, place=place, other=other), clusters=15, seed=seed)
    assert fitted.classes is not None
    found = fitted.classes.classify(
        np.column_stack([{"place": place, "other": other}[name] for name in fitted.classes.features]).astype(float),
        np.zeros((20_000, len(fitted.classes.features)), bool),
    )  # fmt: skip
    mean = np.bincount(found, matches[:, 0]) / np.maximum(np.bincount(found), 1)
    assert (mean[found] > 0.3)[place < 4].mean() > 0.95 and (mean[found] < 0.1)[place >= 4].mean() > 0.95


def test_a_single_match_of_a_rare_key_is_chance() -> None:
    random = np.random.default_rng(5)
    key = np.where(random.random(50_000) < 1e-4, 1 + np.arange(50_000) % 20, 0)
    found = np.zeros((50_000, 1))
    found[[*np.flatnonzero(key)[:1], *range(30)]] = 1
    assert choose_features(table(found, found, key=key)) == ()


def test_null_tells() -> None:
    x = pa.array([None, 1.0] * 300)
    worth_ = np.tile([[0], [1]], (300, 1))
    assert choose_features(table(worth_, worth_, x=x)) == ("x",)


def test_nothing_to_tell() -> None:
    for rows in (0, 1, 2):
        empty = table(np.ones((rows, 2)), np.ones((rows, 2)), x=np.arange(rows))
        fitted = fit_classes(empty)
        assert choose_features(empty) == () and fitted.classes is None
        assert fitted.values["members"].to_pylist() == [rows]
        assert fitted.values["contribution"].to_pylist() == [[float(rows > 0)] * 2]
    assert fit_classes(sums().select(["key", "noise", "contribution", "consumption"])).classes is None
    assert fit_classes(sums().select(["contribution", "consumption"])).classes is None


# ------------------------------------------------------------------------------------------------------------ classes


@pytest.mark.sample(2)
@pytest.mark.parametrize("clusters", [5, 10, "gap"])
@pytest.mark.parametrize("rows", [3_000, 150_000])
def test_the_sum_is_what_tells_in_q1(rows: int, clusters: Any) -> None:
    fitted = fit_classes(sums(rows), clusters=clusters)
    table = table_of(fitted)
    assert (table.features, table.low, table.table.shape) == (("total",), (2,), (19,))
    hopeless = table.table[11 - 2 :]
    assert worth(fitted)[0] == 0.0 and (hopeless == 0).all() and table.table[:9].all()
    assert table.other == table.count - 1
    assert sum(fitted.values["members"].to_pylist()) == rows


def test_values_are_of_the_members_that_are_told_to_be_of_the_class() -> None:
    members = sums(20_000, rate=30)
    fitted = fit_classes(members, percentile=75)
    table = table_of(fitted)
    found = table.table[members["total"].to_numpy() - 2]
    for row in fitted.values.to_pylist():
        own = members.filter(pa.array(found == row["class"]))
        assert row["members"] == len(own)
        assert len(own) or row["class"] == table.other
        for name in ("contribution", "consumption") if len(own) else ():
            parts = np.array(own[name].to_pylist())
            assert row[name] == pytest.approx(np.percentile(parts, 75, axis=0))
            assert row[f"mean_{name}"] == pytest.approx(parts.mean(axis=0))


@pytest.mark.parametrize("per", ["leaf", "cluster"])
def test_classes_ascend_by_what_they_are_worth(per: Any) -> None:
    x = np.arange(400) % 4
    value = np.array([2, 0, 3, 1])[x][:, None]
    fitted = fit_classes(table(value, 1 + value, x=x), per=per)
    assert table_of(fitted).table.tolist() == [2, 0, 3, 1] and worth(fitted) == [0, 1, 2, 3, 0]
    assert fitted.values["class"].to_pylist() == [0, 1, 2, 3, 4]


def test_clusters_may_be_classes() -> None:
    x = np.arange(600) % 6
    value = np.array([0, 5, 0, 9, 5, 0])[x][:, None]
    members = table(value, 1 + value, x=x)
    assert table_of(fit_classes(members, per="cluster")).table.tolist() == [0, 1, 0, 2, 1, 0]
    assert sorted(table_of(fit_classes(members, per="leaf")).table.tolist()) == [0, 1, 2, 3, 4, 5]


@pytest.mark.thorough
def test_leaves_that_differ_by_chance_are_one() -> None:
    """If the sum is known, its terms are not informative."""
    for seed in range(4):
        assert table_of(fit_classes(sums(20_000, rate=20, seed=seed), seed=seed)).features == ("total",)


def test_reals_make_a_tree() -> None:
    random = np.random.default_rng(4)
    x = random.uniform(-1, 1, 4_000)
    value = random.poisson(5 * (x > 0.25))[:, None]
    classes = fit_classes(table(value, value, x=x)).classes
    assert isinstance(classes, Tree) and classes.count == 3 and classes.other == 2
    assert classes.threshold[4] == pytest.approx(0.25, abs=0.01)
    assert classes.threshold[0] == x.max() and classes.threshold[2] == np.nextafter(x.min(), -1)
    unseen = np.array([[x.max()], [x.max() + 1e-9], [x.min()], [x.min() - 1e-9], [np.inf], [-np.inf]])
    assert classes.classify(unseen, np.zeros((6, 1), bool)).tolist() == [1, 2, 0, 2, 2, 2]


def test_the_number_of_leaves_is_bounded() -> None:
    x = np.random.default_rng(6).integers(0, 400, 8_000)
    members = table(x[:, None], x[:, None], x=x)
    assert table_of(fit_classes(members, leaves=5, per="leaf")).count == 6  # with that of unseen values
    assert table_of(fit_classes(members, clusters=400)).count <= 256


# ----------------------------------------------------------------------------------------------- null and the unknown


def test_what_history_did_not_have_is_kept_longest() -> None:
    columns = by_x()
    columns["x"] = pa.array([None, *columns["x"][1:].tolist()])
    fitted = fit_classes(table(**columns))
    assert isinstance(fitted.classes, Tree) and fitted.classes.other == 3
    found = fitted.classes.classify(np.array([[-1.0], [0], [1], [2], [3], [4]]), np.zeros((6, 1), bool))
    assert found.tolist() == [4, 0, 1, 2, 3, 4]
    assert fitted.values["members"].to_pylist() == [99, 100, 100, 101, 0]
    whole = table_of(fit_classes(table(**by_x()), per="leaf"))
    assert whole.table.tolist() == [0, 1, 2, 3] and whole.other == 4


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_null_is_a_class_where_history_had_it(missing: float | None) -> None:
    columns = by_x(500)
    none = np.arange(500) >= 400
    columns["contribution"] = np.where(none[:, None], 7, columns["contribution"])
    columns["x"] = pa.array([missing if gone else float(x) for x, gone in zip(columns["x"], none, strict=True)])
    fitted = fit_classes(table(**columns))
    assert isinstance(fitted.classes, Tree) and fitted.classes.other == 4
    assert fitted.values["members"].to_pylist() == [100] * 5 + [0] and worth(fitted) == [0, 1, 2, 3, 7, 0]
    columns["contribution"] = np.where(none[:, None], 0, 1 + columns["contribution"])
    fitted = fit_classes(table(**columns))
    assert isinstance(fitted.classes, Tree) and fitted.classes.other == 0 and worth(fitted) == [0, 1, 2, 3, 4, 0]


def test_that_there_is_no_value_may_be_all_there_is_to_tell() -> None:
    gone = np.arange(600) % 3 == 0
    columns = {"x": pa.array(np.arange(600) % 7, mask=gone), "y": pa.array(np.arange(600) % 4)}
    fitted = fit_classes(table(gone[:, None], 1 + gone[:, None], **columns))
    assert isinstance(fitted.classes, Tree) and fitted.classes.features == ("x",)
    assert (fitted.classes.classify(np.array([[5.0], [0.0]]), np.array([[False], [True]])).tolist()) == [0, 1]
    assert fitted.values["members"].to_pylist() == [400, 200] and worth(fitted) == [0, 1]
    columns["y"] = pa.array(np.where(gone, 0, np.arange(600) % 2))
    fitted = fit_classes(table(np.where(gone, 2, columns["y"])[:, None], gone[:, None], **columns))
    assert isinstance(fitted.classes, Tree) and fitted.classes.features == ("y", "x")
    assert worth(fitted) == [0, 1, 2, 0]


# ------------------------------------------------------------------------------------------------------------- options


@pytest.mark.thorough
def test_the_seed_decides() -> None:
    members = sums(150_000)
    one, again = fit_classes(members, seed=3), fit_classes(members, seed=3)
    assert one.values.equals(again.values) and np.array_equal(table_of(one).table, table_of(again).table)


def test_tables_in_pieces_are_fine() -> None:
    members = sums()
    pieces = pa.concat_tables([members.slice(0, 1_000), members.slice(1_000, 3_000), members.slice(4_000)])
    assert fit_classes(pieces).values.equals(fit_classes(members).values)
    assert fit_classes(members.slice(4_000)).values.equals(fit_classes(members.take(np.arange(4_000, 6_000))).values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"percentile": 101}, "found percentile=101; expected a number from 0 to 100"),
        ({"clusters": 0, "per": "leaf"}, "found clusters=0; expected a whole number from 1 on"),
        ({"per": "node"}, "found per='node'; expected 'value', 'leaf' or 'cluster'"),
        ({"leaves": 255, "per": "leaf"}, "up to 254 leaves"),
    ],
)
def test_other_options_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        fit_classes(table(**by_x()), **options)


def test_other_columns_are_refused() -> None:
    members = table(**by_x())
    with pytest.raises(ValidationError, match=r"found None as column 'consumption'.*expected FixedSizeList"):
        fit_classes(members.drop_columns("consumption"))
    with pytest.raises(ValidationError, match="found string as feature 'x' of members, expected int64 or float64"):
        fit_classes(members.set_column(0, "x", pa.array(["a"] * 400)))


def test_libraries_are_loaded_when_something_is_fitted() -> None:
    code = (
        "import sys, fastcep.shedding.model, fastcep.shedding.hybrid.classes, fastcep.shedding.hybrid.stored_classes\n"
        "print(*[name for name in ('sklearn', 'scipy', 'threadpoolctl') if name in sys.modules])"
    )
    root = Path(fastcep.__file__).parent.parent
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


@pytest.mark.parametrize("library", ["scipy.special", "sklearn.tree"])
def test_without_a_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ValidationError, match=rf"fitting needs {library}; .*pip install 'fastcep\[fit\]'"):
        fit_classes(sums())
