"""The streams fitted to trips and to task life cycles have the measured distributions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastcep as fc
from fastcep import datasets
from fastcep.datasets.generate import by_quantiles

PAPERS = Path(__file__).parent.parent.parent / "examples" / "papers"


def matches(text: str, table: pa.Table) -> int:
    query = fc.parse_document(text).queries[0]
    return len(fc.Engine(query).process(table).to_arrow())


def test_draws_by_quantiles() -> None:
    drawn = by_quantiles(np.random.default_rng(1), np.array([0, 10, 10, 110]), 60_000)
    assert drawn.min() == 0 and drawn.max() == 109
    shares = [(drawn < 10).mean(), (drawn == 10).mean(), (drawn > 60).mean()]
    assert shares == pytest.approx([1 / 3, 1 / 3 + 1 / 300, 1 / 6], abs=0.01)


@pytest.mark.thorough
def test_trips_are_as_in_the_bay_area() -> None:
    table = datasets.bike_chains(100_000, 5, compress=1)
    begin, bike = table["start_date"].cast(pa.int64()).to_numpy(), table["bike_id"].to_numpy()
    start, end = (table[f"{name}_terminal"].to_numpy().astype(np.int64) for name in ("start", "end"))
    assert {bike.min(), bike.max()} == {1, 687}
    real = pq.read_table(datasets.path("bayarea_2014"))
    shares = [np.bincount(ends, minlength=85) / len(ends) for ends in (end, real["end_terminal"].to_numpy())]
    assert shares[0] == pytest.approx(shares[1], abs=0.012)
    assert ((shares[0] > 0) == (shares[1] > 0)).all()
    san_jose = np.isin(end, [*range(2, 17), 80, 84])
    assert san_jose.mean() == pytest.approx(0.07, abs=0.02)
    assert not set(bike[san_jose]) & set(bike[~san_jose])  # no bike leaves its city
    by_bike = np.lexsort((begin, bike))
    same = np.diff(bike[by_bike]) == 0
    joined = (end[by_bike][:-1] == start[by_bike][1:])[same]
    assert joined.mean() == pytest.approx(0.81, abs=0.015)  # some vans bring a bike back to the same station
    later = np.diff(begin[by_bike])[same]
    assert later.min() > 0
    trips = len(table) / 687 / ((begin[-1] - begin[0]) / 86_400_000)
    assert trips == pytest.approx(326_339 / 687 / 365, rel=0.25)
    user = np.array(table["user"].to_pylist())
    assert (user == "Subscriber").mean() == pytest.approx(0.85, abs=0.01)
    for name, turns in (("Subscriber", 0.0134), ("Customer", 0.164)):
        assert (start == end)[user == name].mean() == pytest.approx(turns, abs=0.06)  # more trips end there by chance


@pytest.mark.thorough
def test_compressed_trips_have_hot_paths() -> None:
    text = (PAPERS / "hot_paths.cep").read_text(encoding="utf-8").replace("BikeTrip+", "BikeTrip{5,}")
    assert matches(text, datasets.bike_chains(300_000, 7)) == 11_205


def test_tasks_are_as_in_the_trace() -> None:
    table = datasets.task_lives(100_000, 5)
    columns = {name: table[name].to_numpy() for name in ("job", "task", "kind", "priority", "time")}
    machine = table["machine"].fill_null(-1).to_numpy()
    assert ((machine < 0) == (columns["kind"] == 0)).all() and machine.max() < 10_544
    order = np.lexsort((columns["task"], columns["job"]))  # stable: by time in a task
    kind, machine, job, task, priority = (
        values[order] for values in (columns["kind"], machine, columns["job"], columns["task"], columns["priority"])
    )
    same = (np.diff(job) == 0) & (np.diff(task) == 0)
    pairs = np.stack([kind[:-1], kind[1:]])[:, same]
    steps = {(int(a), int(b)) for a, b in np.unique(pairs, axis=1).T}
    assert steps == {(0, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 0), (3, 0), (5, 0)}
    ended = same & (kind[:-1] == 1)
    assert (machine[:-1] == machine[1:])[ended].all()
    assert (priority[kind == 2] == 0).all() and set(priority) == {0, 2}
    assert (priority[:-1] == priority[1:])[np.diff(job) == 0].all()
    after = kind[1:][ended & (priority[:-1] == 2)]
    assert np.bincount(after, minlength=6)[3:] / len(after) == pytest.approx([0.003, 0.897, 0.1], abs=0.02)
    low = ended & (priority[:-1] == 0)
    assert (kind[1:][low] == 3).mean() == pytest.approx(0.1, abs=0.01)
    first = low & np.concatenate([[True, True], ~(same[1:-1] & same[:-2])])
    assert (kind[1:][first] == 2).mean() == pytest.approx(0.42, abs=0.02)


def test_tasks_have_the_seven_steps() -> None:
    text = (PAPERS / "cluster.cep").read_text(encoding="utf-8")
    assert matches(text, datasets.task_lives(200_000, 7)) == 26_720


def test_more_evictions_where_more_priority_is_low() -> None:
    shares = []
    for low in (0.0, 0.16, 1.0):
        kinds = np.bincount(datasets.task_lives(50_000, 5, low=low)["kind"].to_numpy(), minlength=6)
        shares.append(float(kinds[2] / kinds[1]))
    assert shares[0] == 0 < shares[1] < shares[2]
