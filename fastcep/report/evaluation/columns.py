"""The columns that the table for the terminal and the one of the page share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastcep.report.evaluation.cells import Cell, Evaluation
from fastcep.report.evaluation.number_text import duration, percent, ratio, spread, times

__all__ = ["Column", "columns"]


@dataclass(frozen=True)
class Column:
    """A column: its head, in few letters and in full, and what it says of a cell."""

    short: str
    told: str
    text: Callable[[Cell], str]
    bar: Callable[[Cell], float | None] | None = None  #: a share that is drawn behind the text


def columns(evaluation: Evaluation) -> list[Column]:
    """The columns of a mode: in all but ``demands`` with what the bound is compared with."""
    return [
        _share("recall", "share of the true matches that were found", "recall", bar=True),
        _share("estimated", "the recall as the shedder estimates it", "estimated_recall"),
        _share("precision", "share of what was found that is true", "precision"),
        *_latencies(evaluation),
        Column(
            "speed", "events per second of busy time, times that of the run without shedding",
            lambda cell: times(evaluation.throughput(cell)),
        ),
        _share("events", "share of the events that were shed, of those that some variable could bind",
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
        told = f"{statistic} of the processing latency over the bound: at most 1 holds it"
        return [Column(f"{statistic}/bound", told, lambda cell: ratio(evaluation.over_bound(cell))), p99]
    return [Column("mean", "mean processing latency", lambda cell: duration(cell.mean("mean_latency"))), p99]


def _share(short: str, told: str, key: str, bar: bool = False) -> Column:
    def text(cell: Cell) -> str:
        more = spread(cell, key) if key == "recall" else ""
        return f"{percent(cell.mean(key))} {more}".rstrip()

    return Column(short, told, text, (lambda cell: cell.mean(key)) if bar else None)
