"""Findings of the pSPICE figures: sentences computed from the stored results."""

from __future__ import annotations

from collections.abc import Iterable

from bench.papers.results import PartResult
from bench.papers.sentences import (
    Parts,
    invalid_points,
    join_words,
    oracle_exceeded,
    ratio,
    spaced,
    value_of,
    verdict,
)
from bench.papers.strategies import FIXED, PSPICE, PSPICE_PROBABILITY, RENEWED

__all__ = [
    "bound_kept", "bound_kept_on_the_wall", "bound_used", "cost_factor", "counting", "over_match_probability",
    "over_rates", "overheads", "overheads_on_the_wall", "retraining",
]  # fmt: skip

MISSING = "false_negatives"
#: Goals: share of the bound that is used, share of events that may be late on the wall clock, largest overhead,
#: largest time in s to build a model, and largest share of the time for counting.
_USED, _LATE, _OVERHEAD, _BUILD, _COUNTING = 0.95, 0.001, 0.01, 0.5, 0.02
#: False negatives relative to those of pspice-- below which pspice is clearly better.
_CLEARLY = 0.9
#: Match probabilities below which pspice should be better than the baselines.
_BELOW = {"pm-bl": 0.7, "e-bl": 0.5}
#: Recall after retraining, relative to that before the change, from which it counts as recovered.
_RECOVERED = 0.95
#: Recall by which retraining must be above a model that is kept, so that it is the reason of the recovery.
_CLEAR_GAIN = 0.02
#: Factors above this one say only that hardly anything is missed.
_LARGE_FACTOR = 100
#: Section that explains why less of the bound is used.
_WHY = "#fig-7-how-much-of-the-bound-is-used"


def over_match_probability(parts: Parts, is_sequence: bool) -> list[str]:
    """Return the findings of Fig. 5 for a query."""
    sentences = []
    for name, part in parts.items():
        low, high = min(_probabilities(part)), max(_probabilities(part))
        sentences.append(
            f"On {_stream(name)}, the match probability is {low:.0%} to {high:.0%}, and the false "
            f"negatives are {join_words(_range(part, shedder) for shedder in part.shedders)}."
        )
        sentences += _comparisons(part, is_sequence)
        sentences += [_bound_used(part), invalid_points(part), *_above_oracle(part)]
    return sentences


def over_rates(parts: Parts) -> list[str]:
    """Return the findings of Fig. 6."""
    sentences = []
    for name, part in parts.items():
        first, last = part.targets[0], part.targets[-1]
        values = join_words(
            f"{value_of(part, shedder, first, MISSING):.2f} to {value_of(part, shedder, last, MISSING):.2f} ({shedder})"
            for shedder in part.shedders
        )
        (probability,) = set(_probabilities(part))
        sentences.append(
            f"{name[:2].upper()} on {_stream(name)}, match probability {probability:.0%}: from {spaced(first)} to "
            f"{spaced(last)} of the maximum rate, the false negatives are {values}. "
            f"{' '.join(_comparisons(part, is_sequence=name.startswith(('q1', 'q2'))))} {_bound_used(part)} "
            f"{invalid_points(part)}"
        )
        sentences += _above_oracle(part)
    return sentences


def bound_kept(parts: Parts) -> list[str]:
    """Return the findings of Fig. 7 on the virtual clock."""
    sentences = []
    for name, part in parts.items():
        clauses = []
        for line in part.document["series"]:
            late, used = (value_of(part, PSPICE, line["target"], key) for key in ("share_over_bound", "used"))
            clauses.append(
                f"at {spaced(line['target'])} the longest event latency of all events is "
                f"{line['largest'] / line['bound']:.3f} of the bound (goal ≤ 1: "
                f"{verdict(line['largest'] <= line['bound'])}), {late:.2%} of the judged events are late, and the mean "
                f"is {used:.3f} of the bound ({_used_goal(used)})"
            )
        label = name.replace("_", ", ")
        sentences.append(f"*{label}*: {'; '.join(clauses)}.")
    return sentences


def bound_kept_on_the_wall(parts: Parts) -> list[str]:
    """Return the findings of Fig. 7 on the wall clock."""
    sentences = []
    for name, part in parts.items():
        late = {target: value_of(part, PSPICE, target, "share_over_bound") for target in part.targets}
        values = join_words(
            f"{1 - share:.3%} at {spaced(target)} (goal ≥ {1 - _LATE:.1%}: {verdict(share <= _LATE)})"
            for target, share in late.items()
        )
        overhead = max(part.values(PSPICE, "overhead"))
        longest = join_words(
            f"{line['largest'] / line['bound']:.1f} times the bound at {spaced(line['target'])}"
            for line in part.document["series"]
        )
        sentences.append(
            f"*{name}*: {values} of the judged events are within the bound. "
            + (f"With those that are not judged, the longest event latency is {longest}. " if longest else "")
            + f"Decisions take up to {overhead:.2%} of the busy time."
        )
    return sentences


