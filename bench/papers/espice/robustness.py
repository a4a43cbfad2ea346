"""Fig. 8 and 9: windows of other sizes than the model's, and bins of several positions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bench.papers.data import HISTORY_SEED, SEED
from bench.papers.espice.cases import CASES, equal_costs_part
from bench.papers.espice.findings_fig7_10 import over_bins, over_window_sizes
from bench.papers.espice.operator import RATES, EqualCosts
from bench.papers.figures import Figure, Panel, Part, Picture, Table
from bench.papers.strategies import ESPICE

__all__ = ["FIG8", "FIG9"]

#: Sizes of the windows in percent of the mean, and in milliseconds of the stream a period with one size.
SIZES = {"q1": (75, 87, 100, 112, 125), "q2": (75, 83, 100, 108, 125)}
BINS = (1, 4, 16, 64)
_PERIOD = 600_000
#: Size of the match of each query.
_N = {"q1": 5, "q2": 20}
_MISSED = "false negatives, share"


def paced(table: pa.Table, percent: int) -> pa.Table:
    """Return a stream whose windows hold another number of events, because its events arrive faster or slower.

    Parameters
    ----------
    table
        Events with the time ``ts`` in milliseconds.
    percent
        Number of events in a window, in percent of that before.
    """
    times = (table["ts"].to_numpy() * 100) // percent
    return table.set_column(table.schema.get_field_index("ts"), "ts", pa.array(times))


def at_several_paces(table: pa.Table, percents: tuple[int, ...], seed: int = HISTORY_SEED) -> pa.Table:
    """Return a stream that has one of several paces, drawn anew after every 10 minutes."""
    times = table["ts"].to_numpy()
    periods = (times - times[0]) // _PERIOD
    drawn = np.random.default_rng(seed).choice(percents, int(periods[-1]) + 1)
    steps = np.diff(times, prepend=times[0]) * 100 // drawn[periods]
    return table.set_column(table.schema.get_field_index("ts"), "ts", pa.array(np.cumsum(steps)))


def _events(name: str, percent: int, events: int, seed: int = SEED) -> pa.Table:
    """Return the stream of a case at one pace."""
    return paced(CASES[name].events(events), percent)


def _history(name: str, events: int) -> pa.Table:
    """Return the history of a case at several paces."""
    return at_several_paces(CASES[name].history(events), SIZES[name])


def _part(name: str, rate: str, points: dict[str, dict[str, Any]], kind: str) -> Part:
    case = CASES[name]
    return equal_costs_part(
        case, "first", rate, (ESPICE,), points=points, query=partial(case.query, _N[name], "first"),
        title=f"{name.upper()}, n = {_N[name]}, {rate.replace('%', ' %')}", name=f"{name}_{kind}_{rate.rstrip('%')}",
    )  # fmt: skip


def _over_sizes(name: str, rate: str) -> Part:
    query = partial(CASES[name].query, _N[name], "first")
    points: dict[str, dict[str, Any]] = {}
    for percent in SIZES[name]:
        events = partial(_events, name, percent)
        points[f"{percent}"] = {
            "measure": EqualCosts(query, events, partial(_history, name), rate, (ESPICE,)), "events": events,
        }  # fmt: skip
    return _part(name, rate, points, "sizes")


def _over_bins(name: str, rate: str) -> Part:
    case = CASES[name]
    query = partial(case.query, _N[name], "first")
    points: dict[str, dict[str, Any]] = {
        f"{bins}": {"measure": EqualCosts(query, case.events, case.history, rate, (ESPICE,), (("bin", bins),))}
        for bins in BINS
    }
    return _part(name, rate, points, "bins")


def _figure(
    name: str, title: str, statement: str, setup: str, xlabel: str, parts: tuple[Part, ...], findings: Any
) -> Figure:
    return Figure(
        "espice", name, title, statement, setup, parts,
        (
            Picture(
                "missed", f"False negatives over the {xlabel}",
                tuple(Panel(part.name, "target", "missed", f"{xlabel} ({part.title})", _MISSED) for part in parts),
            ),
        ),
        tuple(
            Table(part.name, f"False negatives, false positives, {part.title}; columns are the {xlabel}",
                  ("missed", "false_positives"))
            for part in parts
        ),
        findings,
    )  # fmt: skip


FIG8 = _figure(
    "fig8", "Fig. 8: windows of other sizes",
    "For Q1 “the percentage of false negatives is only slightly influenced by the used window size”; for Q2 it "
    "“increases when the difference between N and the window size increases”.",
    "Windows hold 75 to 125 % of the mean number of events, because events arrive faster or slower. In the history, "
    "one of these paces is drawn for every 10 minutes.",
    "window in percent of the mean size",
    tuple(_over_sizes(name, rate) for name in SIZES for rate in RATES),
    over_window_sizes,
)  # fmt: skip
FIG9 = _figure(
    "fig9", "Fig. 9: bins",
    "For Q1 the percentage of false negatives “is slightly influenced by the used bin size”; for Q2 it “increases with "
    "the used bin size”.",
    "Models with 1 to 64 positions in a bin.",
    "positions in a bin",
    tuple(_over_bins(name, rate) for name in SIZES for rate in RATES),
    over_bins,
)  # fmt: skip
