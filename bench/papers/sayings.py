"""What is true of the stored numbers, in sentences; each is computed, so that it stays true when they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from bench.papers.stored import Stored

__all__ = ["bikes", "loud", "ratios", "under"]

Parts = Mapping[str, Stored]
INPUT, STATE = ("ri", "si"), ("rs", "ss")
MIDDLE = "48.4%"
_NAMES = {"mean": "mean", "p95": "95th percentile"}
#: 500 and 700 us of 1,033.
_TURNS = {"mean": MIDDLE, "p95": "67.8%"}


def under(parts: Parts, statistic: str) -> list[str]:
    """Of Fig. 4 and 5."""
    paper, measured = parts["paper"], parts["measured"]
    return [
        f"At the paper's 500 us ({_percent(MIDDLE)}), where its hybrid strategy finds all matches, and with the table "
        f"`paper` recall is {_recalls(paper, (*INPUT, *STATE))}; of references {_recalls(paper, paper.references)}.",
        f"{_zero_loss(paper, statistic)} {_zero_loss(measured, statistic)}",
        f"{_ahead(paper)} {_speeds(paper)}",
        *_turn(paper, _TURNS[statistic]), *_beaten(paper), *_beaten(measured),
        f"{_missed(paper)} {_missed(measured)}",
        f"The bound is on the {_NAMES[statistic]} over all events, in the paper over complete matches.",
    ]  # fmt: skip


def ratios(parts: Parts) -> list[str]:
    """Of Fig. 6."""
    paper, said = parts["paper"], []
    for names, key, what in ((INPUT, "shed_event_ratio", "events"), (STATE, "shed_match_ratio", "partial matches")):
        values = [_between(paper, name, key, "recall", 0.5) for name in names]
        found = " and ".join(f"{value:.2f} with {name.upper()}" for name, value in zip(names, values, strict=True))
        beside = " (in the paper 0.3)" if names == STATE else ""
        said.append(f"Where half of the {what} are shed, recall is {found}{beside}, on a line between two runs.")
    free = [target for target in paper.targets if "oracle" in paper.shedders and _of(paper, "oracle", target) >= 1]
    if free:
        events, matches = (_of(paper, "oracle", free[0], key) for key in ("shed_event_ratio", "shed_match_ratio"))
        said.append(
            f"{100 * events:.0f} % of the events and {100 * matches:.0f} % of the births of partial matches come to "
            "nothing. These the oracle sheds whatever is asked for, so its lines begin there. The paper's shares are "
            "of live partial matches, where one that lives long counts for more, ours are of births."
        )
    return said


def bikes(parts: Parts) -> list[str]:
    """Of the Bay Area year."""
    rates, bounds = parts["rates"], parts["bounds"]
    events, fastest = rates.document["events"], rates.document["setting"]["maximum_rate"]
    seconds = [events / fastest / float(target.rstrip("%")) * 100 for target in rates.targets]
    took = ", ".join(f"{value:.2f} s at {_percent(t)}" for value, t in zip(seconds, rates.targets, strict=True))
    said = [f"The year takes {took}.", _same(rates), *_beaten(rates), *_beaten(bounds)]
    last = bounds.targets[-1]
    times = _of(bounds, "rs", last) / _of(bounds, "ri", last)
    said.append(
        f"At the bound of {_percent(last)} RS finds {times:.1f} times what RI finds; in the paper, at 20 %, 2.9 times."
    )
    said.append(f"{_missed(rates)} {_missed(bounds)}")
    said.append(
        "An event costs a few whole operations, so that the percentile moves in steps: 75 % are six operations, and "
        "the paper's 20 % would be one."
    )
    return said


def loud(parts: Parts) -> list[str]:
    """What runs say that say nothing."""
    said = {part.replace("_", " "): _indented(stored.document["check"]) for part, stored in parts.items()}
    return [f"`report.check()` on *{part}* says\n\n  ```text\n{text}\n  ```" for part, text in said.items()]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _zero_loss(part: Stored, statistic: str) -> str:
    """Down to which bound references find all, or how much they find at most."""
    told, key = [], f"{statistic}_latency"
    for name in part.references:
        whole, found = part.document["truth"][key], [(_of(part, name, target), target) for target in part.targets]
        free = [target for recall, target in found if recall >= 1]
        if free:
            share = 100 * _of(part, name, free[-1], key) / whole
            told.append(f"{name} finds all down to the bound of {_percent(free[-1])} ({share:.1f} % of the latency)")
        else:
            recall, target = max(found)
            told.append(f"{name} finds {recall:.3f} at most (at {_percent(target)})")
    return f"With the table `{part.document['setting']['cost_table']}` {' and '.join(told)}."


def _turn(part: Stored, paper: str) -> list[str]:
    """Where a reference goes over from partial matches to events, as the paper's hybrid strategy does."""
    if "informed" not in part.shedders:
        return []
    ratios = part.line("informed", "shed_match_ratio")
    most = ratios.index(max(ratios))
    if most == len(ratios) - 1:
        return []
    return [
        f"The paper's hybrid strategy sheds fewer partial matches, and more events, below a bound of "
        f"{_percent(paper)}; so does informed below {_percent(part.targets[most])}, where it sheds "
        f"{100 * ratios[most]:.0f} % of the births."
    ]


