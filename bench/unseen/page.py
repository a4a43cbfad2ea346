"""Write docs/unseen.md from ``results/unseen.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.shedding_page import table
from bench.unseen.cells import BASELINES, BOUNDS, COSTS, MOST_EVENTS, PLAYED_TIME, STATISTICS
from bench.unseen.failures import failures
from bench.unseen.kinds import kinds
from bench.unseen.pspice import pspice
from bench.unseen.results import read, rows_of
from bench.unseen.summary import CLOSE, Cell, Summary, cells_of, estimate_error, summary_of

__all__ = ["PAGE", "main", "page"]

PAGE = Path(__file__).parents[2] / "docs" / "unseen.md"
Columns = Mapping[str, Callable[[dict[str, Any]], str]]  #: from the head of a column to its text for a stored row
_WORST = 12  #: number of rows of the tables of the worst cells
_GROUPS = {"real": "real data", "random": "random streams"}
_PARTS = {**_GROUPS, "kinds": "kinds of queries", "wall": "wall clock", "pauses": "pauses", "ready": "being ready"}
_COSTS = {"measured": "decisions cost 30 us", "free": "decisions free"}


def page(results: dict[str, Any]) -> str:
    """Return the page."""
    environment = results["environment"]
    text = [
        "# Load shedding on unseen streams\n",
        "This page compares [shedders](shedding.md#shedders) on streams and queries that were not used to develop "
        "them: real data sets, each with one or two queries, and streams and queries drawn at random. The generated "
        "stream `ds1_reversed`, which changes in the middle of what is measured, is in the group of real data. Models "
        "are fitted on the first half of each stream; the second half is measured. `python -m bench.unseen` repeats "
        "the measurements and writes this page.\n",
        f"Measured with Python {environment['python']}: {_revisions(results)}.\n",
        *failures(results), *_virtual(results), *kinds(results), *pspice(results), *_wall(results), *_pauses(results),
        *_ready(results), *_queries(results),
    ]  # fmt: skip
    return "\n".join(text).rstrip() + "\n"


def _revisions(results: dict[str, Any]) -> str:
    """Return date and revision of each part."""
    return "; ".join(
        f"{_measurement(name)} on {item['date']} at revision {item['commit']}"
        for name, item in results.get("measured", {}).items()
    )


def _measurement(name: str) -> str:
    part, _, costs = name.partition(" ")
    return f"{_PARTS[part]}, {_COSTS[costs]}," if costs else _PARTS[part]


def _virtual(results: dict[str, Any]) -> list[str]:
    groups = {part: cells_of(rows_of(results, part)) for part in _GROUPS}
    groups = {part: cells for part, cells in groups.items() if cells}
    if not groups:
        return []
    whole = summary_of([cell for cells in groups.values() for cell in cells])
    by_group = [
        (f"{_GROUPS[part]}, {_COSTS[costs]}, {statistic}",
         [cell for cell in cells if cell.key[1:3] == (costs, statistic)])
        for part, cells in groups.items() for costs in COSTS for statistic in STATISTICS
    ]  # fmt: skip
    by_bound = [
        (f"{_COSTS[costs]}, {statistic} {bound}",
         [cell for cells in groups.values() for cell in cells if cell.key[1:4] == (costs, statistic, bound)])
        for costs in COSTS for statistic in STATISTICS for bound in BOUNDS
    ]  # fmt: skip
    header = (
        "group", "cells", "at least as good", "mean gain", "largest loss", "bound missed", "by all", "estimate close",
        "in interval", "largest error",
    )  # fmt: skip
    return [
        "## Virtual clock\n",
        "A cell is a stream with a cost table, a bound, and a seed. Bounds are 80, 50, 25 and 10 % of the mean or of "
        "the 95th percentile of the processing latency without shedding, with the default index and detector. The "
        "baselines are `ri`, `si`, `rs` and `ss`. None of these queries has explicit windows, so `espice` is compared "
        "on the kinds of queries below. A bound is held if the latency after the first 5 % of the events is "
        "at most 1 % above it. `hybrid` is compared with the baselines that hold the bound or, where `hybrid` misses "
        "it, that have at most its latency. Two cost tables are used: `measured`, in which a decision takes 30 us, and "
        "the same with decisions that cost nothing. With the first, the events are played again until an engine "
        f"without a shedder takes {PLAYED_TIME / 1e6:.0f} ms for them, at most {MOST_EVENTS:,} events, because a "
        "stream that is over after a few decisions says little about them. A shedder that adapts to the stream sees "
        "the same events several times, and a stream that changes does so in each play.\n",
        "* *at least as good*: the share of the cells in which no such baseline has a recall that is higher by more "
        "than 0.005;\n"
        "* *mean gain*, *largest loss*: recall of `hybrid` minus that of the best baseline;\n"
        "* *bound missed*: the number of cells in which `hybrid` misses the bound, and in which all baselines miss it "
        "too;\n"
        f"* *estimate close*, *in interval*: the share of the estimated recalls of `hybrid` that are within {CLOSE} of "
        "the recall, and the share of the recalls inside the interval of the estimate.\n",
        table(header, [_figures(name, summary_of(cells)) for name, cells in [*by_group, ("all", whole.cells)]]),
        *_by_stream(whole), "By bound:\n",
        table(header, [_figures(name, summary_of(cells)) for name, cells in by_bound]),
        *_worst(whole), *_overview(groups),
    ]  # fmt: skip


def _by_stream(summary: Summary) -> list[str]:
    """Return a sentence on the streams on which `hybrid` finds less than the best baseline, on average over cells."""
    gains = summary.gain_by_stream
    losses = [f"{name} ({gain:+.3f})" for name, gain in gains.items() if gain < 0]
    return [
        f"The mean gain over the cells of a stream is negative on {len(losses)} of {len(gains)} streams"
        + (f": {', '.join(losses)}" if losses else "") + ".\n"
    ]  # fmt: skip


def _figures(name: str, summary: Summary) -> list[str]:
    cells = len(summary.cells)
    if not cells:
        return [name, "0", *["–"] * 8]
    worst = summary.gains[0].gain if summary.gains else None
    errors = [estimate_error(row) for _, row in summary.estimates]
    return [
        name, str(cells), f"{summary.as_good / cells:.0%}", "–" if not summary.gains else f"{summary.mean_gain:+.3f}",
        "–" if worst is None else f"{max(0.0, -worst):.3f}",
        f"{len(summary.missed) + len(summary.failed)}", f"{len(summary.missed_by_all)}", f"{summary.close:.0%}",
        "–" if summary.inside is None else f"{summary.inside:.0%}", f"{max(errors, default=float('nan')):.3f}",
    ]  # fmt: skip


def _worst(summary: Summary) -> list[str]:
    losses = [cell for cell in summary.gains if (cell.gain or 0.0) < 0][:_WORST]
    missed = sorted(summary.missed, key=lambda cell: cell.latency or 0.0, reverse=True)
    text = [
        "**Largest losses.** Latencies are shares of the bound.\n",
        table(
            ("cell", "`hybrid`", "latency", "baseline", "recall", "latency", "decisions", "drift", "changes"),
            [[cell.label, f"{cell.hybrid['recall']:.3f}", f"{cell.latency:.2f}", f"`{best['shedder']}`",
              f"{best['recall']:.3f}", f"{best[cell.key[2]]:.2f}", str(cell.hybrid["decisions"]),
              _number(cell.hybrid["drift"]), _number(cell.hybrid["changes"])]
             for cell in losses if (best := cell.best) is not None],
        ),
        "**Largest errors of the estimate** of `hybrid`.\n",
        table(
            ("cell", "recall", "estimate", "decisions", "drift", "changes"),
            [[cell.label, f"{row['recall']:.3f}", f"{row['estimated']:.3f}", str(row["decisions"]),
              _number(row["drift"]), _number(row["changes"])] for cell, row in summary.estimates[:_WORST]],
        ),
        f"**Missed bounds.** The worst {min(_WORST, len(missed))} of {len(missed)} cells in which `hybrid` misses its "
        "bound, with the latency as a share of the bound, and the lowest latency of a baseline.\n",
        table(
            ("cell", "latency", "recall", "decisions", "lowest of a baseline"),
            [[cell.label, f"{cell.latency:.2f}", f"{cell.hybrid['recall']:.3f}", str(cell.hybrid["decisions"]),
              f"{min(row[cell.key[2]] for name, row in cell.rows.items() if name in BASELINES):.2f}"]
             for cell in missed[:_WORST]],
        ),
        "All cells in which `hybrid` misses its bound: " + "; ".join(_grouped(missed)) + ".\n" if missed else "",
    ]  # fmt: skip
    if summary.failed:
        text += ["Failed: " + "; ".join(f"{cell.label}: {cell.hybrid['error']}" for cell in summary.failed) + ".\n"]
    return text


def _grouped(cells: Sequence[Cell]) -> list[str]:
    """Return one item for each case, costs and statistic, with the bounds that are missed."""
    bounds: dict[str, list[str]] = {}
    for cell in sorted(cells, key=lambda cell: (*map(str, cell.key[:3]), -int(cell.key[3].rstrip("%")))):
        case, costs, statistic, bound, _ = cell.key
        bounds.setdefault(f"{case} ({costs}, {statistic}", []).append(bound)
    return [f"{name} {', '.join(dict.fromkeys(missed))})" for name, missed in bounds.items()]


def _overview(groups: dict[str, list[Cell]]) -> list[str]:
    """Return a table with the recall of hybrid and the best baseline for each case, where decisions are free."""
    columns = [(statistic, bound) for statistic in STATISTICS for bound in BOUNDS]
    cells = {cell.key: cell for group in groups.values() for cell in group if cell.key[1] == "free"}
    pairs = list(dict.fromkeys((key[0], key[4]) for key in cells))
    rows = [
        [f"{case}, seed {seed}", *(_pair(cells.get((case, "free", *column, seed))) for column in columns)]
        for case, seed in pairs
    ]
    return [
        "**Recall by stream**, with free decisions: `hybrid` / best baseline at its latency. An asterisk marks a bound "
        "that `hybrid` misses.\n",
        table(("stream", *(f"{statistic} {bound}" for statistic, bound in columns)), rows),
    ]


def _pair(cell: Cell | None) -> str:
    if cell is None or cell.latency is None:
        return ""
    best = cell.best
    missed = "" if cell.hybrid["held"] else "\\*"
    return f"{cell.hybrid['recall']:.2f}{missed} / {'–' if best is None else format(best['recall'], '.2f')}"


def _section(results: dict[str, Any], part: str, title: str, text: str, columns: Columns) -> list[str]:
    """Return a section with a row for each stored row of a part; none without rows."""
    rows = list(rows_of(results, part))
    if not rows:
        return []
    cells = [[show(row) for show in columns.values()] for row in rows]
    return [f"## {title}\n", f"{text}\n", table(tuple(columns), cells)]


def _wall(results: dict[str, Any]) -> list[str]:
    return _section(
        results, "wall", "Wall clock",
        "Events arrive at 120, 150 and 200 % of the maximum rate. Each row has, after the first 10 % of the events, "
        "the share of the events within the bound, the longest event latency, the recall, the estimated recall, the "
        "number of decisions, and the share of the time that shedding took.",
        {
            "stream": lambda row: row["case"], "bound": lambda row: row["bound"],
            "rate": lambda row: f"{row['rate']:.0%}", "shedder": _shedder,
            "within": lambda row: f"{row['within']:.2%}", "longest, ms": lambda row: f"{row['longest_ms']:.0f}",
            "recall": lambda row: f"{row['recall']:.3f}", "estimate": lambda row: _number(row["estimated"]),
            "decisions": lambda row: str(row["decisions"]), "overhead": lambda row: f"{row['overhead']:.1%}",
        },
    )  # fmt: skip


def _pauses(results: dict[str, Any]) -> list[str]:
    return _section(
        results, "pauses", "Pauses",
        "DS1 at 60 % of the maximum rate with a bound of 50 ms, on the wall clock. The consumer pauses once, or not at "
        "all. The last column is the share of the matches lost, divided by the share of the events that wait longer "
        "than the bound when the pause ends.",
        {
            "pause, ms": lambda row: f"{1000 * row['pause']:.0f}", "shedder": _shedder,
            "recall": lambda row: f"{row['recall']:.4f}", "estimate": lambda row: _number(row["estimated"]),
            "events dropped": lambda row: f"{row['dropped_events']:,}",
            "partial matches dropped": lambda row: f"{row['dropped_matches']:,}",
            "decisions": lambda row: str(row["decisions"]),
            "loss": lambda row: f"{(1 - row['recall']) / row['allowed']:.1f}" if row["allowed"] else "–",
        },
    )  # fmt: skip


def _ready(results: dict[str, Any]) -> list[str]:
    return _section(
        results, "ready", "Being ready",
        "CPU time of engines with a shedder and a bound of an hour, which nothing exceeds, divided by that of one "
        "with the same store (rows) and without a bound: the median over alternating passes of a million events. "
        "`auto` records its history in this time.",
        {"stream": lambda row: row["case"], "shedder": _shedder, "ratio": lambda row: f"{row['ratio']:.3f}"},
    )


def _shedder(row: dict[str, Any]) -> str:
    return f"`{row['shedder']}`"


def _queries(results: dict[str, Any]) -> list[str]:
    """Return the queries, with the size of each stream."""
    text = ["## Streams and queries\n"]
    for part in _GROUPS:
        seen = set()
        for cases in results["parts"].get(part, {}).values():
            for name, result in cases.items():
                if name in seen:
                    continue
                seen.add(name)
                notes = f" {'; '.join(result['notes'])}." if result["notes"] else ""
                plays = result.get("plays", 1)
                played = f", played {plays} times where decisions cost 30 us" if plays > 1 else ""
                text.append(
                    f"**{name}**: {result['events']:,} events measured, {result['matches']:,} matches, "
                    f"{result['mean']:,.0f} ns mean latency{played}.{notes}\n\n"
                    f"```text\nQUERY{result['query'].rstrip()}\n```\n"
                )
    return text if len(text) > 1 else []


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(read()), encoding="utf-8")


if __name__ == "__main__":
    main()
