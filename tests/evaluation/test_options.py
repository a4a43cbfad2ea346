"""Wrong options of an evaluation, and their error messages."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.shedding.evaluations import EVENTS, Everything, Sums, evaluated, query, stream

import fastcep as fc
from fastcep.evaluation.targets import parse_targets
from fastcep.overload.protocols import Shedder
from fastcep.shedding import RandomEvents

BOUND: dict[str, Any] = {"bounds": "50%"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "found none of bounds, rates, demands: give exactly one of them"),
        ({"bounds": "50%", "demands": "50%"}, "found bounds and demands of bounds, rates, demands"),
        ({"bounds": "50"}, "bounds='50': expected a share of the latency without shedding such as '50%', a duration"),
        ({"bounds": []}, "bounds=[]: expected"),
        ({"bounds": ["50%", "0%"]}, "bounds='0%': expected"),
        ({"bounds": ["50%", "50%"]}, "bounds: found 50% twice"),
        ({"bounds": True}, "bounds=True: expected"),
        ({"bounds": -1}, "bounds=-1: expected"),
        ({"rates": "120%"}, "rates need latency_bound='…'"),
        ({"rates": "fast", "latency_bound": "1s"}, "rates='fast': expected a share of the maximum rate"),
        ({"rates": "120%", "latency_bound": "1 q"}, "latency_bound='1 q': unknown unit 'q'"),
        ({"rates": "120%", "latency_bound": 0}, "latency_bound=0: expected a time above 0"),
        ({"bounds": "50%", "latency_bound": "1s"}, "latency_bound='1s' is for rates; with bounds omit it"),
        ({"demands": "100%"}, "demands='100%': expected a share of the work such as '30%', above 0% and below 100%"),
        ({"demands": 0.5}, "demands=0.5: expected a share"),
        ({"demands": "50%", "detector": "latency"}, "detector='latency' has no effect with demands"),
        (BOUND | {"statistic": "p90"}, "statistic='p90': expected 'mean', 'p95' or 'p99'"),
        (BOUND | {"clock": "sun"}, "clock='sun': expected 'virtual' or 'wall'"),
        (BOUND | {"index": "some"}, "index='some': expected 'full', 'key' or 'off'"),
        (BOUND | {"cost_table": "nix"}, "cost table 'nix': there is no such file"),
        (BOUND | {"seeds": 0}, "seeds=0: expected a number of seeds"),
        (BOUND | {"seeds": [1, 1]}, "seeds=[1, 1]: found a duplicate"),
        (BOUND | {"seeds": [-1]}, "seeds=[-1]: expected"),
        (BOUND | {"seeds": "1"}, "seeds='1': expected"),
        (BOUND | {"skip": 1}, "skip=1: expected a share of the events"),
        (BOUND | {"repeats": 2}, "repeats=2: on the virtual clock all repetitions are equal"),
        (BOUND | {"repeats": 0}, "repeats=0: expected a positive integer"),
        (BOUND | {"detector": "late"}, "detector: unknown detector 'late'; did you mean 'latency'?"),
        (BOUND | {"detector": 5}, "detector=5: expected a name"),
        (BOUND | {"shedders": []}, "shedders=[]: expected one or several"),
        (BOUND | {"shedders": ["ri", "ri"]}, "shedders: found 'ri' twice"),
        (BOUND | {"shedders": "pm-b"}, "shedders: unknown shedder 'pm-b'; did you mean 'pm-bl'?"),
        (BOUND | {"shedders": "classes"}, "shedders: shedder 'classes' needs classes and refuse"),
        (BOUND | {"shedders": 5}, "shedders: found 5; expected a name"),
        (BOUND | {"shedders": RandomEvents(), "seeds": 2}, "has seed=0, and seeds are [0, 1]"),
        (BOUND | {"shedders": RandomEvents(4)}, "give seeds=[4]"),
        (BOUND | {"shedders": [lambda seed: seed]}, "returned 0, expected a shedder"),
        (BOUND | {"shedders": Everything(), "clock": "wall"}, "'everything' counts operations"),
        (BOUND | {"history": stream()}, "history=…: none of the shedders is fitted"),
        (BOUND | {"model": "folder"}, "model='folder': none of the shedders takes a model"),
        (BOUND | {"events": stream().slice(0, 0)}, "events: found none"),
        (BOUND | {"events": stream().slice(0, 100)}, "'q1' found no match in 100 events without shedding"),
        (BOUND | {"events": stream().slice(0, 1), "shedders": Sums()}, "events: found 1, but models are fitted"),
        (BOUND | {"queries": [query(), query()]}, "two queries are named 'q1'"),
        ({"bounds": 1, "cost_table": "measured"}, "bounds='1 ns': 1 ns is below the cost of dropping an event"),
        (BOUND | {"events": stream().slice(0, 3)}, "events: 3 events cost nothing according to cost_table='paper'"),
        ({"rates": 2e9, "latency_bound": "1s"}, "rates='2,000,000,000 events/s': rate 2000000000.0: expected"),
    ],
)
def test_the_error_names_the_fault(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=re.escape(message)):
        evaluated(**{"shedders": "ri"} | options)


def test_events_out_of_order() -> None:
    back = stream().take(list(range(EVENTS))[::-1])
    with pytest.raises(fc.OrderError, match=r"^events, row 1, .*; sort the events by time first$"):
        evaluated("ri", back, bounds="50%")


def test_a_query_that_a_shedder_rejects_is_an_error_before_any_run() -> None:
    class Refuses(RandomEvents):
        name = "refuses"

        def check(self, query: fc.Query) -> None:
            raise fc.ModelError("not this one")

    ran: list[int] = []

    def counted(seed: int) -> Shedder:
        ran.append(seed)
        return Refuses(seed)

    with pytest.raises(fc.ModelError, match="not this one"):
        evaluated([counted], bounds=["90%", "50%"])
    assert ran == [0]


def test_targets_as_written_and_in_numbers() -> None:
    bounds = parse_targets("bounds", ["50%", " 12.5 %", "2us", 7, 7.5])
    assert [(item.label, item.resolve(80.0)) for item in bounds] == [
        ("50%", 40.0), ("12.5 %", 10.0), ("2us", 2000.0), ("7 ns", 7.0), ("7.5 ns", 7.5)
    ]  # fmt: skip
    assert [(item.label, item.resolve(100.0)) for item in parse_targets("rates", ["120%", 5000])] == [
        ("120%", 120.0), ("5,000 events/s", 5000.0)
    ]  # fmt: skip
    assert [(item.label, item.resolve(1.0)) for item in parse_targets("demands", "30%")] == [("30%", 0.3)]
