"""Section on pSPICE of docs/unseen.md: its recall beside that of hybrid and of random shedding."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median, quantiles
from typing import Any

from bench.shedding_page import table
from bench.unseen.cells import COSTS, STATISTICS
from bench.unseen.results import rows_of
from bench.unseen.summary import EQUAL, Cell, cells_of

__all__ = ["pspice"]

_COMPARED = ("pspice", "hybrid", "pm-bl", "rs", "ri")
_OTHERS = _COMPARED[1:]
_PARTS = ("real", "random")
_MOST = 8  #: number of cells in a list


def pspice(results: dict[str, Any]) -> list[str]:
    """Return the section; none if there are no rows of pSPICE."""
    cells = [cell for part in _PARTS for cell in cells_of(rows_of(results, part)) if "pspice" in cell.rows]
    if not cells:
        return []
    groups = [
        (f"{costs}, {statistic}", [cell for cell in cells if cell.key[1:3] == (costs, statistic)])
        for costs in COSTS for statistic in STATISTICS
    ]  # fmt: skip
    failed = sorted({cell.key[0] for cell in cells if _failed(cell)})
    return [
        "## pSPICE\n",
        "[`pspice`](pspice.md) in these cells. *Missed* is the number of cells in which a shedder misses the bound. "
        "Recalls are means over the cells in which both `pspice` and `hybrid` hold it. *Above* is the share of these "
        "in which `pspice` finds at least as much as the other shedder (to 0.005), among those in which the other one "
        "holds the bound as well.\n",
        table(
            ("cells", "number", *(f"missed, `{name}`" for name in _COMPARED)),
            [[name, str(len(group)), *(str(_missed(group, shedder)) for shedder in _COMPARED)]
             for name, group in groups],
        ),
        table(
            ("cells", "number", *(f"recall, `{name}`" for name in _COMPARED), *(f"above `{name}`" for name in _OTHERS)),
            [_compared(name, group) for name, group in groups],
        ),
        *_used(groups),
        "**Where `hybrid` finds more**: " + _listed(cells, -1) + ".\n",
        "**Where `pspice` finds more**: " + _listed(cells, 1) + ".\n",
        *([f"No model could be fitted for {', '.join(failed)}.\n"] if failed else []),
    ]  # fmt: skip


def _failed(cell: Cell) -> bool:
    return str(cell.rows["pspice"]["error"]).startswith("fit:")


def _held(cell: Cell, *names: str) -> bool:
    return all(name in cell.rows and cell.rows[name]["error"] is None and cell.rows[name]["held"] for name in names)


def _missed(cells: Sequence[Cell], name: str) -> int:
    rows = [cell.rows[name] for cell in cells if name in cell.rows]
    return sum(row["error"] is None and not row["held"] for row in rows)


def _used(groups: Sequence[tuple[str, Sequence[Cell]]]) -> list[str]:
    """Return a paragraph on the share of the bound that pSPICE uses, for bounds on the mean that it holds."""
    clauses = []
    for name, cells in groups:
        shares = [float(cell.rows["pspice"]["mean"]) for cell in cells if _held(cell, "pspice")]
        if name.endswith("mean") and len(shares) > 1:
            lower = quantiles(shares, n=4, method="inclusive")[0]
            clauses.append(
                f"{median(shares):.2f} (median of {len(shares)} cells, {name}; lower quartile {lower:.2f}, least "
                f"{min(shares):.2f})"
            )
    if not clauses:
        return []
    return [
        "**How much of the bound is used.** Where `pspice` holds a bound on the mean processing latency, this mean, as "
        f"a share of the bound, is {' and '.join(clauses)}.\n"
    ]


def _compared(name: str, cells: Sequence[Cell]) -> list[str]:
    both = [cell for cell in cells if _held(cell, "pspice", "hybrid") and cell.rows["pspice"]["recall"] is not None]
    row = [name, str(len(both))]
    for shedder in _COMPARED:
        found = [cell.rows[shedder]["recall"] for cell in both if _held(cell, shedder)]
        row.append(f"{fmean(found):.3f}" if found else "–")
    for shedder in _OTHERS:
        gains = [_gain(cell, shedder) for cell in both if _held(cell, shedder)]
        row.append(f"{sum(gain >= -EQUAL for gain in gains) / len(gains):.0%}" if gains else "–")
    return row


def _gain(cell: Cell, other: str) -> float:
    return float(cell.rows["pspice"]["recall"] - cell.rows[other]["recall"])


def _listed(cells: Sequence[Cell], sign: int) -> str:
    """Return the cells in which pSPICE gains (sign 1) or loses (-1) most against hybrid."""
    both = [cell for cell in cells if _held(cell, "pspice", "hybrid") and cell.rows["pspice"]["recall"] is not None]
    best = sorted(both, key=lambda cell: -sign * _gain(cell, "hybrid"))[:_MOST]
    shown = [cell for cell in best if sign * _gain(cell, "hybrid") > EQUAL]
    return "; ".join(
        f"{cell.label} ({cell.rows['pspice']['recall']:.2f}, `hybrid` {cell.rows['hybrid']['recall']:.2f})"
        for cell in shown
    ) or "nowhere"  # fmt: skip