def cost_factor(parts: Parts) -> list[str]:
    """Return the findings of Fig. 8."""
    (part,) = parts.values()
    ours, without = (part.values(name, MISSING) for name in (PSPICE, PSPICE_PROBABILITY))
    last = part.targets[-1]
    share = ratio(part, PSPICE, PSPICE_PROBABILITY, last, MISSING)
    values = join_words(
        f"{first:.2f} and {second:.2f} at {target}"
        for target, first, second in zip(part.targets, ours, without, strict=True)
    )
    return [
        f"The false negatives of pspice and pspice-- are {values}. At {last} pspice has {share:.2f} times "
        f"those of pspice-- (in the paper 0.61; goal < {_CLEARLY:g}: "
        f"{_valid_verdict(part, (PSPICE, PSPICE_PROBABILITY), last, share < _CLEARLY)}).",
        _bound_used(part), invalid_points(part),
    ]  # fmt: skip


def retraining(parts: Parts) -> list[str]:
    """Return the findings on the stream that changes at two fifths."""
    (part,) = parts.values()
    recalls = {line["shedder"]: line["recall"] for line in part.document["series"]}
    sentences, levels, ends = [], dict[str, float](), dict[str, float]()
    for name in (name for name in (FIXED, PSPICE, RENEWED) if name in recalls):
        change = 2 * len(recalls[name]) // 5
        before, after = recalls[name][change // 2 : change], recalls[name][change:]
        ends[name] = _mean(after[-max(1, len(after) // 3) :])
        levels[name] = ends[name] / _mean(before)
        sentences.append(
            f"The recall of {name} is {_mean(before):.2f} before the change, at least {min(after):.2f} after it, and "
            f"{ends[name]:.2f} in the last third of the rest."
        )
    goal = (
        f"At the end, the recall of {RENEWED} is {levels[RENEWED]:.2f} of that before the change (goal ≥ "
        f"{_RECOVERED:g}, and clearly above {FIXED}, by ≥ {_CLEAR_GAIN:g}: "
    )
    if FIXED not in ends:
        return [*sentences, f"{goal}not judged, as there is no run without retraining).", invalid_points(part)]
    gain = ends[RENEWED] - ends[FIXED]
    judged = _valid_verdict(part, (FIXED, RENEWED), part.targets[0], levels[RENEWED] >= _RECOVERED)
    if judged == verdict(True) and gain < _CLEAR_GAIN:
        judged = "not shown, as the recall is about as high without retraining"
    return [*sentences, f"{goal}{judged}). The difference is {gain:.2f}.", invalid_points(part)]


def overheads(parts: Parts) -> list[str]:
    """Return the findings of Fig. 9."""
    decisions, build = parts["decisions"], parts["build"]
    first, last = decisions.targets[0], decisions.targets[-1]
    values = join_words(
        f"{value_of(decisions, name, first, 'overhead'):.2%} and "
        f"{value_of(decisions, name, last, 'overhead'):.2%} ({name})"
        for name in decisions.shedders
    )
    largest = max(decisions.values(PSPICE, "overhead"))
    seconds = dict(zip(build.targets, build.values(PSPICE, "seconds"), strict=True))
    longest = build.targets[-1]
    return [
        f"At windows of {int(first):,} and {int(last):,} events, the time for decisions is {values}. The largest of "
        f"pspice is {largest:.2%}. This follows from the costs that are assumed; the goal is judged "
        "[on the wall clock](#fig-9-on-the-wall-clock).",
        f"A model for windows of {int(longest):,} events is built in {seconds[longest]:.3f} s (goal < {_BUILD:g} s: "
        f"{verdict(seconds[longest] < _BUILD)}), for {int(build.targets[0]):,} in {seconds[build.targets[0]]:.3f} s.",
        invalid_points(decisions),
    ]  # fmt: skip


def overheads_on_the_wall(parts: Parts) -> list[str]:
    """Return the findings of Fig. 9 on the wall clock."""
    (part,) = parts.values()
    values = join_words(
        f"{share:.2%} at windows of {int(target):,} events (goal ≤ {_OVERHEAD:.0%}: "
        f"{_valid_verdict(part, (PSPICE,), target, share <= _OVERHEAD)})"
        for target, share in zip(part.targets, part.values(PSPICE, "overhead"), strict=True)
    )
    slowest = max(part.values(PSPICE, "seconds"))
    return [f"Decisions take {values} of the time. An event takes up to {1e6 * slowest:.1f} us."]


def bound_used(parts: Parts) -> list[str]:
    """Return the findings on the limit of the queue: how much of the bound is used, and what it costs."""
    sentences = []
    for name, part in parts.items():
        missing, used = part.values(PSPICE, MISSING), part.values(PSPICE, "used")
        limits = join_words(f"{int(target) / 100:g}" for target in part.targets)
        latencies, shares = (join_words(f"{value:.3f}" for value in values) for values in (used, missing))
        sentences.append(
            f"On {_stream(name)}, with f = {limits}, the mean latency is {latencies} of the bound (goal ≥ {_USED:g}: "
            f"{verdict(min(used) >= _USED)}), and the false negatives are {shares}.{_busy(part)}"
        )
        sentences.append(invalid_points(part))
    return sentences


def counting(parts: Parts) -> list[str]:
    """Return the findings on the time for counting."""
    largest = max(max(part.values(PSPICE, "overhead")) for part in parts.values())
    single = max(row["overhead"] for part in parts.values() for row in part.rows)
    return [
        f"Counting takes at most {largest:.2%} of the time, and {single:.2%} on a single stream (goal < "
        f"{_COUNTING:.0%}: {verdict(single < _COUNTING)})."
    ]


def _probabilities(part: PartResult) -> list[float]:
    return [float(part.truth(target)["match_probability"]) for target in part.targets]


def _stream(name: str) -> str:
    """Return the events, and the detector if it is not the usual one, of a part by its name."""
    kind = name.partition("_")[2]
    return {"real": "real events", "prediction": "generated events with `prediction`"}.get(kind, "generated events")


def _range(part: PartResult, name: str) -> str:
    values = part.values(name, MISSING)
    return f"{min(values):.2f} to {max(values):.2f} ({name})"


def _comparisons(part: PartResult, is_sequence: bool) -> list[str]:
    """Compare pspice with both baselines; that it is below E-BL is a goal for sequences only."""
    goals = _BELOW if is_sequence else {"pm-bl": _BELOW["pm-bl"]}
    return [_comparison(part, other, goals.get(other)) for other in ("pm-bl", "e-bl")]


def _comparison(part: PartResult, other: str, below: float | None) -> str:
    """Compare the false negatives of pspice with those of a baseline at the points where both held the bound."""
    valid = [target for target in part.targets if part.is_valid(PSPICE, target) and part.is_valid(other, target)]
    if not valid:
        judged = "" if below is None else " Goal not judged: one of them missed the bound at every point."
        return f"At no point did both pspice and {other} hold the bound.{judged}"
    pairs = {
        target: (value_of(part, PSPICE, target, MISSING), value_of(part, other, target, MISSING)) for target in valid
    }
    above = [target for target in valid if pairs[target][0] >= pairs[target][1]]
    where = f"At {len(valid)} of {len(part.targets)} points, both pspice and {other} held the bound"
    if not above:
        factors = [theirs / ours for ours, theirs in pairs.values() if ours > 0]
        none = len(pairs) - len(factors)
        sizes = f", by a factor of {_largest(factors)}" if factors else ""
        sizes += f", and none at {none} of them" if none else ""
        sentence = f"{where}, and pspice has fewer false negatives at all of them{sizes}."
    else:
        places = join_words(_place(part, target, pairs[target]) for target in above)
        sentence = f"{where}. There, {other} is not worse at {places}."
    if below is None:
        return sentence
    points = [target for target in valid if part.truth(target)["match_probability"] < below]
    missed = [target for target in points if target in above]
    return f"{sentence} Goal: pspice below {other} where the match probability is < {below:.0%}: " + (
        f"{verdict(not missed)}." if points else "no such point."
    )


def _valid_verdict(part: PartResult, shedders: tuple[str, ...], target: str, met: bool) -> str:
    """Return whether a goal is met; not judged if one of the shedders did not hold the bound."""
    valid = all(part.is_valid(shedder, target) for shedder in shedders)
    return verdict(met) if valid else "not judged, as events were late"


def _place(part: PartResult, target: str, pair: tuple[float, float]) -> str:
    probability = part.truth(target).get("match_probability")
    label = spaced(target) if "%" in target or probability is None else f"{probability:.0%}"
    return f"{label} ({pair[0]:.2f}; {pair[1]:.2f})"


def _bound_used(part: PartResult) -> str:
    """Return how much of the latency bound pspice uses on average, and how long the engine is busy."""
    used = part.values(PSPICE, "used")
    return (
        f"The mean latency of pspice is {min(used):.2f} to {max(used):.2f} of the bound ({_used_goal(min(used))})."
        f"{_busy(part)}"
    )


def _busy(part: PartResult) -> str:
    """Return a sentence on the share of the time in which events arrive that the engine is busy, if it is known."""
    asked = part.document["setting"].get("asked")
    speeds = zip(part.targets, part.values(PSPICE, "speed"), strict=True)
    shares = [float((asked or target).rstrip("%")) / 100 / speed for target, speed in speeds]
    if any(share != share for share in shares):
        return ""
    return f" The engine is busy for at least {min(1.0, *shares):.1%} of the time in which events arrive."


def _used_goal(used: float) -> str:
    """Return the goal for the share of the bound that is used; if it is not met, with the section that says why."""
    return f"goal ≥ {_USED:g}: " + (verdict(True) if used >= _USED else f"{verdict(False)}, [why]({_WHY})")


def _largest(factors: Iterable[float]) -> str:
    largest = max(factors)
    return f"up to {largest:.2f}" if largest <= _LARGE_FACTOR else f"more than {_LARGE_FACTOR}"


def _above_oracle(part: PartResult) -> list[str]:
    """Return a sentence on the points at which a strategy finds more than the oracle, if the oracle ran."""
    return oracle_exceeded(part) if "oracle" in part.references else []


def _mean(values: Iterable[float]) -> float:
    items = list(values)
    return sum(items) / len(items)