def _ahead(part: Stored) -> str:
    """Whether state-based shedding has the better recall."""
    ahead = [
        max(_of(part, name, target) for name in STATE) - max(_of(part, name, target) for name in INPUT)
        for target in part.targets
    ]
    least, most = min(ahead), max(ahead)
    where = "everywhere" if least > 0 else "nowhere" if most <= 0 else "not everywhere"
    return (
        f"The better of the state-based ones is ahead of the better of the input-based ones {where}: by {least:.3f} to "
        f"{most:.3f}."
    )


def _speeds(part: Stored) -> str:
    speeds = {name: _of(part, name, MIDDLE, "speed") for name in (*INPUT, *STATE)}
    low, high = min(speeds.values()), max(speeds.values())
    if high / low < 1.1:
        return (
            f"At equal bounds all of them have about the same throughput (there {high:.2f} times that without "
            "shedding): where operations are counted, a bound on the work is one on the throughput."
        )
    told = ", ".join(f"{value:.2f} ({name.upper()})" for name, value in speeds.items())
    return f"Throughput there is {told} times that without shedding."


def _missed(part: Stored) -> str:
    """Which points do not count."""
    where = f"`{part.document['setting']['cost_table']}`, {part.document['setting']['mode']}"
    cells = [(shedder, target) for shedder in part.shedders for target in part.targets]
    amiss = [(shedder, target) for shedder, target in cells if not part.counts(shedder, target)]
    if not amiss:
        return f"All points count ({where})."
    by_targets: dict[str, list[str]] = {}
    for name in dict.fromkeys(shedder for shedder, _ in amiss):
        targets = " and ".join(_percent(target) for shedder, target in amiss if shedder == name)
        by_targets.setdefault(targets, []).append(name)
    told = "; ".join(f"{', '.join(names)} at {targets}" for targets, names in by_targets.items())
    return f"{len(amiss)} of {len(cells)} points do not count ({where}): {told}."


def _same(part: Stored) -> str:
    """Which of the strategies do the same."""
    same = [f"{', '.join(names[:-1])} and {names[-1]}" for names in part.groups() if len(names) > 1]
    return "There is one event type" + "".join(f"; {names} do the same" for names in same) + "."


def _beaten(part: Stored) -> list[str]:
    """Where something that counts found more than the oracle (by more than 0.01), and why that may be."""
    found = []
    for target in part.targets:
        limit = _of(part, "oracle", target)
        others = [name for name in part.shedders if name != "oracle" and part.counts(name, target)]
        best = max(((_of(part, name, target), name) for name in others), default=(0.0, ""))
        if best[0] > limit + 0.01:
            found.append(f"{_percent(target)} ({limit:.2f}; {best[1]} {best[0]:.2f})")
    if not found:
        return []
    where = f"`{part.document['setting']['cost_table']}`, {part.document['setting']['mode']}"
    return [
        f"The oracle is no limit at {' and '.join(found)} ({where}): it drops what is worth least for the work over "
        "the whole stream, while a queue or a percentile asks for less work only where there is much to do."
    ]


def _recalls(part: Stored, names: Sequence[str]) -> str:
    told = [f"{_of(part, name, MIDDLE):.2f} ({name if name in part.references else name.upper()})" for name in names]
    return f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told)


def _between(part: Stored, shedder: str, x: str, y: str, wanted: float) -> float:
    """The value of y where x is as wanted, between two points in a straight line."""
    points = sorted(zip(part.line(shedder, x), part.line(shedder, y), strict=True))
    for (left, low), (right, high) in pairwise(points):
        if left <= wanted <= right:
            return low + (high - low) * (wanted - left) / (right - left) if right > left else low
    return float("nan")


def _of(part: Stored, shedder: str, target: str, key: str = "recall") -> float:
    value = part.value(shedder, target, key)
    return float("nan") if value is None else value


def _percent(label: str) -> str:
    return label.replace("%", " %")
