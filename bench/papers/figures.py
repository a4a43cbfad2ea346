"""Declaration of a figure: the paper's statement, the runs, the pictures and tables, and the findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import fastcep as fc
from bench.papers.results import PartResult

__all__ = ["Figure", "Panel", "Paper", "Part", "Picture", "Table"]


@dataclass(frozen=True)
class Part:
    """Runs of `fastcep.evaluate` under one or several settings: strategies with all seeds, references with one.

    Attributes
    ----------
    name, title
        Key of the part in the results, and its setting in Markdown.
    query, events
        Function that returns the query or queries, and function from the number of events to the stream.
    size, seeds
        Default numbers of events and of seeds.
    strategies, references
        Shedders to evaluate. Strategies and references that fastcep does not have are left out.
    options
        Options of `fastcep.evaluate`.
    history, model
        Function from the number of evaluated events to the history that strategies learn from, and options of the fit.
    points
        Settings to compare, each with one target: from a label, a number, to the fields that differ from this part.
        The labels then take the place of the targets.
    series
        Pairs of a shedder and a target whose latency or recall over time is stored.
    recall_intervals
        Number of equal intervals of the stream whose recall is stored, see `bench.papers.recall_over_time`; 0: latency
        over time is stored instead.
    queue
        With rates: number of events that take as long as the latency bound without shedding; the cost table is scaled
        to it, see `bench.papers.queueing`. 0: it is used as it is.
    shows_match_probability
        Whether the share of the partial matches that become matches is stored and shown.
    measure
        Function from the numbers of events and of seeds to the result to store, which replaces the evaluation.
    required_path
        Data that does not ship; if it is missing, the part is not run.
    shows_check
        Whether the page shows the message of ``Report.check``.
    """

    name: str
    title: str
    query: Callable[[], fc.Query | Sequence[fc.Query]]
    events: Callable[[int], pa.Table]
    size: int
    strategies: tuple[str, ...]
    options: Mapping[str, Any]
    references: tuple[str, ...] = ()
    seeds: int = 3
    series: tuple[tuple[str, str], ...] = ()
    shows_check: bool = False
    history: Callable[[int], pa.Table] | None = None
    model: Mapping[str, Any] = field(default_factory=dict)
    points: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    recall_intervals: int = 0
    queue: int = 0
    shows_match_probability: bool = False
    measure: Callable[[int, int], dict[str, Any]] | None = None
    required_path: Path | None = None

    @property
    def targets(self) -> list[str]:
        """Labels of the columns: targets, or labels of the points."""
        if self.points:
            return list(self.points)
        targets = next(self.options[mode] for mode in ("bounds", "rates", "demands") if mode in self.options)
        return [targets] if isinstance(targets, str) else list(targets)

    def at_point(self, label: str) -> Part:
        """Return the part with the setting of one of its points."""
        changes = dict(self.points[label])
        return replace(self, **{**changes, "options": {**self.options, **changes.get("options", {})}, "points": {}})


@dataclass(frozen=True)
class Panel:
    """Plot of one part: means over seeds, a line for each shedder; or latency or recall over time.

    Attributes
    ----------
    part
        Name of the part.
    x, y
        Keys of `PartResult.value`; with ``x="series"``, ``y`` (latency or recall) over time.
    xlabel, ylabel
        Labels of the axes.
    only
        Shedders to draw; empty: all.
    falling
        Whether x falls from left to right.
    log
        Whether y is on a logarithmic scale.
    """

    part: str
    x: str
    y: str
    xlabel: str
    ylabel: str
    only: tuple[str, ...] = ()
    falling: bool = False
    log: bool = False


@dataclass(frozen=True)
class Picture:
    """Panels side by side, ``columns`` in a row, in ``docs/images/papers/PAPER_FIGURE_NAME.svg``."""

    name: str
    caption: str
    panels: tuple[Panel, ...]
    columns: int = 2


@dataclass(frozen=True)
class Table:
    """Table of a part: a row for each shedder, a column for each target (empty: all), the keys' values in each cell."""

    part: str
    caption: str
    keys: tuple[str, ...] = ("recall",)
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """Figure of a paper, or a further experiment on the paper's setting.

    Attributes
    ----------
    paper, name
        Names of the paper and the figure: the results are in ``bench/results/papers/PAPER_NAME.json``.
    title
        Heading of its section.
    statement
        Summary of the paper's result.
    setup
        Description of the runs, in a few sentences.
    parts, pictures, tables
        Runs, pictures and tables.
    findings
        Function from the results to sentences that compare them with the paper and the strategies with each other.
    runs_alone
        Whether no other figure may run at the same time, because time is measured.
    """

    paper: str
    name: str
    title: str
    statement: str
    setup: str
    parts: tuple[Part, ...]
    pictures: tuple[Picture, ...]
    tables: tuple[Table, ...]
    findings: Callable[[Mapping[str, PartResult]], list[str]] = field(default=lambda parts: [])
    runs_alone: bool = False

    @property
    def stem(self) -> str:
        """Name of the results without their suffix, and prefix of the names of the pictures."""
        return f"{self.paper}_{self.name}"

    def restricted_to(self, names: Collection[str]) -> Figure:
        """Return the figure with only these parts, and only the pictures and tables that need no others."""
        return replace(
            self,
            parts=tuple(part for part in self.parts if part.name in names),
            pictures=tuple(
                picture for picture in self.pictures if {panel.part for panel in picture.panels} <= set(names)
            ),
            tables=tuple(table for table in self.tables if table.part in names),
        )


@dataclass(frozen=True)
class Paper:
    """Paper: the heading of its chapter, its figures, and paragraphs about all of them in Markdown."""

    title: str
    figures: tuple[Figure, ...]
    introduction: str = ""
