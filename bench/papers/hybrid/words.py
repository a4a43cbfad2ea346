"""Words for numbers that are stored: what the sentences of several figures are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from bench.papers.stored import Stored

__all__ = ["Parts", "asked", "beaten", "between", "joined", "missed", "of", "percent", "times", "where"]

Parts = Mapping[str, Stored]


def of(part: Stored, shedder: str, target: str, key: str = "recall") -> float:
    """A value, nan where none is known."""
    value = part.value(shedder, target, key)
    return float("nan") if value is None else value


def percent(label: str) -> str:
    """A label with a space before its percent sign."""
    return label.replace("%", " %")


def where(part: Stored) -> str:
    """By which table, and what is varied."""
    return f"`{part.document['setting']['cost_table']}`, {part.document['setting']['mode']}"


def joined(items: Iterable[str]) -> str:
    """Words with commas, and an and."""
    words = list(items)
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def asked(what: str, value: float, least: float, unit: str = "") -> str:
    """A sentence on a number that the project asked for, and whether it is reached."""
    if value != value:
        return f"{what} is not known (asked for: at least {least:g}{unit})."
    verdict = "reached" if value >= least else "NOT reached"
    value += 0.0  # no -0
    return f"{what} is {value:.3g}{unit} (asked for: at least {least:g}{unit}; {verdict})."


def times(part: Stored, ours: str, other: str, target: str, key: str = "recall") -> float:
    """How many times a baseline's value ours is; without end if the baseline has none."""
    own, its = of(part, ours, target, key), of(part, other, target, key)
    return own / its if its else float("inf") if own > 0 else float("nan")


def missed(part: Stored) -> str:
    """Which points do not count."""
    cells = [(shedder, target) for shedder in part.shedders for target in part.targets]
    amiss = [(shedder, target) for shedder, target in cells if not part.counts(shedder, target)]
    if not amiss:
        return f"All points count ({where(part)})."
    by_targets: dict[str, list[str]] = {}
    for name in dict.fromkeys(shedder for shedder, _ in amiss):
        targets = " and ".join(percent(target) for shedder, target in amiss if shedder == name)
        by_targets.setdefault(targets, []).append(name)
    told = "; ".join(f"{', '.join(names)} at {targets}" for targets, names in by_targets.items())
    return f"{len(amiss)} of {len(cells)} points do not count ({where(part)}): {told}."


def beaten(part: Stored) -> list[str]:
    """Where something that counts found more than the oracle (by more than 0.01), and why that may be."""
    found = []
    for target in part.targets:
        limit = of(part, "oracle", target)
        others = [name for name in part.shedders if name != "oracle" and part.counts(name, target)]
        best = max(((of(part, name, target), name) for name in others), default=(0.0, ""))
        if best[0] > limit + 0.01:
            found.append(f"{percent(target)} ({limit:.2f}; {best[1]} {best[0]:.2f})")
    if not found:
        return []
    return [
        f"The oracle is no limit at {' and '.join(found)} ({where(part)}): it drops what is worth least for the work "
        "over the whole stream, while a queue or a percentile asks for less work only where there is much to do."
    ]


def between(part: Stored, shedder: str, x: str, y: str, wanted: float) -> float:
    """The value of y where x is as wanted, between two points in a straight line."""
    points = sorted(zip(part.line(shedder, x), part.line(shedder, y), strict=True))
    for (left, low), (right, high) in pairwise(points):
        if left <= wanted <= right:
            return low + (high - low) * (wanted - left) / (right - left) if right > left else low
    return float("nan")
