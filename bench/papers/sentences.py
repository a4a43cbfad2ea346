"""Building blocks of the findings: values, goals and clauses that several figures share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from bench.papers.results import PartResult

__all__ = [
    "Parts", "goal_sentence", "interpolate", "invalid_points", "join_words", "oracle_exceeded", "ratio", "spaced",
    "table_name", "value_of", "verdict",
]  # fmt: skip

Parts = Mapping[str, PartResult]


def value_of(part: PartResult, shedder: str, target: str, key: str = "recall") -> float:
    """Return a value of a shedder at a target, NaN if there is none."""
    value = part.value(shedder, target, key)
    return float("nan") if value is None else value


def spaced(label: str) -> str:
    """Insert a space before the percent sign of a label."""
    return label.replace("%", " %")


def table_name(part: PartResult) -> str:
    """Return the name of the cost table of a part."""
    name: str = part.document["setting"]["cost_table"]
    return name


def join_words(items: Iterable[str]) -> str:
    """Join words with commas and a final "and"."""
    words = list(items)
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def verdict(met: bool) -> str:
    """Return whether a goal is met, as a word."""
    return "met" if met else "NOT met"


def goal_sentence(subject: str, value: float, least: float, unit: str = "") -> str:
    """Return a sentence with a value, its goal and whether the goal is met."""
    if value != value:
        return f"{subject} is not known (goal ≥ {least:g}{unit})."
    rounded = value + 0.0  # turns -0 into 0
    return f"{subject} is {rounded:.3g}{unit} (goal ≥ {least:g}{unit}: {verdict(value >= least)})."


def ratio(part: PartResult, shedder: str, other: str, target: str, key: str = "recall") -> float:
    """Return the ratio of two shedders' values: infinite if only the other one is 0, NaN if both are."""
    numerator, denominator = value_of(part, shedder, target, key), value_of(part, other, target, key)
    return numerator / denominator if denominator else float("inf") if numerator > 0 else float("nan")


def invalid_points(part: PartResult) -> str:
    """Return a sentence that lists the invalid points."""
    points = [(shedder, target) for shedder in part.shedders for target in part.targets]
    invalid = [(shedder, target) for shedder, target in points if not part.is_valid(shedder, target)]
    if not invalid:
        return f"All points are valid ({_setting(part)})."
    by_targets: dict[str, list[str]] = {}
    for name in dict.fromkeys(shedder for shedder, _ in invalid):
        targets = join_words(spaced(target) for shedder, target in invalid if shedder == name)
        by_targets.setdefault(targets, []).append(name)
    clauses = "; ".join(f"{', '.join(names)} at {targets}" for targets, names in by_targets.items())
    verb = "is" if len(invalid) == 1 else "are"
    return f"{len(invalid)} of {len(points)} points {verb} invalid ({_setting(part)}): {clauses}."


def oracle_exceeded(part: PartResult) -> list[str]:
    """Return a sentence on the valid points whose recall exceeds the oracle's by more than 0.01, if there are any."""
    clauses = []
    for target in part.targets:
        oracle = value_of(part, "oracle", target)
        others = [name for name in part.shedders if name != "oracle" and part.is_valid(name, target)]
        recall, name = max(((value_of(part, name, target), name) for name in others), default=(0.0, ""))
        if recall > oracle + 0.01:
            clauses.append(f"{spaced(target)} ({oracle:.2f}; {name} {recall:.2f})")
    if not clauses:
        return []
    return [
        f"The oracle is not an upper limit at {join_words(clauses)} ({_setting(part)}): it drops the least valuable "
        "work over the whole stream, but a queue or a percentile requires less work only during peaks."
    ]


def interpolate(part: PartResult, shedder: str, x: str, y: str, position: float) -> float:
    """Return y where x has a value, interpolated linearly between two points; NaN outside of all points."""
    points = sorted(zip(part.values(shedder, x), part.values(shedder, y), strict=True))
    for (left, low), (right, high) in pairwise(points):
        if left <= position <= right:
            return low + (high - low) * (position - left) / (right - left) if right > left else low
    return float("nan")


def _setting(part: PartResult) -> str:
    """Return the cost table and the kind of the targets."""
    return f"table `{table_name(part)}`, {part.document['setting']['mode']}"
