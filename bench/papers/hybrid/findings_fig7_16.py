"""Findings of Fig. 7 to 16: sentences computed from the stored results, against the paper and the project's goals."""

from __future__ import annotations

from collections.abc import Sequence

from bench.papers.results import PartResult
from bench.papers.sentences import (
    Parts,
    goal_sentence,
    invalid_points,
    join_words,
    oracle_exceeded,
    ratio,
    spaced,
    table_name,
    value_of,
    verdict,
)
from bench.papers.strategies import BASELINES, COUNTING, CUTTING, HYBRID, INPUT, STATE

__all__ = [
    "adaptation", "bike_paths", "clusters", "hybrid_lead", "negation", "pattern_lengths", "resource_costs",
    "selectivity_variance", "task_life_cycles", "time_slices",
]  # fmt: skip

_MIN_MATCHES = 1_000  # for ratios of recall
_STREAMS = {
    "chains": "`bike_chains`, the full query", "bay1": "Bay Area, Kleene ≥ 1", "bay2": "Bay Area, Kleene ≥ 2",
    "citi1": "Citi Bike, Kleene ≥ 1", "citi2": "Citi Bike, Kleene ≥ 2", "cluster": "`task_lives`",
}  # fmt: skip


def hybrid_lead(parts: Parts) -> list[str]:
    """Return the findings of Fig. 8: the lead of hybrid over the baselines, and the invalid points."""
    return [*(_lead(part) for part in parts.values()), _all_invalid_points(parts)]


def selectivity_variance(parts: Parts) -> list[str]:
    """Return the findings of Fig. 7."""
    sentences = []
    for name, goal in (("paper", 20.0), ("measured", 3.0)):
        if HYBRID not in parts[name].shedders:
            continue
        ratios = {other: ratio(parts[name], HYBRID, other, "2", "speed") for other in BASELINES}
        values = join_words(f"{value:.1f} times that of {other.upper()}" for other, value in ratios.items())
        subject = f"At x = 2 with the table `{name}` the throughput of hybrid is {values}. The smallest ratio"
        sentences.append(goal_sentence(subject, min(ratios.values()), goal) + _oracle_ratio(parts[name]))
    return [*sentences, *hybrid_lead(parts)]


def _oracle_ratio(part: PartResult) -> str:
    """Describe the oracle's throughput at x = 2, relative to the fastest baseline."""
    if "oracle" not in part.shedders:
        return ""
    smallest = min(ratio(part, "oracle", other, "2", "speed") for other in BASELINES)
    return (
        f" The ratio of the oracle, which keeps only what leads to a match and whose decisions cost nothing, is "
        f"{smallest:.1f}."
    )


def pattern_lengths(parts: Parts) -> list[str]:
    """Return the findings of Fig. 9."""
    sentences = []
    for part in parts.values():
        first, last = part.targets[0], part.targets[-1]
        changes = {name: value_of(part, name, last) - value_of(part, name, first) for name in part.shedders}
        sentences.append(
            f"{_with_table(part)} recall changes from length {first} to {last} by "
            f"{join_words(f'{value:+.2f} ({name})' for name, value in changes.items())}."
        )
    return [*sentences, *hybrid_lead(parts)]


def time_slices(parts: Parts) -> list[str]:
    """Return the findings of Fig. 10."""
    sentences = []
    for part in parts.values():
        if HYBRID not in part.shedders:
            continue
        recalls = {target: value_of(part, HYBRID, target) for target in part.targets}
        best = max(recalls, key=lambda target: recalls[target])
        many = max(recall for target, recall in recalls.items() if int(target) >= 4)
        few = max(recall for target, recall in recalls.items() if int(target) < 4)
        sentences.append(
            f"{_with_table(part)} hybrid has its highest recall with {best} slices ({recalls[best]:.3f}): at most "
            f"{many:.3f} with 4 or more slices, {few:.3f} with fewer."
        )
        one_slice = min(ratio(part, HYBRID, other, "1") for other in INPUT)
        subject = f"{_with_table(part)} the ratio of hybrid's recall with one slice to the better of RI and SI"
        sentences.append(goal_sentence(subject, one_slice, 3.8))
    return [*sentences, *hybrid_lead(parts)]


def resource_costs(parts: Parts) -> list[str]:
    """Return the findings of Fig. 11."""
    sentences = []
    for part in parts.values():
        if COUNTING not in part.shedders:
            continue
        gains = {target: value_of(part, HYBRID, target) - value_of(part, COUNTING, target) for target in part.targets}
        values = join_words(f"{value:+.3f} at {spaced(target)}" for target, value in gains.items())
        sentences.append(f"{_with_table(part)} resource costs change the recall by {values}.")
    return [*sentences, *hybrid_lead(parts)]


def clusters(parts: Parts) -> list[str]:
    """Return the findings of Fig. 13."""
    sentences = []
    for part in parts.values():
        if HYBRID in part.shedders:
            recalls, (second_last, last) = part.values(HYBRID, "recall"), part.targets[-2:]
            sentences.append(
                f"{_with_table(part)} recall of hybrid is {min(recalls):.3f} to {max(recalls):.3f}. From {second_last} "
                f"to {last} clusters it changes by {recalls[-1] - recalls[-2]:+.3f}."
            )
    return [*sentences, *hybrid_lead(parts)]


