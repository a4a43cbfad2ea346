"""The synthetic market, soccer match and traffic have the configured distributions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fastcep import datasets
from fastcep.datasets.synthetic_traffic import logarithm


def share(table: pa.Table, kind: str) -> float:
    return float(pc.mean(pc.equal(table["type"], kind).cast(pa.float64())).as_py())


def test_market() -> None:
    table = datasets.market(200_000, 5)
    assert share(table, "RE") == pytest.approx(0.48, abs=0.03)
    assert share(table, "FE") == pytest.approx(0.48, abs=0.03)
    change, kinds = table["change"].to_numpy(), np.array(table["type"].to_pylist())
    assert (np.sign(change) == np.select([kinds == "RE", kinds == "FE"], [1, -1], 0)).all()
    by_minute = table["price"].to_numpy().reshape(-1, 500)
    assert np.allclose(np.diff(by_minute, axis=0), change.reshape(-1, 500)[1:])
    assert by_minute.min() >= 1
    assert table["number"].to_numpy().reshape(-1, 500).tolist() == [list(range(500))] * 400
    assert table["symbol"][499].as_py() == "S499"


@pytest.mark.sample(1)
@pytest.mark.parametrize("influence", [0.0, 0.5, 1.0])
def test_followers_move_as_their_leader_did(influence: float) -> None:
    minutes, symbols, leaders, lag = 2_000, 41, 2, 2
    table = datasets.market(
        minutes * symbols, 5, symbols=symbols, leaders=leaders, influence=influence, persistence=0.0, lag=lag
    )
    sign = np.sign(table["change"].to_numpy().reshape(minutes, symbols))
    by_chance = 2 * 0.48**2 + 0.04**2  # probability that two independent moves agree
    followers = symbols - leaders
    for follower in range(followers):
        leader, delay = follower * leaders // followers, follower * leaders % followers * (lag + 1) // followers
        moved = sign[lag:, leaders + follower]
        for shift in range(lag + 1):
            agree = float((moved == sign[lag - shift : minutes - shift, leader]).mean())
            expected = influence + (1 - influence) * by_chance if shift == delay else by_chance
            assert agree == pytest.approx(expected, abs=0.05)


@pytest.mark.thorough
def test_persistence() -> None:
    sign = np.sign(datasets.market(50_000, 5, symbols=10, persistence=0.7)["change"].to_numpy().reshape(-1, 10))
    leader = sign[:, 0]
    moved = leader[:-1] != 0
    repeated = float((leader[1:] == leader[:-1])[moved].mean())
    assert repeated == pytest.approx(0.7 + 0.3 * 0.48, abs=0.03)


def test_soccer() -> None:
    table = datasets.soccer(23 * 3_000, 5)
    kinds = np.array(table["type"].to_pylist())
    player = table["player"].to_numpy()
    x, y = (table[name].to_numpy().reshape(-1, 23) for name in "xy")
    assert x.min() >= 0 and x.max() <= 105 and y.min() >= 0 and y.max() <= 68
    speed = np.hypot(np.diff(x, axis=0), np.diff(y, axis=0))[:, 1:]
    assert speed.max() <= 7 + np.sqrt(0.5) + 0.02  # a step, the noise, rounding
    assert set(player[kinds == "STR"]) == {11, 22}
    assert table["striker"].null_count == table["distance"].null_count == 3_000
    strikers, distance = table["striker"].to_pylist(), table["distance"].to_pylist()
    for row in range(0, len(table), 97):
        second, number = divmod(row, 23)
        if number:
            striker = strikers[row]
            assert striker == (22 if number < 12 else 11)
            expected = np.hypot(x[second, number] - x[second, striker], y[second, number] - y[second, striker])
            assert distance[row] == pytest.approx(expected)
            assert kinds[row] == "STR" or (kinds[row] == "DF") == (distance[row] <= 3)
    ball_distance = np.hypot(x[:, :1] - x, y[:, :1] - y)[:, 1:].min(axis=1)
    assert ball_distance.max() == 0  # a player has the ball
    for row in np.flatnonzero(kinds == "STR"):
        second, number = divmod(int(row), 23)
        assert (x[second, number], y[second, number]) == (x[second, 0], y[second, 0])
    assert 0.002 < share(table, "STR") < 0.05
    assert 0.005 < share(table, "DF") < 0.2


def test_traffic() -> None:
    table = datasets.traffic(200_000, 5)
    kinds, vehicle, ts = np.array(table["type"].to_pylist()), table["vehicle"].to_numpy(), table["ts"].to_numpy()
    first, second = ts[kinds == "Pos1"], dict(zip(vehicle[kinds == "Pos2"], ts[kinds == "Pos2"], strict=True))
    assert (vehicle[kinds == "Pos1"] == np.arange(len(first))).all()
    gaps = np.diff(first)
    assert gaps.mean() == pytest.approx(200, rel=0.03)
    assert gaps.std() == pytest.approx(200, rel=0.03)  # exponential
    assert (gaps > 200).mean() == pytest.approx(np.exp(-1), abs=0.01)
    through = np.array([second[number] - first[number] for number in range(50_000)])
    assert through.max() == 900_000 and through.min() >= 750_000  # 15 km at 60 and 72 km/h
    assert (through < 900_000).mean() == pytest.approx(0.1, abs=0.01)
    fast = 15 / through[through < 900_000] * 3_600_000
    assert [fast.min(), fast.mean(), fast.max()] == pytest.approx([60, 66, 72], abs=0.3)


def test_traffic_options() -> None:
    table = datasets.traffic(20_000, 5, rate=0.5, length=1.0, speed=50.0, fastest=50.0, fast=1.0)
    first = table.filter(pc.equal(table["type"], "Pos1"))
    assert np.diff(first["ts"].to_numpy()).mean() == pytest.approx(2_000, rel=0.05)
    second = table.filter(pc.equal(table["type"], "Pos2"))
    assert (second["ts"].to_numpy() - first["ts"].to_numpy()[: len(second)] == 72_000).all()
    assert (second["vehicle"].to_numpy() == np.arange(len(second))).all()  # no vehicle overtakes


def test_logarithm() -> None:
    u = np.concatenate([np.random.default_rng(1).random(10_000), [1.0, 0.5, 2.0**-53]])
    assert np.abs(logarithm(u) - np.log(u)).max() < 1e-14
