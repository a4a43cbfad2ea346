"""Columns of the terminal table, which the table of the page shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastcep.report.evaluation.cells import Cell, Evaluation
from fastcep.report.evaluation.number_text import duration, percent, ratio, spread, times

__all__ = ["Column", "columns"]


@dataclass(frozen=True)
class Column:
    """A column: its short head, its description, and its text for a cell."""

    head: str
    description: str
    text: Callable[[Cell], str]
    bar: Callable[[Cell], float | None] | None = None  #: share that is drawn as a bar in the background


def columns(evaluation: Evaluation) -> list[Column]:
    """Return the columns for the mode of an evaluation. Modes with a bound have a column that compares with it."""
    return [
        _share("recall", "share of the true matches that were found", "recall", bar=True),
        _share("estimated", "the recall as the shedder estimates it", "estimated_recall"),
        _share("precision", "share of the found matches that are true", "precision"),
        *_latencies(evaluation),
        Column(
            "speed", "events per second of busy time, relative to the run without shedding",
            lambda cell: times(evaluation.throughput(cell)),
        ),
        _share("events", "share of the events that were shed, among those that some variable could bind",
               "shed_event_ratio"),
        _share("p. matches", "share of the partial matches that were refused or dropped", "shed_match_ratio"),
        _share("overhead", "share of the busy time that decisions took", "overhead"),
    ]  # fmt: skip


def _latencies(evaluation: Evaluation) -> list[Column]:
    kind = "event" if evaluation.mode == "rates" else "processing"
    p99 = Column("p99", f"99th percentile of the {kind} latency", lambda cell: duration(cell.mean("p99_latency")))
    if evaluation.mode == "rates":
        return [
            Column("over bound", "share of the events whose latency is above the bound",
                   lambda cell: percent(cell.mean("share_over_bound"))),
            p99,
        ]  # fmt: skip
    if evaluation.mode == "bounds":
        statistic = evaluation.setting["statistic"]
        description = f"{statistic} of the processing latency, relative to the bound: holds up to 1"
        return [Column(f"{statistic}/bound", description, lambda cell: ratio(evaluation.over_bound(cell))), p99]
    return [Column("mean", "mean processing latency", lambda cell: duration(cell.mean("mean_latency"))), p99]


def _share(head: str, description: str, key: str, bar: bool = False) -> Column:
    def text(cell: Cell) -> str:
        spread_text = spread(cell, key) if key == "recall" else ""
        return f"{percent(cell.mean(key))} {spread_text}".rstrip()

    return Column(head, description, text, (lambda cell: cell.mean(key)) if bar else None)
