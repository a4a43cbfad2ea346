"""Format numbers and findings as text. Unknown values are ``n/a``."""

from __future__ import annotations

from collections.abc import Sequence

from fastcep.plan.explain.text_helpers import shown
from fastcep.report.evaluation.cells import Cell, Evaluation

__all__ = [
    "NONE", "STATISTICS", "clock_text", "count", "duration", "headline", "is_close", "listed", "percent", "rate",
    "ratio", "spread", "target_text", "times",
]  # fmt: skip

NONE = "n/a"
STATISTICS = {"mean": "mean", "p95": "95th percentile", "p99": "99th percentile"}
_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_POWERS = ((" G", 1e9), (" M", 1e6), (" k", 1e3), ("", 1.0))
_ROUNDED = 0.9995  #: a number of at least this fraction of a unit is written as 1.00 of the unit
_TARGET_NOUNS = {"bounds": "bound", "rates": "rate", "demands": "demand"}


def duration(ns: float | None) -> str:
    """Format nanoseconds with three digits and a suitable unit, such as ``2.87 µs``."""
    if ns is None:
        return NONE
    if ns == 0:
        return "0 ns"
    unit, factor = next((entry for entry in _UNITS if abs(ns) >= _ROUNDED * entry[1]), _UNITS[-1])
    return f"{_digits(ns / factor)} {unit}"


def rate(value: float | None) -> str:
    """Format events per second, such as ``173 M/s``."""
    if value is None:
        return NONE
    power, factor = next((entry for entry in _POWERS if abs(value) >= _ROUNDED * entry[1]), _POWERS[-1])
    return f"{_digits(value / factor)}{power}/s"


def percent(share: float | None) -> str:
    """Format a share as a percentage with one decimal; only 0 and 1 become ``0.0 %`` and ``100.0 %``."""
    if share is None:
        return NONE
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    return f"{100 * share:.1f} %"


def ratio(value: float | None) -> str:
    """Format a factor with three decimals."""
    return NONE if value is None else f"{value:.3f}"


def times(value: float | None) -> str:
    """Format a factor, such as ``2.10×``."""
    return NONE if value is None else f"{_digits(value)}×"


def count(value: float | None) -> str:
    """Format a count with thousands separators."""
    return NONE if value is None else f"{value:,.0f}"


def spread(cell: Cell, key: str) -> str:
    """Format half the range over seeds and repeats, in percentage points, such as ``±0.4``; empty for a single run."""
    limits = cell.range(key)
    if limits is None or (len(cell.rows) == 1 and limits[0] == limits[1]):
        return ""
    return f"±{50 * (limits[1] - limits[0]):.1f}"


def _digits(value: float) -> str:
    """Format a number with three significant digits, without an exponent."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def target_text(evaluation: Evaluation, target: str) -> str:
    """Return the bound or the rate of a target; empty for a demand, which its label states."""
    if evaluation.mode == "bounds":
        return duration(evaluation.value_of(target, "bound"))
    if evaluation.mode == "rates":
        return rate(evaluation.value_of(target, "rate"))
    return ""


def clock_text(evaluation: Evaluation) -> str:
    """Return the clock, with the cost table of a virtual clock."""
    setting = evaluation.setting
    if setting["clock"] == "wall":
        return "wall clock"
    return f'virtual clock, cost table {shown(setting["cost_table"]["name"])}'


def listed(items: Sequence[str]) -> str:
    """Join items to a list such as ``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def headline(evaluation: Evaluation) -> str:
    """Return the winners, and the number of rows that do not count, in one or two sentences."""
    return " ".join([_wins(evaluation), *_not_counted(evaluation)])


def _wins(evaluation: Evaluation) -> str:
    noun = _TARGET_NOUNS[evaluation.mode]
    if not any(row.get("recall") is not None for row in evaluation.document["rows"]):
        return (
            f"No ratios are given: the run without shedding found {count(evaluation.truth['matches'])} matches, and a "
            "recall needs 1,000."
        )
    if evaluation.mode == "demands":
        return "There is no winner: at one demand strategies save different amounts of work; compare equal shed ratios."
    won: dict[str, list[str]] = {}
    for target in evaluation.targets:
        cell = evaluation.winner(target)
        if cell is not None:
            won.setdefault(cell.strategy.name, []).append(f"{target} ({percent(cell.mean('recall'))})")
    if not won:
        return f"There is no winner: no strategy has rows that count at any {noun}."
    ranked = sorted(won.items(), key=lambda entry: -len(entry[1]))
    nouns = noun if len(ranked[0][1]) == 1 else f"{noun}s"
    parts = [f"{name} found the most matches at the {nouns} {listed(targets)}" for name, targets in ranked[:1]]
    parts += [f"{name} at {listed(targets)}" for name, targets in ranked[1:]]
    without_winner = [target for target in evaluation.targets if evaluation.winner(target) is None]
    if without_winner:
        parts.append(f"there is no winner at {listed(without_winner)}")
    return " ".join([f"{'; '.join(parts)}.", *_close(evaluation, sum(map(len, won.values())))])


def _close(evaluation: Evaluation, won: int) -> list[str]:
    """Return a sentence on the number of wins within the spread of the seeds."""
    close = sum(is_close(evaluation, target) for target in evaluation.targets)
    if not close:
        return []
    where = "there" if won == 1 else f"at all {won}" if close == won else f"at {close} of these {won}"
    return [f"However, {where} the lead over the next is within the spread of the seeds."]


def is_close(evaluation: Evaluation, target: str) -> bool:
    """Return whether the recalls of the winner and of the next strategy overlap over seeds or repeats."""
    best = evaluation.winner(target)
    others = [cell for cell in evaluation.best(target, reference=False) if cell is not best]
    if best is None or not others:
        return False
    best_range, next_range = best.range("recall"), others[0].range("recall")
    return (
        best_range is not None
        and next_range is not None
        and best_range[0] < best_range[1]
        and next_range[1] >= best_range[0]
    )


def _not_counted(evaluation: Evaluation) -> list[str]:
    rows = evaluation.document["rows"]
    excluded = [row for row in rows if not row["counts"]]
    if not excluded:
        return [] if evaluation.mode == "demands" else [f"All {len(rows)} rows held their bounds."]
    over_bound = sum(row["held"] is False for row in excluded)
    idle = sum(not row["fired"] for row in excluded)
    reasons = [f"{over_bound} did not hold the bound"] * (over_bound > 0) + [f"{idle} shed nothing"] * (idle > 0)
    if len(excluded) == len(rows):
        return [f"None of the {len(rows)} rows counts: {listed(reasons) if reasons else 'see below'}."]
    verb = "does" if len(excluded) == 1 else "do"
    return [f"{len(excluded)} of {len(rows)} rows {verb} not count: {listed(reasons) if reasons else 'see below'}."]