def adaptation(parts: Parts) -> list[str]:
    """Return the findings of Fig. 12."""
    sentences = ["The goal is a recall above 0.9 of its level before the change, within 4 windows after it."]
    for part in parts.values():
        for line in part.document["series"]:
            if line["shedder"] != HYBRID:
                continue
            change = len(line["recall"]) // 3  # the first third of the half windows precedes the change
            before, after = line["recall"][change - 4 : change], line["recall"][change:]
            level = sum(before) / len(before)
            recovery = _recovery(after, 0.9 * level)
            sentences.append(
                f"Windows of {part.document['events'] // (len(line['recall']) // 2):,} events: recall of hybrid is "
                f"{level:.2f} before the change, falls to {min(after):.2f}, and {_recovery_clause(recovery)}."
            )
    return [*sentences, _all_invalid_points(parts)]


def negation(parts: Parts) -> list[str]:
    """Return the findings of Fig. 14."""
    sentences = []
    for part in parts.values():
        input_based = [name for name in part.shedders if name in (*INPUT, "hyi")]
        rare, frequent = part.targets[0], part.targets[-1]
        for key in ("recall", "precision"):
            values = {name: [value_of(part, name, target, key) for target in (rare, frequent)] for name in input_based}
            text = join_words(f"{few:.3f} and {many:.3f} ({name})" for name, (few, many) in values.items())
            sentences.append(f"{_saved_share(part)}, with B {spaced(rare)} and {spaced(frequent)}, {key} is {text}.")
        state_based = [name for name in part.shedders if name in (*STATE, "hys")]
        smallest = min(value_of(part, name, target, "precision") for name in state_based for target in part.targets)
        sentences.append(f"Where only partial matches are dropped, precision is at least {smallest:.3f}.")
    return sentences


def bike_paths(parts: Parts) -> list[str]:
    """Return the findings of Fig. 15."""
    sentences = []
    for name, part in parts.items():
        if name != "rates":
            sentences += _ratios(_STREAMS[name], part, {"ri": 5.0, "si": 5.0, "rs": 2.5, "ss": 2.0})
    if "rates" in parts:
        rates = parts["rates"]
        events, fastest = rates.document["events"], rates.document["setting"]["maximum_rate"]
        seconds = {target: events / fastest / float(target.rstrip("%")) * 100 for target in rates.targets}
        values = join_words(f"{value:.2f} s at {spaced(target)}" for target, value in seconds.items())
        sentences.append(f"At these rates the half year of trips arrives within {values}.")
    exceeded = [sentence for part in parts.values() for sentence in oracle_exceeded(part)]
    return [*sentences, *exceeded, _all_invalid_points(parts)]


def task_life_cycles(parts: Parts) -> list[str]:
    """Return the findings of Fig. 16."""
    part = parts["cluster"]
    sentences = _ratios(_STREAMS["cluster"], part, {"ri": 4.0, "si": 4.0, "rs": 1.5, "ss": 1.5})
    return [*sentences, *oracle_exceeded(part), _all_invalid_points(parts)]


def _ratios(stream: str, part: PartResult, goals: dict[str, float]) -> list[str]:
    """Describe the ratios of hybrid's recall to each baseline's at the tightest bound."""
    matches, last = part.document["truth"]["matches"], part.targets[-1]
    if HYBRID not in part.shedders:
        return []
    if matches < _MIN_MATCHES:
        return [f"{stream}: {matches:,} matches are too few for ratios."]
    variants = [name for name in (HYBRID, CUTTING) if name in part.shedders]
    best = max(variants, key=lambda name: value_of(part, name, last))
    recalls = {name: value_of(part, name, last) for name in variants}
    others = "".join(f" ({name} {value:.3f})" for name, value in recalls.items() if name != best)
    ratios = {other: ratio(part, best, other, last) for other in goals}
    values = join_words(
        f"{ratios[other]:.1f} times {other.upper()} (goal ≥ {goal:g}: {verdict(ratios[other] >= goal)})"
        for other, goal in goals.items()
    )
    oracle = ratio(part, "oracle", "ri", last)
    return [
        f"{stream}, at {spaced(last)}: recall of {best} is {recalls[best]:.3f}{others}, {values}. The oracle's is "
        f"{oracle:.1f} times RI."
    ]


def _lead(part: PartResult) -> str:
    """Describe the lead of hybrid over the best baseline at each target."""
    if HYBRID not in part.shedders:
        return f"{_with_table(part)} there are no runs of hybrid."
    leads = {
        target: value_of(part, HYBRID, target) - max(value_of(part, name, target) for name in BASELINES)
        for target in part.targets
    }
    losing = [spaced(target) for target, value in leads.items() if value < 0]
    where = f"at all points but {join_words(losing)}" if losing else "at all points"
    return (
        f"{_with_table(part)} hybrid has a higher recall than the best baseline {where}: by {min(leads.values()):.3f} "
        f"to {max(leads.values()):.3f}."
    )


def _recovery(recalls: Sequence[float], level: float) -> int | None:
    """Return the number of half windows until recall is back at a level: 0 if it never falls below, None if never."""
    low = next((number for number, recall in enumerate(recalls) if recall < level), None)
    if low is None:
        return 0
    return next((number + 1 for number, recall in enumerate(recalls) if number > low and recall >= level), None)


def _recovery_clause(half_windows: int | None) -> str:
    if half_windows is None:
        return "does not return to 0.9 of that"
    if half_windows == 0:
        return "is never below 0.9 of that"
    return f"is above 0.9 of that after {half_windows / 2:g} windows ({verdict(half_windows <= 8)})"


def _all_invalid_points(parts: Parts) -> str:
    return " ".join(dict.fromkeys(invalid_points(part) for part in parts.values()))


def _with_table(part: PartResult) -> str:
    return f"With the table `{table_name(part)}`"


def _saved_share(part: PartResult) -> str:
    """Describe the demand, the same at every point."""
    return f"When {spaced(part.document['setting']['asked'])} of the work is saved"
