"""What a figure is: the paper's statement, what is run for it, what is drawn of it, and what is said of the numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import fastcep as fc
from bench.papers.stored import Stored

__all__ = ["Figure", "Panel", "Paper", "Part", "Picture", "Table"]


@dataclass(frozen=True)
class Part:
    """Runs of `fastcep.evaluate` under one setting, or several: strategies with several seeds, references with one.

    Attributes
    ----------
    name, title
        A word, and the setting in Markdown.
    query, events
        What runs over what: ``events`` gives so many.
    size, seeds
        How many events, and seeds, if nothing else is asked for.
    strategies, references
        What is judged. Those that are not there (yet) are left out.
    options
        Of `fastcep.evaluate`.
    history, model
        What the strategies that learn learn from, by how many events are judged, and how.
    points
        Several settings, each with one target: by label, a number, what differs from this part. Then these labels
        stand where else targets do.
    series
        Shedders and targets whose latency over time is kept, or recall.
    recalls
        So many parts of the events have a recall of their own, see `bench.papers.course`; 0: latency is kept.
    needs
        Data that not everybody has; without it the part is left out.
    tells
        Whether the page shows what ``Report.check`` says.
    """

    name: str
    title: str
    query: Callable[[], fc.Query]
    events: Callable[[int], pa.Table]
    size: int
    strategies: tuple[str, ...]
    options: Mapping[str, Any]
    references: tuple[str, ...] = ()
    seeds: int = 3
    series: tuple[tuple[str, str], ...] = ()
    tells: bool = False
    history: Callable[[int], pa.Table] | None = None
    model: Mapping[str, Any] = field(default_factory=dict)
    points: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    recalls: int = 0
    needs: Path | None = None

    @property
    def targets(self) -> list[str]:
        """What its columns are: targets, or labels of points."""
        if self.points:
            return list(self.points)
        given = next(self.options[mode] for mode in ("bounds", "rates", "demands") if mode in self.options)
        return [given] if isinstance(given, str) else list(given)

    def at(self, label: str) -> Part:
        """The part at a point."""
        changes = dict(self.points[label])
        return replace(self, **{**changes, "options": {**self.options, **changes.get("options", {})}, "points": {}})


@dataclass(frozen=True)
class Panel:
    """A plot of one part: means over seeds, a line per shedder; or latency over time.

    Attributes
    ----------
    part
        Which.
    x, y
        What `Stored.value` knows; ``x="series"`` draws latency over time, or what ``y`` says.
    xlabel, ylabel
        Under and beside it.
    only
        These shedders; empty: all.
    falling
        Whether the largest x is on the left.
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
    """Panels beside each other, ``columns`` in a row: ``docs/images/papers/NAME.svg``."""

    name: str
    caption: str
    panels: tuple[Panel, ...]
    columns: int = 2


@dataclass(frozen=True)
class Table:
    """A table of a part: a row per shedder, a column per target, in each cell the keys' values; empty targets: all."""

    part: str
    caption: str
    keys: tuple[str, ...] = ("recall",)
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, or what stands for one.

    Attributes
    ----------
    paper, name
        Words: results are in ``bench/results/papers/PAPER_NAME.json``.
    title
        Of its section.
    statement
        What the paper says, in short.
    shown
        What is run here, in a sentence or two.
    parts, pictures, tables
        What is run, drawn and tabled.
    difference
        Says what is true of the stored numbers: between the paper's and ours, and between strategies.
    """

    paper: str
    name: str
    title: str
    statement: str
    shown: str
    parts: tuple[Part, ...]
    pictures: tuple[Picture, ...]
    tables: tuple[Table, ...]
    difference: Callable[[Mapping[str, Stored]], list[str]] = field(default=lambda parts: [])

    @property
    def file(self) -> str:
        """Name of its results, and how the names of its pictures begin."""
        return f"{self.paper}_{self.name}"

    def having(self, names: Collection[str]) -> Figure:
        """The figure with those of its parts, and of its pictures and tables that need no other ones."""
        return replace(
            self,
            parts=tuple(part for part in self.parts if part.name in names),
            pictures=tuple(one for one in self.pictures if {panel.part for panel in one.panels} <= set(names)),
            tables=tuple(one for one in self.tables if one.part in names),
        )


@dataclass(frozen=True)
class Paper:
    """A paper: its title here, its figures, and what is not here yet."""

    title: str
    figures: tuple[Figure, ...]
    later: str = ""
