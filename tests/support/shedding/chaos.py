"""Shedder with random drop plans, and detector with a constant demand, to stress the engine."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastcep.query import ast
from fastcep.query.patterns import positive_variables
from fastcep.shedding import Classes, Detector, DetectorReading, DropPlan, Load, QueryView, Shedder

TABLE = np.array([0, 1, 2], np.uint8)


class Always(Detector):
    """Detector with a constant demand."""

    name = "always"

    def __init__(self, amount: float = 0.5) -> None:
        self._amount = amount

    def read(self, load: Load) -> DetectorReading:
        return DetectorReading(0.0, amount=self._amount, why="always")

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "amount": self._amount}


class Chaos(Shedder):
    """Shedder with random drop probabilities at every decision; with ``calm``, all are 0."""

    name, slices, drops_matches, in_windows = "chaos", 3, True, True

    def __init__(self, seed: int, *, classes: bool, calm: bool = False) -> None:
        self.seed, self._classes, self._calm = seed, classes, calm
        self._random = random.Random(seed)

    def classes(self, query: ast.Query) -> Mapping[str, Classes]:
        """Return classes by an integer attribute of the last event, for variables whose types all have one."""
        classes = {}
        for variable in positive_variables(query.pattern) if self._classes else ():
            kinds = [dict(query.schema.attributes(name)) for name in variable.declaration.types]
            keys = [key for key in kinds[0] if all(kind.get(key) == "int64" for kind in kinds)]
            if keys and variable.group is None:
                end = "[last]" if variable.repeated else ""
                classes[variable.name] = Classes((f'{variable.name}{end}."{keys[0]}"',), (0,), TABLE, 3)
        return classes

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes]:
        return self.classes(query)

    def detector(self, of: str) -> Detector:
        return Always()

    def _draw(self, *shape: int) -> Any:
        choices = [0.0] if self._calm else [0.0, 0.0, 0.3, 0.7, 1.0]
        return np.array(self._random.choices(choices, k=int(np.prod(shape)))).reshape(shape)

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        plans = []
        for view in views:
            states, types = len(view.plan.states), len(view.plan.type_variables)
            assert view.live.sum() >= 0
            slices = (view.slices,) if self._random.random() < 0.5 else ()
            assert (view.flows()[1] > 0).all()
            windows = view.plan.windows is not None and view.plan.windows.isolated
            plans.append(DropPlan(
                events=self._draw(types) if self._random.random() < 0.5 else None,
                binds=self._draw(len(view.plan.negated), view.event_classes) if self._random.random() < 0.5 else None,
                windows=self._draw(types, 3) if windows else None,
                whole_windows=self._random.choice([0.0, 0.0, 0.3]) if windows and not self._calm else 0.0,
                bin=self._random.choice([1, 2]),
                births=self._draw(states, view.classes, *slices) if self._random.random() < 0.7 else None,
                drops=self._draw(states, view.classes, view.slices) if self._random.random() < 0.7 else None,
                steady=self._random.random() < 0.3, counts=float(self._random.choice([0.0, 0.01, 1.0])),
                kept=0.5,
            ))  # fmt: skip
        return plans

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "seed": self.seed}

    def state(self) -> dict[str, Any]:
        state = self._random.getstate()
        return {"random": [state[0], list(state[1]), state[2]]}

    def restore(self, state: Mapping[str, Any]) -> None:
        version, words, gauss = state["random"]
        self._random.setstate((version, tuple(words), gauss))
