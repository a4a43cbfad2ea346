"""Summarise cells: where hybrid is at least as good as the baselines, where it misses its bound, and its estimates.

A cell is a case with a cost table, a statistic, a bound and a seed. Hybrid is compared at equal latency: with the
baselines that hold the bound, or, if hybrid misses it, that have at most hybrid's latency.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from bench.unseen.cells import BASELINES, TOLERANCE, UNATTAINABLE

__all__ = ["CLOSE", "Cell", "Summary", "cells_of", "estimate_error", "summary_of"]

Row = dict[str, Any]
#: Smaller differences of the recall do not count, and larger errors of the estimated recall are wrong estimates.
EQUAL, CLOSE = 0.005, 0.05


@dataclass(frozen=True)
class Cell:
    """Rows of one cell, by shedder.

    Attributes
    ----------
    key
        Case, costs, statistic, bound, seed.
    rows
        From the name of a shedder to its row.
    """

    key: tuple[Any, ...]
    rows: dict[str, Row]

    @property
    def label(self) -> str:
        """Name for reports."""
        case, costs, statistic, bound, seed = self.key
        return f"{case}, {costs}, {statistic} {bound}, seed {seed}"

    @property
    def hybrid(self) -> Row:
        """Row of hybrid."""
        return self.rows["hybrid"]

    @property
    def latency(self) -> float | None:
        """Latency of hybrid, by the statistic of the bound, as a share of the bound; None if it failed."""
        return _latency(self, self.hybrid)

    @property
    def best(self) -> Row | None:
        """Row of the baseline with the highest recall at hybrid's latency; None if all have a higher latency."""
        if self.latency is None:
            return None
        limit = max(TOLERANCE, self.latency)
        rows = [row for row in self._baselines if (_latency(self, row) or 0.0) <= limit]
        return max(rows, key=lambda row: row["recall"], default=None)

    @property
    def is_missed_by_all(self) -> bool:
        """Whether neither hybrid nor any baseline holds the bound."""
        return not any(row["held"] for row in (self.hybrid, *self._baselines))

    @property
    def gain(self) -> float | None:
        """Recall of hybrid minus that of the best baseline at its latency; None if there is none."""
        best = self.best
        return None if best is None else self.hybrid["recall"] - best["recall"]

    @property
    def is_as_good(self) -> bool:
        """Whether no baseline finds more at hybrid's latency."""
        return self.latency is not None and (self.gain is None or self.gain >= -EQUAL)

    @property
    def _baselines(self) -> list[Row]:
        """Rows of the baselines that ran."""
        rows = [self.rows[name] for name in BASELINES if name in self.rows]
        return [row for row in rows if row["error"] is None and row["recall"] is not None]


@dataclass(frozen=True)
class Summary:
    """Figures of a group of cells.

    Attributes
    ----------
    cells
        Cells with enough matches whose bound can be held by dropping every event.
    failed, missed, missed_by_all
        Cells in which hybrid fails, in which it misses the bound, and in which every baseline misses it as well.
    as_good
        Number of cells in which hybrid is at least as good as the best baseline at its latency.
    gains
        Cells with a gain, the worst first.
    estimates
        Rows with a recall and an estimate, each with its cell, the worst first.
    without_estimate
        Number of rows of hybrid without an estimate.
    """

    cells: list[Cell]
    failed: list[Cell]
    missed: list[Cell]
    missed_by_all: list[Cell]
    as_good: int
    gains: list[Cell]
    estimates: list[tuple[Cell, Row]]
    without_estimate: int

    @property
    def mean_gain(self) -> float:
        """Mean of the gains; NaN if there are none."""
        return fmean(cell.gain or 0.0 for cell in self.gains) if self.gains else float("nan")

    @property
    def gain_by_stream(self) -> dict[str, float]:
        """Mean gain over the cells of each stream, the smallest first."""
        gains: dict[str, list[float]] = {}
        for cell in self.gains:
            gains.setdefault(cell.key[0], []).append(cell.gain or 0.0)
        return dict(sorted(((name, fmean(values)) for name, values in gains.items()), key=lambda item: item[1]))

    @property
    def close(self) -> float:
        """Share of the estimates of hybrid that are within `CLOSE` of the recall."""
        return _share(estimate_error(row) <= CLOSE for _, row in self.estimates)

    @property
    def inside(self) -> float | None:
        """Share of the recalls inside the interval of the estimate; None if there are no intervals."""
        rows = [row for _, row in self.estimates if row["low"] is not None]
        return _share(row["low"] <= row["recall"] <= row["high"] for row in rows) if rows else None


def cells_of(rows: Iterable[Row]) -> list[Cell]:
    """Group rows into cells."""
    cells: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("case", "costs", "statistic", "bound", "seed"))
        cells.setdefault(key, {})[row["shedder"]] = row
    return [Cell(key, by_shedder) for key, by_shedder in cells.items() if "hybrid" in by_shedder]


def summary_of(cells: Sequence[Cell]) -> Summary:
    """Summarise cells."""
    cells = [
        cell for cell in cells
        if (cell.hybrid["error"] is not None and cell.hybrid["error"] != UNATTAINABLE) or cell.latency is not None
    ]  # fmt: skip
    failed = [cell for cell in cells if cell.hybrid["error"] is not None]
    ran = [cell for cell in cells if cell.latency is not None]
    missed = [cell for cell in ran if not cell.hybrid["held"]]
    estimates = [(cell, cell.hybrid) for cell in ran if cell.hybrid["estimated"] is not None]
    gains = [cell for cell in ran if cell.gain is not None]
    return Summary(
        cells=cells, failed=failed, missed=missed, missed_by_all=[cell for cell in missed if cell.is_missed_by_all],
        as_good=sum(cell.is_as_good for cell in cells), gains=sorted(gains, key=lambda cell: cell.gain or 0.0),
        estimates=sorted(estimates, key=lambda pair: -estimate_error(pair[1])),
        without_estimate=len(ran) - len(estimates),
    )  # fmt: skip


def estimate_error(row: Row) -> float:
    """Return the absolute error of the estimated recall."""
    return float(abs(row["estimated"] - row["recall"]))


def _latency(cell: Cell, row: Row) -> float | None:
    value = row[cell.key[2]]
    return None if row["error"] is not None or row["recall"] is None or value is None else float(value)


def _share(conditions: Iterable[bool]) -> float:
    values = list(conditions)
    return sum(values) / len(values) if values else float("nan")
