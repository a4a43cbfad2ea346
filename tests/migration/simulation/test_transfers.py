"""Simulated transfers: against sums worked out directly, deadlines to the byte, the figures of the paper."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from migration.solvers import some_states

import fastcep as fc
from fastcep.migration import States, capacity_of, plan, scenario, simulate


@given(some_states(), st.integers(1, 10**6), st.integers(0, 10**10), st.integers(0, 10**9))
def test_states_arrive_one_after_another(drawn: tuple[States, int], rate: int, deadline: int, latency: int) -> None:
    states, _ = drawn
    found = simulate(states, "greedy", bandwidth=rate, deadline=f"{deadline}ns", latency=f"{latency}ns")
    order = plan(states, capacity_of(f"{deadline}ns", rate, f"{latency}ns"), "greedy").order
    sent = [sum(states.size[order[: k + 1]].tolist()) for k in range(len(order))]
    in_time = [size for size in sent if size * 10**9 + latency * rate <= deadline * rate]
    assert found.received.tolist() == order[: len(in_time)].tolist() and found.size.tolist() == in_time
    assert found.times == pytest.approx([size * 1e9 / rate + latency for size in in_time])
    assert found.utility == pytest.approx(np.cumsum(states.utility[order[: len(in_time)]]))
    assert set(found.plan.selected.tolist()) <= set(found.received.tolist()), "the plan is received"


def test_a_plan_that_fills_the_capacity_arrives_to_the_byte() -> None:
    states = States([3, 7, 11], [3.0, 2.0, 1.0])
    for deadline, count in (("10ns", 2), ("9ns", 1), ("21ns", 3), ("20ns", 2), ("2ns", 0)):
        found = simulate(states, "greedy", bandwidth=10**9, deadline=deadline)
        assert len(found.received) == count and found.received_utility == sum([3.0, 2.0, 1.0][:count])
    assert len(simulate(states, "greedy", bandwidth=3, deadline="1s").received) == 1  # 1 byte takes 1/3 s
    assert len(simulate(states, "greedy", bandwidth=3, deadline="999999999ns").received) == 0


def test_the_rest_is_sent_after_the_plan() -> None:
    states = States([10, 10, 10], [3.0, 2.0, 1.0])
    found = simulate(states, "greedy", bandwidth=1_000, deadline="25ms", resume="5ms")
    assert (found.plan.capacity, len(found.plan.selected), len(found.received)) == (20, 2, 2)
    found = simulate(states, "greedy", bandwidth=1_000, deadline="25ms", resume="15ms")
    assert (found.plan.capacity, len(found.plan.selected), len(found.received)) == (10, 1, 2)
    assert found.deadline == 25_000_000 and found.full_time == 30e6


def test_without_a_deadline_everything_arrives() -> None:
    states = States([10, 30], [1.0, 3.0])
    found = simulate(states, bandwidth=3_000, latency="1ms")
    assert found.received.tolist() == [0, 1] and found.times.tolist() == pytest.approx(
        [10e9 / 3e3 + 1e6, 40e9 / 3e3 + 1e6]
    )
    assert found.full_time == pytest.approx(found.times[-1]) and found.received_utility == found.total_utility == 4.0
    assert (found.utility_share(0.0), found.utility_share(1.0)) == (0.0, 1.0)
    assert found.time_share(0.25) == pytest.approx(found.times[0] / found.times[1])
    assert found.time_share(0.26) == found.time_share(1.0) == 1.0 and found.time_share(0.0) == 0.0


def test_shares_of_what_does_not_arrive() -> None:
    states = States([10, 30], [1.0, 1.0])
    found = simulate(states, bandwidth=1_000, deadline="10ms")
    assert found.time_share(0.5) == 0.25 and found.time_share(0.51) is None
    assert (found.utility_share(0.24), found.utility_share(0.25), found.utility_share(1.0)) == (0.0, 0.5, 0.5)
    assert simulate(states, bandwidth=1_000, deadline="0s").received_utility == 0.0


def test_no_states_and_no_utility() -> None:
    none = simulate(States([], []), bandwidth=1, deadline="1s")
    assert len(none.received) == 0 and none.utility_share(1.0) == 1.0 and none.time_share(0.8) == 0.0
    useless = simulate(States([1], [0]), bandwidth=1)
    assert useless.received.tolist() == [0] and useless.utility_share(0.5) == 1.0


def test_the_capacity_of_a_link() -> None:
    assert capacity_of("5s", "10MB", "20ms", "1s") == 39_800_000
    assert capacity_of("1s", 3, "1ns") == 2 and capacity_of("1s", 3) == 3
    assert capacity_of("1s", 3, "2s") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"states": 3}, "states: int; expected fc.migration.States"),
        ({"bandwidth": 0}, "bandwidth=0: 0 is no size; expected a whole number of bytes above 0"),
        ({"bandwidth": "fast"}, "bandwidth='fast': 'fast' is no size"),
        ({"deadline": "soon"}, "deadline='soon': 'soon' is no duration"),
        ({"latency": "-1s"}, "latency='-1s': '-1s' is no duration"),
        ({"resume": 1}, "resume=1: a duration cannot be of type int"),
        ({"method": "best"}, "method='best': expected one of auto"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        simulate(**{"states": States([1], [1]), "bandwidth": 1, **arguments})


def test_without_simpy(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("fastcep.extras.import_module", without)
    with pytest.raises(fc.ValidationError, match=r"needs simpy; install it with: pip install 'fastcep\[degree\]'"):
        simulate(States([1], [1]), bandwidth=1)
    assert plan(States([1], [1]), 1).utility == 1.0, "selection works without SimPy"


def test_selection_loads_neither_simpy_nor_scipy() -> None:
    code = (
        "import sys, fastcep as fc; fc.migration.plan(fc.migration.States([1], [1]), 1)\n"
        "assert not {'simpy', 'scipy', 'pandas', 'numba'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("utility", "sizes", "low", "high"),
    [
        ("uniform", "equal", 0.54, 0.57), ("uniform", "trips", 0.46, 0.50),
        ("skew10", "equal", 0.25, 0.28), ("skew10", "trips", 0.18, 0.21),
        ("skew50", "equal", 0.37, 0.39), ("skew50", "trips", 0.30, 0.34),
    ],
)  # fmt: skip
def test_time_of_80_percent_of_the_utility(utility: str, sizes: str, low: float, high: float) -> None:
    states = scenario(utility, sizes)
    shares = {
        method: simulate(states, method, bandwidth="100kB").time_share(0.8) for method in ("greedy", "random")
    }  # fmt: skip
    assert low < shares["greedy"] < high and 0.77 < shares["random"] < 0.83
