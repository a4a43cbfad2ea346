"""The document of an evaluation, read for drawing: rows by strategy and target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from fastcep.errors import ValidationError

__all__ = ["Cell", "Evaluation", "Strategy"]

FORMAT = 1
_ALIKE = ("target", "seed", "recall", "precision", "shed_events", "shed_matches", "mean_latency")
_MOST_SHOWN = 3  #: targets of which the large pictures are shown; the others are folded


@dataclass(frozen=True)
class Strategy:
    """A strategy, or a reference that never wins."""

    name: str
    label: str
    reference: bool


@dataclass(frozen=True)
class Cell:
    """All rows of a strategy at a target: one for every seed, and on the wall clock their repeats in each.

    Attributes
    ----------
    strategy, target
        What was judged.
    rows
        As the document has them, at least one.
    """

    strategy: Strategy
    target: str
    rows: Sequence[Mapping[str, Any]]

    def mean(self, key: str) -> float | None:
        """The mean over the seeds of what is known; None if nothing is."""
        values = [row[key] for row in self.rows if row.get(key) is not None]
        return fmean(values) if values else None

    def range(self, key: str) -> tuple[float, float] | None:
        """The least and the largest value over seeds and repeats; None if nothing is known."""
        values = [row[key] for row in self.rows if row.get(key) is not None]
        for row in self.rows:
            values += [value for value in row.get("spread", {}).get(key) or () if value is not None]
        return (min(values), max(values)) if values else None

    @property
    def counts(self) -> bool:
        """Whether all rows count."""
        return all(row["counts"] for row in self.rows)

    @property
    def whys(self) -> list[str]:
        """Why rows do not count, each reason once."""
        return list(dict.fromkeys(row["why"] for row in self.rows if not row["counts"]))

    def seeds(self, why: str) -> str:
        """Of which seeds a reason is, as the begin of a line; nothing if of all."""
        seeds = list(dict.fromkeys(str(row["seed"]) for row in self.rows if row["why"] == why and not row["counts"]))
        if len(seeds) == len({row["seed"] for row in self.rows}):
            return ""
        return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}: "

    @property
    def why(self) -> str:
        """The first of these; how many seeds have others."""
        first, *others = self.whys or [""]
        return f"{first} (and {len(others)} more)" if others else first


class Evaluation:
    """A document, with what stands where in it.

    Parameters
    ----------
    document
        Of an evaluation.

    Raises
    ------
    ValidationError
        If it is none of a known format.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            found = document.get("format") if isinstance(document, Mapping) else type(document).__name__
            raise ValidationError(
                f"cannot show an evaluation of format {found!r}; expected the document of fastcep.evaluate, of format "
                f"{FORMAT}"
            )
        self.document = document
        self.setting: Mapping[str, Any] = document["setting"]
        self.truth: Mapping[str, Any] = document["truth"]
        self.mode: str = self.setting["mode"]
        self.strategies = [
            Strategy(each["name"], each.get("label") or each["name"], bool(each.get("reference")))
            for each in self.setting["strategies"]
        ]
        self.targets: list[str] = list(self.setting["targets"])

    @cached_property
    def cells(self) -> dict[tuple[str, str], Cell]:
        """By the names of strategy and target; those without rows are not there."""
        rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for row in self.document["rows"]:
            rows.setdefault((row["shedder"], row["target"]), []).append(row)
        return {
            (strategy.name, target): Cell(strategy, target, rows[strategy.name, target])
            for target in self.targets
            for strategy in self.strategies
            if (strategy.name, target) in rows
        }

    def of(self, target: str) -> Iterator[Cell]:
        """The cells of a target, references last."""
        for reference in (False, True):
            for strategy in self.strategies:
                if strategy.reference == reference and (strategy.name, target) in self.cells:
                    yield self.cells[strategy.name, target]

    @cached_property
    def ordered(self) -> list[str]:
        """The targets from loose to tight: falling bounds, rising rates or demands."""
        key, sign = {"bounds": ("bound", -1), "rates": ("rate", 1), "demands": ("demand", 1)}[self.mode]
        return sorted(self.targets, key=lambda target: sign * (self.common(target, key) or 0.0))

    def common(self, target: str, key: str) -> float | None:
        """What a target's rows share, such as their bound."""
        return next((row[key] for row in self.document["rows"] if row["target"] == target and row.get(key)), None)

    @cached_property
    def shown(self) -> list[str]:
        """The targets that are told about at length: the loosest, one in the middle and the tightest."""
        targets = self.ordered
        if len(targets) <= _MOST_SHOWN:
            return targets
        return [targets[0], targets[len(targets) // 2], targets[-1]]

    @property
    def statistic(self) -> str:
        """The key in a row of the latency that is compared with a bound."""
        return f"{self.setting.get('statistic', 'mean')}_latency"

    def over_bound(self, cell: Cell, key: str | None = None) -> float | None:
        """The latency of a cell over its bound."""
        latency, bound = cell.mean(key or self.statistic), cell.mean("bound")
        return latency / bound if latency is not None and bound else None

    def throughput(self, cell: Cell) -> float | None:
        """The throughput of a cell over that of the truth."""
        own, plain = cell.mean("throughput"), self.truth.get("throughput")
        return own / plain if own is not None and plain else None

    @cached_property
    def failures(self) -> list[tuple[str, list[Cell], tuple[str, ...]]]:
        """Where rows do not count: a target, the cells that fail there for the same reasons, and these."""
        found: dict[tuple[str, tuple[str, ...]], list[Cell]] = {}
        for target in self.targets:
            for cell in self.of(target):
                if not cell.counts:
                    whys = tuple(f"{cell.seeds(why)}{why}" for why in cell.whys)
                    found.setdefault((target, whys), []).append(cell)
        return [(target, cells, whys) for (target, whys), cells in found.items()]

    @cached_property
    def same(self) -> list[list[str]]:
        """Names of strategies that shed and found the same everywhere, as far as the rows tell."""
        found: dict[tuple[Any, ...], list[str]] = {}
        for strategy in self.strategies:
            rows = [row for row in self.document["rows"] if row["shedder"] == strategy.name]
            told = tuple(tuple(row.get(key) for key in _ALIKE) for row in rows)
            if any(row["fired"] for row in rows):
                found.setdefault(told, []).append(strategy.name)
        return [names for names in found.values() if len(names) > 1]

    def winner(self, target: str) -> Cell | None:
        """The cell that won at a target; None: nobody did."""
        name = self.document["wins"].get(target)
        return None if name is None else self.cells.get((name, target))

    def best(self, target: str, *, reference: bool) -> list[Cell]:
        """The cells of strategies, or of references, that count and whose recall is known; the best first."""
        found = [
            cell
            for cell in self.of(target)
            if cell.strategy.reference == reference and cell.counts and cell.mean("recall") is not None
        ]
        return sorted(found, key=lambda cell: -(cell.mean("recall") or 0.0))
