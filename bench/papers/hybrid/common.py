"""Building blocks of several figures of the hybrid paper: parts over DS1, pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fastcep as fc
from bench.papers.data import history_of
from bench.papers.figures import Panel, Part, Picture
from bench.papers.hybrid.streams import q1, stream
from bench.papers.strategies import BASELINES, OURS

__all__ = [
    "EVENTS", "MEASURES", "MICRO", "REFERENCES", "STREAM", "TABLES", "ds1_part", "recall_and_speed",
]  # fmt: skip

REFERENCES = ("oracle", "informed")
EVENTS = 300_000
#: One microsecond per operation: at one nanosecond, the maximum rate would exceed an event per nanosecond.
MICRO = fc.CostTable("paper, in us", visited=1000, created=1000)
#: Cost tables, and the index that each is used with.
TABLES = {"paper": "key", "measured": "full"}
STREAM = "Q1 over DS1 with C.V from 2 to 10, a window of 8 ms (about 800 events)"
#: Keys of values, and their labels.
MEASURES = {
    "recall": "recall",
    "speed": "relative throughput",
    "shed_event_ratio": "shed events, share",
    "shed_match_ratio": "shed partial matches, share",
}


def ds1_part(name: str, size: int, strategies: tuple[str, ...] = (*BASELINES, *OURS), **options: Any) -> Part:
    """Return a part that runs Q1 over DS1 with the cost table ``paper`` or ``measured``."""
    return Part(
        name, f'table `{name}`, `index="{TABLES[name]}"`', q1, stream, size, strategies,
        {"cost_table": name, "index": TABLES[name], **options}, REFERENCES, history=history_of(stream),
    )  # fmt: skip


def recall_and_speed(part: str, xlabel: str, caption: str, only: tuple[str, ...] = (), log: bool = False) -> Picture:
    """Return a picture of recall and throughput over the targets of a part."""
    ys: Mapping[str, str] = {"recall": MEASURES["recall"], "speed": MEASURES["speed"]}
    panels = tuple(
        Panel(part, "target", key, xlabel, label, only, log=log and key == "speed") for key, label in ys.items()
    )
    return Picture(part, caption, panels)
