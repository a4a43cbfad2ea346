"""What the figures of the hybrid paper share: parts over DS1, and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import fastcep as fc
from bench.papers.figures import Panel, Part, Picture
from bench.papers.hybrid.streams import LEARNED, q1, stream
from bench.papers.strategies import BASELINES, OURS

__all__ = ["EVENTS", "FOUR", "HISTORY", "MICRO", "REFERENCES", "STREAM", "TABLES", "learned", "on_ds1", "two"]

REFERENCES = ("oracle", "informed")
EVENTS = 300_000
#: That models are fitted on, at most.
HISTORY = 300_000
#: A microsecond per operation: with a nanosecond the year would come at more than an event per nanosecond.
MICRO = fc.CostTable("paper, in us", visited=1000, created=1000)
#: By cost table which index there is.
TABLES = {"paper": "key", "measured": "full"}
STREAM = "Q1 over DS1 with C.V from 2 to 10, a window of 8 ms (about 800 events)"
FOUR = {
    "recall": "recall",
    "speed": "relative throughput",
    "shed_event_ratio": "shed events, share",
    "shed_match_ratio": "shed partial matches, share",
}


def learned(make: Callable[..., Any], **more: Any) -> Callable[[int], Any]:
    """What there is to learn from where a stream is judged: another one, of another seed."""
    return partial(_learned, make, tuple(more.items()))


def _learned(make: Callable[..., Any], more: tuple[tuple[str, Any], ...], events: int) -> Any:
    return make(min(events, HISTORY), seed=LEARNED, **dict(more))


def on_ds1(name: str, size: int, strategies: tuple[str, ...] = (*BASELINES, *OURS), **options: Any) -> Part:
    """Q1 over DS1, by the papers' count of operations (``paper``) or what they take (``measured``)."""
    return Part(
        name, f'table `{name}`, `index="{TABLES[name]}"`', q1, stream, size, strategies,
        {"cost_table": name, "index": TABLES[name], **options}, REFERENCES, history=learned(stream),
    )  # fmt: skip


def two(part: str, xlabel: str, caption: str, only: tuple[str, ...] = (), log: bool = False) -> Picture:
    """Recall and throughput over what is varied."""
    ys: Mapping[str, str] = {"recall": FOUR["recall"], "speed": FOUR["speed"]}
    panels = tuple(
        Panel(part, "target", key, xlabel, label, only, log=log and key == "speed") for key, label in ys.items()
    )
    return Picture(part, caption, panels)
