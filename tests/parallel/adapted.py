"""Engines whose number of instances follows the load, on a clock that the test moves."""

from __future__ import annotations

from typing import Any

from parallel.streams import QUERY

from fastcep.parallel import ParallelEngine
from fastcep.parallel.adaptation.options import Adaptation
from fastcep.parallel.queueing.profile import Profile

SECOND = 10**9
#: An event takes 1 ms: 400 events/s need one instance, and 800 need two.
PROFILE = Profile.of({400: 1e6})


class Clock:
    """A clock that the test moves; it replaces that of the engine."""

    now = 0

    def __call__(self) -> int:
        return self.now


def options(**changed: Any) -> Adaptation:
    usual: dict[str, Any] = {"buffer_limit": 4, "most": 2, "samples": 200, "interval": "1s", "horizon": "2s",
                             "forecast": "naive", "profile": PROFILE, "margin": 0}  # fmt: skip
    return Adaptation(**usual | changed)


def adapted(workers: str = "threads", **changed: Any) -> ParallelEngine:
    return ParallelEngine(QUERY, instances=options(**changed), workers=workers)  # type: ignore[arg-type]
