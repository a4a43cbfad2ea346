"""Effect of drops on work and matches: measured at the fit, and used to choose what to drop."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.shedding import positional

import fastcep as fc
from fastcep.errors import ModelError, ValidationError
from fastcep.evaluation.constant import ConstantDemand, SameDemand
from fastcep.shedding import ESpice, Model, QueueLength
from fastcep.shedding.espice.effect import SHARES, Effect
from fastcep.shedding.espice.model import ESpiceModel
from fastcep.shedding.fixed_plan import MOST_EVENTS

#: A window ends with its match, after some 12 events.
ENDING = fc.parse(
    "PATTERN SEQ(O s, A a, B b, C c) WINDOW OPEN ON O o CLOSE AFTER 200 EVENTS STRATEGY skip_till_next SELECT first "
    "LIMIT 1 PER WINDOW", positional.SCHEMA, name="ending",
)  # fmt: skip


def effect(work: list[float], kept: list[float], base: float = 0.0) -> Effect:
    return Effect(np.array([0.0, 0.5]), np.array(work), np.array(kept), base)


@pytest.mark.parametrize(
    ("measured", "demand", "expected"),
    [
        (effect([1.0, 0.5], [1.0, 1.0]), 0.25, (0.25, 0.0, 1.0)),  # drops of single events save the work at no loss
        (effect([1.0, 1.0], [1.0, 1.0]), 0.25, (0.0, 0.25, 0.75)),  # they save nothing: a quarter of the windows
        (effect([1.0, 1.2], [1.0, 0.9]), 0.25, (0.0, 0.25, 0.75)),  # they even cost work
        (effect([1.0, 1.0], [1.0, 1.0], 0.2), 0.4, (0.0, 0.5, 0.5)),  # (1 - 0.4 - 0.2) / (1 - 0.2) of the windows
        (effect([1.0, 1.0], [1.0, 1.0], 0.2), 0.9, (0.0, 1.0, 0.0)),  # more than all windows cost
        (effect([1.0, 0.8], [1.0, 1.0]), 0.4, (0.5, 0.25, 0.75)),  # both: 0.8 * (1 - 0.25) = 1 - 0.4
        (effect([1.0, 0.5], [1.0, 0.1]), 0.5, (0.0, 0.5, 0.5)),  # the events that save work are needed
    ],
)  # fmt: skip
def test_drops_that_save_a_share_of_the_work(
    measured: Effect, demand: float, expected: tuple[float, float, float]
) -> None:
    assert measured.drops_for(demand) == pytest.approx(expected, abs=1e-9)


def test_the_work_is_that_of_a_run_with_these_drops() -> None:
    """The drops of the model save the share of the work that it expects, in another stream."""
    model = ESpiceModel.of(positional.model())
    assert model.effect is not None and model.effect.dropped.tolist() == list(SHARES)
    assert model.effect.work[0] == model.effect.kept[0] == 1 and model.effect.base < 0.6
    for demand in (0.2, 0.35):
        assert work_with(positional.model(), demand) == pytest.approx(1 - demand, abs=0.05)
    assert work_with(positional.model(equal_costs=True), 0.35) < 0.55  # it saves more than demanded


def work_with(model: Model, demand: float) -> float:
    """Return the work with a constant demand, relative to that without shedding."""
    costs = []
    for share in (demand, 0.0):
        engine = fc.Engine(
            positional.query(), latency_bound="1h", shedder=ConstantDemand(ESpice(model), share),
            detector=SameDemand(share), clock="virtual", cost_table="measured",
        )  # fmt: skip
        engine.process(positional.early(300, 2))
        costs.append(engine.metrics()["shedding"]["processing_latency"]["mean"])
    return float(costs[0] / costs[1])


def uniform(windows: int, seed: int) -> pa.Table:
    """A window opens with O every 50 events; the others are A, B, C and N with equal probability."""
    rng = np.random.default_rng(seed)
    kinds = np.array(["A", "B", "C", "N"])[rng.integers(0, 4, (windows, 50))]
    kinds[:, 0] = "O"
    return pa.table({"ts": np.arange(kinds.size), "type": kinds.ravel(), "k": np.zeros(kinds.size, np.int64)})


@cache
def ending_model(*, equal_costs: bool) -> Model:
    return fc.fit(ENDING, uniform(1000, 1), kind="espice", equal_costs=equal_costs, cost_table="paper")


@pytest.mark.thorough
@pytest.mark.parametrize("equal_costs", [False, True])
def test_the_bound_holds_where_drops_of_events_save_no_work(equal_costs: bool) -> None:
    """A window whose match is lost stays open, so drops of useful events cost work; dropped windows save it.

    Where events are taken to cost the same, more matches are lost, and a few events may be late: nothing is left to
    drop that saves enough.
    """
    shares = []
    for seed in (2, 3, 4, 5):
        events = uniform(2000, seed)
        free = fc.Engine(ENDING, latency_bound="1h", shedder=None, **positional.OPTIONS)
        truth = len(free.process(events))
        mean = free.metrics()["shedding"]["processing_latency"]["mean"]
        engine = fc.Engine(
            ENDING, latency_bound=2000 * mean, shedder=ESpice(ending_model(equal_costs=equal_costs)),
            detector=QueueLength(0.8), **positional.OPTIONS,
        )  # fmt: skip
        late: list[Any] = []
        engine.listen(lambda _, latency, late=late, mean=mean: late.append(latency > 2000 * mean))
        found = len(engine.process(events, arrivals=(np.arange(len(events)) * mean / 1.5).astype(np.int64)))
        shares.append(float(np.concatenate(late).mean()))
        dropped = engine.metrics()["shedding"]["dropped_windows"]
        if equal_costs:
            assert dropped == 0 and found < 0.45 * truth
        else:
            assert dropped > 300 and found > 0.65 * truth
    if equal_costs:
        assert max(shares) < 0.02
    else:
        assert max(shares) == 0


def test_it_is_measured_on_the_last_events() -> None:
    """Earlier events do not count: work and matches of the last 50,000 decide."""
    late = positional.early(MOST_EVENTS // positional.WINDOW, 5)
    early = positional.early(100, 6, offset=60)
    shifted = late.set_column(0, "ts", pa.array(late["ts"].to_numpy() + len(early)))
    both = ESpiceModel.of(fc.fit(positional.query(), pa.concat_tables([early, shifted]), kind="espice"))
    alone = ESpiceModel.of(fc.fit(positional.query(), late, kind="espice"))
    assert both.effect is not None and alone.effect is not None
    assert both.effect.base == alone.effect.base  # it depends on no drop probabilities
    assert not np.array_equal(both.effect.kept, alone.effect.kept)  # these depend on the whole history


def test_a_model_that_takes_equal_costs_has_none() -> None:
    model = positional.model(equal_costs=True)
    assert list(model.parts) == ["positions"] and ESpiceModel.of(model).effect is None
    assert model.parameters["equal_costs"] is True
    with pytest.raises(ValidationError, match="fit: equal_costs=1; expected True or False"):
        fc.fit(positional.query(), positional.early(2, 1), kind="espice", equal_costs=1)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"dropped": [0.5, 0.0]}, "ascending shares of events"),
        ({"work": [1.0, -1.0]}, "no negatives"),
        ({"kept": [1.0, float("nan")]}, "no negatives"),
        ({"kept": [1.0, None]}, "nulls"),
        ({"more": [1.0, 1.0]}, "another table"),
    ],
)
def test_a_malformed_effect_is_rejected(change: dict[str, list[Any]], match: str) -> None:
    model = positional.model()
    columns = {"dropped": [0.0, 0.5], "work": [1.0, 0.5], "kept": [1.0, 1.0]} | change
    table = pa.table({name: pa.array(values, pa.float64()) for name, values in columns.items()})
    with pytest.raises(ModelError, match=match):
        ESpiceModel.of(replace(model, parts={**model.parts, "effect": table}))
