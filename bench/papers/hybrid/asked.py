"""What is true of the stored numbers of Fig. 7 to 16, against the paper and what the project asked for."""

from __future__ import annotations

from collections.abc import Sequence

from bench.papers.hybrid.words import Parts, asked, beaten, joined, missed, of, percent, times
from bench.papers.stored import Stored
from bench.papers.strategies import BASELINES, COUNTING, CUTTING, HYBRID, INPUT, STATE

__all__ = [
    "adapted", "best_everywhere", "bikes", "clusters", "costs", "lengths", "negated", "slices", "tasks_said",
    "variance",
]  # fmt: skip

_LEAST = 1_000  # matches of which ratios are told
_PLACES = {
    "chains": "`bike_chains`, the full query", "bay1": "Bay Area, Kleene ≥ 1", "bay2": "Bay Area, Kleene ≥ 2",
    "citi1": "Citi Bike, Kleene ≥ 1", "citi2": "Citi Bike, Kleene ≥ 2", "cluster": "`task_lives`",
}  # fmt: skip


def best_everywhere(parts: Parts) -> list[str]:
    """Of Fig. 8, and of others beside what is theirs."""
    return [*(_best(part) for part in parts.values()), _all_missed(parts)]


def variance(parts: Parts) -> list[str]:
    """Of Fig. 7."""
    said = []
    for name, least in (("paper", 20.0), ("measured", 3.0)):
        if HYBRID not in parts[name].shedders:
            continue
        ratios = {other: times(parts[name], HYBRID, other, "2", "speed") for other in BASELINES}
        told = joined(f"{value:.1f} times that of {other.upper()}" for other, value in ratios.items())
        what = f"At x = 2 with the table `{name}` the throughput of hybrid is {told}. The least of these"
        said.append(asked(what, min(ratios.values()), least, "x") + _limit(parts[name]))
    return [*said, *best_everywhere(parts)]


def _limit(part: Stored) -> str:
    """What a shedder that knows what is to come, and decides for nothing, reaches at x = 2."""
    if "oracle" not in part.shedders:
        return ""
    least = min(times(part, "oracle", other, "2", "speed") for other in BASELINES)
    return (
        f" What the oracle reaches, which keeps only what leads to a match and whose decisions cost nothing, is "
        f"{least:.1f} times."
    )


def lengths(parts: Parts) -> list[str]:
    """Of Fig. 9."""
    said = []
    for part in parts.values():
        first, last = part.targets[0], part.targets[-1]
        fall = {name: of(part, name, last) - of(part, name, first) for name in part.shedders}
        said.append(
            f"{_at(part)} recall changes from length {first} to {last} by "
            f"{joined(f'{value:+.2f} ({name})' for name, value in fall.items())}."
        )
    return [*said, *best_everywhere(parts)]


def slices(parts: Parts) -> list[str]:
    """Of Fig. 10."""
    said = []
    for part in parts.values():
        if HYBRID not in part.shedders:
            continue
        recalls = {target: of(part, HYBRID, target) for target in part.targets}
        best = max(recalls, key=lambda target: recalls[target])
        many = max(recall for target, recall in recalls.items() if int(target) >= 4)
        few = max(recall for target, recall in recalls.items() if int(target) < 4)
        said.append(
            f"{_at(part)} hybrid finds most with {best} slices ({recalls[best]:.3f}); with 4 or more at best "
            f"{many:.3f}, with fewer {few:.3f}."
        )
        ratio = min(times(part, HYBRID, other, "1") for other in INPUT)
        said.append(asked(f"{_at(part)} recall with one slice, beside the better of RI and SI,", ratio, 3.8, "x"))
    return [*said, *best_everywhere(parts)]


def costs(parts: Parts) -> list[str]:
    """Of Fig. 11."""
    said = []
    for part in parts.values():
        if COUNTING not in part.shedders:
            continue
        gains = {target: of(part, HYBRID, target) - of(part, COUNTING, target) for target in part.targets}
        told = joined(f"{value:+.3f} at {percent(target)}" for target, value in gains.items())
        said.append(f"{_at(part)} recall with resource costs is above that without by {told}.")
    return [*said, *best_everywhere(parts)]


def clusters(parts: Parts) -> list[str]:
    """Of Fig. 13."""
    said = []
    for part in parts.values():
        if HYBRID in part.shedders:
            recalls, (many, most) = part.line(HYBRID, "recall"), part.targets[-2:]
            said.append(
                f"{_at(part)} recall of hybrid is {min(recalls):.3f} to {max(recalls):.3f}; from {many} to {most} "
                f"clusters it changes by {recalls[-1] - recalls[-2]:+.3f}."
            )
    return [*said, *best_everywhere(parts)]


def adapted(parts: Parts) -> list[str]:
    """Of Fig. 12."""
    said = []
    for part in parts.values():
        for line in part.document["series"]:
            if line["shedder"] != HYBRID:
                continue
            half = len(line["recall"]) // 3  # so many half windows are before the change
            before, after = line["recall"][half - 4 : half], line["recall"][half:]
            old = sum(before) / len(before)
            back = _back(after, 0.9 * old)
            said.append(
                f"{part.document['events'] // (len(line['recall']) // 2):,} events: recall of hybrid is {old:.2f} "
                f"before the change, falls to {min(after):.2f}, and {_told(back)}."
            )
    said.append("Asked for: above 0.9 of its old level within 4 windows.")
    return [*said, _all_missed(parts)]


