"""Numbers and findings in words: what is unknown is ``n/a``."""

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
_ROUNDED = 0.9995  #: from this part of a unit on a number is written as 1.00 of it
_WHAT = {"bounds": "bound", "rates": "rate", "demands": "demand"}


def duration(ns: float | None) -> str:
    """Nanoseconds with three digits and the unit that fits, such as ``2.87 µs``."""
    if ns is None:
        return NONE
    if ns == 0:
        return "0 ns"
    unit, factor = next((each for each in _UNITS if abs(ns) >= _ROUNDED * each[1]), _UNITS[-1])
    return f"{_digits(ns / factor)} {unit}"


def rate(value: float | None) -> str:
    """Events per second, such as ``173 M/s``."""
    if value is None:
        return NONE
    power, factor = next((each for each in _POWERS if abs(value) >= _ROUNDED * each[1]), _POWERS[-1])
    return f"{_digits(value / factor)}{power}/s"


def percent(share: float | None) -> str:
    """A share with one digit behind the point; what is not none, or not all, never looks like it."""
    if share is None:
        return NONE
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    return f"{100 * share:.1f} %"


def ratio(value: float | None) -> str:
    """A factor with three digits behind the point."""
    return NONE if value is None else f"{value:.3f}"


def times(value: float | None) -> str:
    """A factor as ``2.1×``."""
    return NONE if value is None else f"{_digits(value)}×"


def count(value: float | None) -> str:
    """A number of things."""
    return NONE if value is None else f"{value:,.0f}"


def spread(cell: Cell, key: str) -> str:
    """Half of what the seeds and repeats differ by, in points of a share, as ``±0.4``; empty if there is one only."""
    found = cell.range(key)
    if found is None or (len(cell.rows) == 1 and found[0] == found[1]):
        return ""
    return f"±{50 * (found[1] - found[0]):.1f}"


def _digits(value: float) -> str:
    """Three digits that count, without an exponent."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def target_text(evaluation: Evaluation, target: str) -> str:
    """What a target comes to: the bound or the rate; empty where its label says all."""
    if evaluation.mode == "bounds":
        return duration(evaluation.common(target, "bound"))
    if evaluation.mode == "rates":
        return rate(evaluation.common(target, "rate"))
    return ""


def clock_text(evaluation: Evaluation) -> str:
    """The clock, and on the virtual one the cost table."""
    setting = evaluation.setting
    if setting["clock"] == "wall":
        return "wall clock"
    return f'virtual clock, cost table {shown(setting["cost_table"]["name"])}'


def listed(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def headline(evaluation: Evaluation) -> str:
    """Who won where, and what does not count, in a sentence or two."""
    return " ".join([_wins(evaluation), *_not_counted(evaluation)])


def _wins(evaluation: Evaluation) -> str:
    what = _WHAT[evaluation.mode]
    if not any(row.get("recall") is not None for row in evaluation.document["rows"]):
        return (
            f"No ratios are told: the run without shedding found {count(evaluation.truth['matches'])} matches, and a "
            "recall needs 1,000."
        )
    if evaluation.mode == "demands":
        return "Nobody wins: at one demand strategies save different amounts of work; compare equal shed ratios."
    won: dict[str, list[str]] = {}
    for target in evaluation.targets:
        cell = evaluation.winner(target)
        if cell is not None:
            won.setdefault(cell.strategy.name, []).append(f"{target} ({percent(cell.mean('recall'))})")
    if not won:
        return f"Nobody won: at no {what} did a strategy have rows that count."
    ranked = sorted(won.items(), key=lambda each: -len(each[1]))
    first = what if len(ranked[0][1]) == 1 else f"{what}s"
    parts = [f"{name} found the most matches at the {first} {listed(places)}" for name, places in ranked[:1]]
    parts += [f"{name} at {listed(places)}" for name, places in ranked[1:]]
    none = [target for target in evaluation.targets if evaluation.winner(target) is None]
    if none:
        parts.append(f"nobody won at {listed(none)}")
    return " ".join([f"{'; '.join(parts)}.", *_close(evaluation, sum(map(len, won.values())))])


def _close(evaluation: Evaluation, won: int) -> list[str]:
    """How many of the wins are no clear ones."""
    close = sum(is_close(evaluation, target) for target in evaluation.targets)
    if not close:
        return []
    where = "there" if won == 1 else f"at all {won}" if close == won else f"at {close} of these {won}"
    return [f"But {where} the next is behind by less than the seeds differ by."]


def is_close(evaluation: Evaluation, target: str) -> bool:
    """Whether the seeds, or repeats, of the winner and of the next overlap."""
    best = evaluation.winner(target)
    others = [cell for cell in evaluation.best(target, reference=False) if cell is not best]
    if best is None or not others:
        return False
    own, other = best.range("recall"), others[0].range("recall")
    return own is not None and other is not None and own[0] < own[1] and other[1] >= own[0]


def _not_counted(evaluation: Evaluation) -> list[str]:
    rows = evaluation.document["rows"]
    wrong = [row for row in rows if not row["counts"]]
    if not wrong:
        return [] if evaluation.mode == "demands" else [f"Every one of the {len(rows)} rows held its bound."]
    late = sum(row["held"] is False for row in wrong)
    idle = sum(not row["fired"] for row in wrong)
    reasons = [f"{late} did not hold the bound"] * (late > 0) + [f"{idle} shed nothing"] * (idle > 0)
    if len(wrong) == len(rows):
        return [f"None of the {len(rows)} rows counts: {listed(reasons) if reasons else 'see below'}."]
    verb = "does" if len(wrong) == 1 else "do"
    return [f"{len(wrong)} of {len(rows)} rows {verb} not count: {listed(reasons) if reasons else 'see below'}."]
