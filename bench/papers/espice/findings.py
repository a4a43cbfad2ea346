"""Findings of the eSPICE figures: sentences computed from the stored results."""

from __future__ import annotations

from collections.abc import Mapping

from bench.papers.results import PartResult
from bench.papers.sentences import Parts, invalid_points, join_words, spaced, value_of, verdict
from bench.papers.strategies import ESPICE, ESPICE_LITERAL

__all__ = ["MISSED", "of_part", "over_sizes", "with_own_costs"]

MISSED, FALSE = "missed", "false_positives"
#: Goals: largest share of false negatives in sequences; share of those of BL, and on Q1 with `last`; number of times
#: that a window must hold the events of a match for the goal against BL.
_SEQUENCE, _OF_BL, _OF_BL_LAST, _TIMES = 0.02, 0.5, 0.2, 10
#: Events of a window, and of a match of Q3 and Q4; in Q1 and Q2 a match has n + 1 events.
_WINDOW = {"q1": 345, "q1_real": 157, "q2": 2_000, "q2_real": 250}
_MATCH = {"q3": 20, "q4": 14}


def over_sizes(parts: Parts, query: str) -> list[str]:
    """Return the findings of Fig. 5 and 6 for a query."""
    sentences = []
    for name, part in parts.items():
        missed = join_words(_range(part, shedder, MISSED) for shedder in part.shedders)
        false = join_words(_range(part, shedder, FALSE) for shedder in part.shedders)
        sentences.append(f"*{of_part(name)}*: the false negatives are {missed}; the false positives are {false}.")
        if query in _MATCH:
            sentences += [_below(part, MISSED), _below(part, FALSE)]
        sentences.append(_against_bl(name, part, query))
        sentences += _literal(part)
        if any(not part.is_valid(shedder, target) for shedder in part.shedders for target in part.targets):
            sentences.append(invalid_points(part))
    return sentences


def with_own_costs(parts: Parts) -> list[str]:
    """Return the findings with the costs of fastcep."""
    sentences = []
    for name, part in parts.items():
        clauses = [
            f"at {spaced(target)} the false negatives are "
            + join_words(f"{_number(part, shedder, target, MISSED)} ({shedder})" for shedder in part.shedders)
            for target in part.targets
        ]
        sentences.append(f"*{of_part(name)}*: {'; '.join(clauses)}.")
        if name[:2] in _MATCH:
            sentences += [_below(part, MISSED), _below(part, FALSE)]
        sentences.append(_against_bl(name, part, name[:2], of_window=False))
        sentences.append(invalid_points(part))
    return sentences


def of_part(name: str) -> str:
    """Return the description of a part by its name, such as ``q1_real_first_120``."""
    words = name.split("_")
    kind = "real events" if "real" in words else "generated events"
    select = [f"`{word}`" for word in words if word in ("first", "last")]
    rate = [f"{word} %" for word in words if word.isdigit()]
    queue = ["`q_max` from the bound"] if "bound" in words else []
    operator = ["paper's operator"] if "operator" in words else []
    return ", ".join([words[0].upper(), kind, *select, *rate, *queue, *operator])


def _range(part: PartResult, name: str, key: str) -> str:
    values = [value for value in part.values(name, key) if value == value]
    return f"{100 * min(values):.3g} to {100 * max(values):.3g} % ({name})" if values else f"not known ({name})"


def _number(part: PartResult, name: str, target: str, key: str) -> str:
    return f"{100 * value_of(part, name, target, key):.3g} %"


def _below(part: PartResult, key: str) -> str:
    """Judge the largest false negatives, or false positives, of eSPICE at the valid points."""
    kind = "false negatives" if key == MISSED else "false positives"
    values = {target: value_of(part, ESPICE, target, key) for target in part.targets}
    valid = {target: value for target, value in values.items() if value == value and part.is_valid(ESPICE, target)}
    if not valid:
        return f"{kind.capitalize()} of eSPICE (goal ≤ {_SEQUENCE:.0%}): not judged, as no point of eSPICE is valid."
    above = {target: value for target, value in valid.items() if value > _SEQUENCE}
    sentence = (
        f"The largest {kind} of eSPICE are {100 * max(valid.values()):.2g} % (goal ≤ {_SEQUENCE:.0%}: "
        f"{verdict(not above)}"
    )
    return f"{sentence}{_exceptions(above)})."


def _against_bl(name: str, part: PartResult, query: str, of_window: bool = True) -> str:
    """Judge the false negatives of eSPICE relative to those of BL."""
    goal = _OF_BL_LAST if query == "q1" and "last" in name else _OF_BL
    judged: dict[str, float] = {}
    late, invalid = [], []
    targets = [
        target for target in part.targets if not of_window or _window_of_matches(name, query, target) >= _TIMES
    ]  # fmt: skip
    for target in targets:
        ours, theirs = (value_of(part, name, target, MISSED) for name in (ESPICE, "bl"))
        if ours != ours or theirs != theirs:
            continue
        ratio = ours / theirs if theirs else float("inf") if ours else 0.0
        if not part.is_valid(ESPICE, target):
            invalid.append(ratio)
            continue
        late += [] if part.is_valid("bl", target) else [target]
        judged[target] = ratio
    if not judged:
        large = f"holds the events of a match {_TIMES} times"
        why = f"no point of eSPICE is valid where the window {large}" if targets else f"no window {large}"
        there = f"; there they are {min(invalid):.2g} to {max(invalid):.2g} times as many" if invalid else ""
        return f"The false negatives, compared with those of BL: not judged, as {why}{there}."
    above = {target: value for target, value in judged.items() if not value <= goal}
    sentence = (
        f"The false negatives of eSPICE are at most {max(judged.values()):.2g} times those of BL (goal ≤ {goal:g}: "
        f"{verdict(not above)}{_exceptions(above, percent=False)})."
    )
    if late:
        sentence += f" At {join_words(map(spaced, late))} BL did not hold the bound."
    return sentence


def _literal(part: PartResult) -> list[str]:
    """Compare the paper's rule with fractional thresholds."""
    if ESPICE_LITERAL not in part.shedders:
        return []
    ours, literal = (max(part.values(name, "dropped")) for name in (ESPICE, ESPICE_LITERAL))
    if ours != ours or literal != literal:
        return []
    return [f"`espice` drops up to {ours:.1%} of the events of the windows, `espice-literal` up to {literal:.1%}."]


def _exceptions(values: Mapping[str, float], percent: bool = True) -> str:
    if not values:
        return ""
    places = (
        f"{spaced(target)} ({100 * value:.2g} %)" if percent else f"{spaced(target)} ({value:.2g})"
        for target, value in values.items()
    )
    return f", exceptions are {join_words(places)}"


def _window_of_matches(name: str, query: str, target: str) -> float:
    """Return how often a window holds the events of a match."""
    if query in _MATCH:
        return int(target) / _MATCH[query]
    return _WINDOW[f"{query}_real" if "real" in name else query] / (int(target) + 1)