def negated(parts: Parts) -> list[str]:
    """Of Fig. 14."""
    said = []
    for part in parts.values():
        who = [name for name in part.shedders if name in (*INPUT, "hyi")]
        rare, often = part.targets[0], part.targets[-1]
        for key in ("recall", "precision"):
            values = {name: [of(part, name, target, key) for target in (rare, often)] for name in who}
            told = joined(f"{few:.3f} and {many:.3f} ({name})" for name, (few, many) in values.items())
            said.append(f"{_what(part)}, with B {percent(rare)} and {percent(often)}, {key} is {told}.")
        keep = [name for name in part.shedders if name in (*STATE, "hys")]
        least = min(of(part, name, target, "precision") for name in keep for target in part.targets)
        said.append(f"Where partial matches are dropped precision is {least:.3f} at least.")
    return said


def bikes(parts: Parts) -> list[str]:
    """Of Fig. 15."""
    said = []
    for name, part in parts.items():
        if name != "rates":
            said += _ratios(_PLACES[name], part, {"ri": 5.0, "si": 5.0, "rs": 2.5, "ss": 2.0})
    if "rates" in parts:
        rates = parts["rates"]
        events, fastest = rates.document["events"], rates.document["setting"]["maximum_rate"]
        seconds = {target: events / fastest / float(target.rstrip("%")) * 100 for target in rates.targets}
        took = joined(f"{value:.2f} s at {percent(target)}" for target, value in seconds.items())
        said.append(f"By rates the half year takes {took}.")
    return [*said, *(text for part in parts.values() for text in beaten(part)), _all_missed(parts)]


def tasks_said(parts: Parts) -> list[str]:
    """Of Fig. 16."""
    said = _ratios(_PLACES["cluster"], parts["cluster"], {"ri": 4.0, "si": 4.0, "rs": 1.5, "ss": 1.5})
    return [*said, *beaten(parts["cluster"]), _all_missed(parts)]


def _ratios(place: str, part: Stored, least: dict[str, float]) -> list[str]:
    """How many times the recall of each baseline that of hybrid is, at the tightest bound."""
    matches, last = part.document["truth"]["matches"], part.targets[-1]
    if HYBRID not in part.shedders:
        return []
    if matches < _LEAST:
        return [f"{place}: there are {matches:,} matches, too few for ratios."]
    ours = [name for name in (HYBRID, CUTTING) if name in part.shedders]
    best = max(ours, key=lambda name: of(part, name, last))
    found = {name: of(part, name, last) for name in ours}
    beside = "".join(f" ({name} {value:.3f})" for name, value in found.items() if name != best)
    own = f"{place}, at {percent(last)}: {best} finds {found[best]:.3f}{beside}"
    ratios = {other: times(part, best, other, last) for other in least}
    told = joined(
        f"{ratios[other]:.1f} times {other.upper()} (asked for: {wanted:g}, "
        f"{'reached' if ratios[other] >= wanted else 'NOT reached'})"
        for other, wanted in least.items()
    )
    limit = times(part, "oracle", "ri", last)
    return [f"{own}, {told}. What the oracle finds is {limit:.1f} times RI."]


def _best(part: Stored) -> str:
    """Whether hybrid is above all baselines, of points that count."""
    if HYBRID not in part.shedders:
        return f"{_at(part)} hybrid is not there yet."
    ahead = {
        target: of(part, HYBRID, target) - max(of(part, name, target) for name in BASELINES) for target in part.targets
    }
    behind = [percent(target) for target, value in ahead.items() if value < 0]
    where = f"everywhere but at {joined(behind)}" if behind else "everywhere"
    return (
        f"{_at(part)} hybrid finds more than the best baseline {where}: by {min(ahead.values()):.3f} to "
        f"{max(ahead.values()):.3f}."
    )


def _back(recalls: Sequence[float], level: float) -> int | None:
    """Behind how many half windows recall has reached a level."""
    low = next((number for number, recall in enumerate(recalls) if recall < level), None)
    if low is None:
        return 0
    return next((number + 1 for number, recall in enumerate(recalls) if number > low and recall >= level), None)


def _told(back: int | None) -> str:
    if back is None:
        return "does not come back above 0.9 of that"
    if back == 0:
        return "is never below 0.9 of that"
    return f"is above 0.9 of that after {back / 2:g} windows ({'reached' if back <= 8 else 'NOT reached'})"


def _all_missed(parts: Parts) -> str:
    return " ".join(dict.fromkeys(missed(part) for part in parts.values()))


def _at(part: Stored) -> str:
    return f"With the table `{part.document['setting']['cost_table']}`"


def _what(part: Stored) -> str:
    """What was asked for at every point."""
    return f"Saving {percent(part.document['setting']['asked'])} of the work"
