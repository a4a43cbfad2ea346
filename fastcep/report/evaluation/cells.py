"""Access to the document of an evaluation: rows by strategy and target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from fastcep.errors import ValidationError

__all__ = ["Cell", "Evaluation", "Strategy"]

FORMAT = 1
_IDENTITY = ("target", "seed", "recall", "precision", "shed_events", "shed_matches", "mean_latency")
_MOST_EXPANDED = 3  #: targets whose charts are expanded; the others are collapsed


@dataclass(frozen=True)
class Strategy:
    """A strategy, or a reference, which never wins."""

    name: str
    label: str
    reference: bool


@dataclass(frozen=True)
class Cell:
    """All rows of a strategy at a target: one for each seed. On the wall clock, a row summarises its repeats.

    Attributes
    ----------
    strategy, target
        The strategy, and the name of the target.
    rows
        Rows of the document, at least one.
    """

    strategy: Strategy
    target: str
    rows: Sequence[Mapping[str, Any]]

    def mean(self, key: str) -> float | None:
        """Return the mean over the seeds with a known value; None if no value is known."""
        values = [row[key] for row in self.rows if row.get(key) is not None]
        return fmean(values) if values else None

    def range(self, key: str) -> tuple[float, float] | None:
        """Return the smallest and the largest value over seeds and repeats; None if no value is known."""
        values = [row[key] for row in self.rows if row.get(key) is not None]
        for row in self.rows:
            values += [value for value in row.get("spread", {}).get(key) or () if value is not None]
        return (min(values), max(values)) if values else None

    @property
    def counts(self) -> bool:
        """True if all rows count."""
        return all(row["counts"] for row in self.rows)

    @property
    def reasons(self) -> list[str]:
        """Distinct reasons why rows do not count."""
        return list(dict.fromkeys(row["why"] for row in self.rows if not row["counts"]))

    def seeds_prefix(self, reason: str) -> str:
        """Return the seeds that a reason applies to, such as ``seed 3: ``; empty if it applies to all."""
        seeds = list(dict.fromkeys(str(row["seed"]) for row in self.rows if row["why"] == reason and not row["counts"]))
        if len(seeds) == len({row["seed"] for row in self.rows}):
            return ""
        return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}: "

    @property
    def reason(self) -> str:
        """First reason why rows do not count, and the number of other reasons."""
        first, *others = self.reasons or [""]
        return f"{first} (and {len(others)} more)" if others else first


class Evaluation:
    """The document of an evaluation, with access by strategy and target.

    Parameters
    ----------
    document
        Document of an evaluation.

    Raises
    ------
    ValidationError
        If it is not a document of a supported format.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            version = document.get("format") if isinstance(document, Mapping) else type(document).__name__
            raise ValidationError(
                f"cannot show an evaluation of format {version!r}; expected the document of fastcep.evaluate, "
                f"of format {FORMAT}"
            )
        self.document = document
        self.setting: Mapping[str, Any] = document["setting"]
        self.truth: Mapping[str, Any] = document["truth"]
        self.mode: str = self.setting["mode"]
        self.strategies = [
            Strategy(entry["name"], entry.get("label") or entry["name"], bool(entry.get("reference")))
            for entry in self.setting["strategies"]
        ]
        self.targets: list[str] = list(self.setting["targets"])

    @cached_property
    def cells(self) -> dict[tuple[str, str], Cell]:
        """Cells by name of strategy and target; only those with rows."""
        rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for row in self.document["rows"]:
            rows.setdefault((row["shedder"], row["target"]), []).append(row)
        return {
            (strategy.name, target): Cell(strategy, target, rows[strategy.name, target])
            for target in self.targets
            for strategy in self.strategies
            if (strategy.name, target) in rows
        }

    def cells_of(self, target: str) -> Iterator[Cell]:
        """Yield the cells of a target, references last."""
        for reference in (False, True):
            for strategy in self.strategies:
                if strategy.reference == reference and (strategy.name, target) in self.cells:
                    yield self.cells[strategy.name, target]

    @cached_property
    def ordered(self) -> list[str]:
        """Targets from loose to tight: by descending bound, or by ascending rate or demand."""
        key, sign = {"bounds": ("bound", -1), "rates": ("rate", 1), "demands": ("demand", 1)}[self.mode]
        return sorted(self.targets, key=lambda target: sign * (self.value_of(target, key) or 0.0))

    def value_of(self, target: str, key: str) -> float | None:
        """Return a value that all rows of a target share, such as the bound."""
        return next((row[key] for row in self.document["rows"] if row["target"] == target and row.get(key)), None)

    @cached_property
    def expanded(self) -> list[str]:
        """Targets whose charts are expanded: the loosest, one in the middle and the tightest."""
        targets = self.ordered
        if len(targets) <= _MOST_EXPANDED:
            return targets
        return [targets[0], targets[len(targets) // 2], targets[-1]]

    @property
    def statistic(self) -> str:
        """Key, in a row, of the latency that is compared with the bound."""
        return f"{self.setting.get('statistic', 'mean')}_latency"

    def over_bound(self, cell: Cell, key: str | None = None) -> float | None:
        """Return the latency of a cell divided by its bound."""
        latency, bound = cell.mean(key or self.statistic), cell.mean("bound")
        return latency / bound if latency is not None and bound else None

    def throughput(self, cell: Cell) -> float | None:
        """Return the throughput of a cell divided by that of the run without shedding."""
        throughput, unshed = cell.mean("throughput"), self.truth.get("throughput")
        return throughput / unshed if throughput is not None and unshed else None

    @cached_property
    def failures(self) -> list[tuple[str, list[Cell], tuple[str, ...]]]:
        """Cells with rows that do not count: the target, the cells that share the reasons, and the reasons."""
        groups: dict[tuple[str, tuple[str, ...]], list[Cell]] = {}
        for target in self.targets:
            for cell in self.cells_of(target):
                if not cell.counts:
                    reasons = tuple(f"{cell.seeds_prefix(reason)}{reason}" for reason in cell.reasons)
                    groups.setdefault((target, reasons), []).append(cell)
        return [(target, cells, reasons) for (target, reasons), cells in groups.items()]

    @cached_property
    def identical(self) -> list[list[str]]:
        """Groups of strategies whose rows show the same shedding and the same results everywhere."""
        groups: dict[tuple[Any, ...], list[str]] = {}
        for strategy in self.strategies:
            rows = [row for row in self.document["rows"] if row["shedder"] == strategy.name]
            values = tuple(tuple(row.get(key) for key in _IDENTITY) for row in rows)
            if any(row["fired"] for row in rows):
                groups.setdefault(values, []).append(strategy.name)
        return [names for names in groups.values() if len(names) > 1]

    def winner(self, target: str) -> Cell | None:
        """Return the cell that won at a target, None if there is no winner."""
        name = self.document["wins"].get(target)
        return None if name is None else self.cells.get((name, target))

    def best(self, target: str, *, reference: bool) -> list[Cell]:
        """Return the cells of strategies, or of references, that count and have a known recall, best first."""
        cells = [
            cell
            for cell in self.cells_of(target)
            if cell.strategy.reference == reference and cell.counts and cell.mean("recall") is not None
        ]
        return sorted(cells, key=lambda cell: -(cell.mean("recall") or 0.0))
