"""What is true of the stored numbers, in sentences; each is computed, so that it stays true when they change."""

from __future__ import annotations

from collections.abc import Sequence

from bench.papers.hybrid.words import Parts, asked, beaten, between, joined, missed, of, percent
from bench.papers.stored import Stored
from bench.papers.strategies import BASELINES, CUTTING, HYBRID, INPUT, STATE

__all__ = ["loud", "ratios", "under"]

MIDDLE = "48.4%"
#: Recall at which nothing is said to be lost.
LOSSLESS = 0.9995
_NAMES = {"mean": "mean", "p95": "95th percentile"}
#: 500 and 700 us of 1,033.
_TURNS = {"mean": MIDDLE, "p95": "67.8%"}


def under(parts: Parts, statistic: str) -> list[str]:
    """Of Fig. 4 and 5."""
    paper, measured = parts["paper"], parts["measured"]
    return [
        f"At the paper's 500 us ({percent(MIDDLE)}), where its hybrid strategy finds all matches, and with the table "
        f"`paper` recall is {_recalls(paper, _judged(paper))}; of references {_recalls(paper, paper.references)}.",
        f"{_zero_loss(paper, statistic)} {_zero_loss(measured, statistic)}",
        *_wanted(paper, parts["lowest_paper"], statistic), *_wanted(measured, parts["lowest_measured"], statistic),
        f"{_ahead(paper)} {_speeds(paper)}",
        *_cut(paper), *_cut(measured), *_turn(paper, _TURNS[statistic]), *beaten(paper), *beaten(measured),
        f"{missed(paper)} {missed(measured)}",
        f"The bound is on the {_NAMES[statistic]} over all events, in the paper over complete matches.",
    ]  # fmt: skip


def ratios(parts: Parts) -> list[str]:
    """Of Fig. 6."""
    paper, said = parts["paper"], []
    shares = (((*INPUT, "hyi"), "shed_event_ratio", "events"), ((*STATE, "hys"), "shed_match_ratio", "partial matches"))
    for names, key, what in shares:
        names = tuple(name for name in names if name in paper.shedders)
        values = [between(paper, name, key, "recall", 0.5) for name in names]
        found = joined(f"{value:.2f} with {name}" for name, value in zip(names, values, strict=True))
        beside = " (in the paper 0.3 with rs and ss, 1 with hys)" if key == "shed_match_ratio" else ""
        said.append(f"Where half of the {what} are shed, recall is {found}{beside}, on a line between two runs.")
    if "hys" in paper.shedders:
        what = "Work is to look at live partial matches, and some to store them. Where half is saved, recall of hys"
        told = joined(f"{of(paper, name, '50%'):.2f} with {name}" for name in STATE)
        said.append(f"{asked(what, of(paper, 'hys', '50%'), 0.98)} It is {told}.")
        said.append(
            "Then half of the partial matches that would live do not, and hys finds all, RS half: "
            "`tests/shedding/hybrid/test_shedder.py` counts them."
        )
    free = [target for target in paper.targets if "oracle" in paper.shedders and of(paper, "oracle", target) >= 1]
    if free:
        events, matches = (of(paper, "oracle", free[0], key) for key in ("shed_event_ratio", "shed_match_ratio"))
        said.append(
            f"{100 * events:.0f} % of the events and {100 * matches:.0f} % of the births of partial matches come to "
            "nothing. These the oracle sheds whatever is asked for, so its lines begin there. The paper's shares are "
            "of live partial matches, where one that lives long counts for more, ours are of births."
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
        whole, found = part.document["truth"][key], [(of(part, name, target), target) for target in part.targets]
        free = [target for recall, target in found if recall >= 1]
        if free:
            share = 100 * of(part, name, free[-1], key) / whole
            told.append(f"{name} finds all down to the bound of {percent(free[-1])} ({share:.1f} % of the latency)")
        else:
            recall, target = max(found)
            told.append(f"{name} finds {recall:.3f} at most (at {percent(target)})")
    return f"With the table `{part.document['setting']['cost_table']}` {' and '.join(told)}."


def _wanted(part: Stored, lowest: Stored, statistic: str) -> list[str]:
    """What was asked for of hybrid, against `informed` and the baselines, and at which cost nothing is lost."""
    at, key = f"With the table `{part.document['setting']['cost_table']}`", f"{statistic}_latency"
    whole = lowest.document["truth"][key]
    found = [
        (of(one, "informed", t), of(one, "informed", t, key) / whole) for one in (part, lowest) for t in one.targets
    ]
    free = [cost for recall, cost in found if recall >= LOSSLESS]
    if not free or HYBRID not in part.shedders:
        return []
    z, share = min(free), {target: float(target.rstrip("%")) / 100 for target in part.targets}
    above = [of(part, HYBRID, target) for target in part.targets if share[target] >= z + 0.03]
    behind = [of(part, "informed", target) - of(part, HYBRID, target) for target in part.targets]
    ahead = [of(part, HYBRID, target) - max(of(part, name, target) for name in BASELINES) for target in part.targets]
    said = f"{at} informed finds {100 * LOSSLESS:g} % of the matches down to z = {100 * z:.1f} % of the latency."
    if above:
        said += " " + asked("The least recall of hybrid at a bound of z + 3 % or more", min(above), 0.99)
    worst = asked("At its worst bound what it finds more than informed (below 0: less)", -max(behind), -0.02)
    return [f"{said} {worst} {asked('The least that it is ahead of the best baseline', min(ahead), 0.0)}"]


def _cut(part: Stored) -> list[str]:
    """What cutting events off finds beside hybrid and `informed`."""
    if CUTTING not in part.shedders or HYBRID not in part.shedders:
        return []
    more = [of(part, CUTTING, target) - of(part, HYBRID, target) for target in part.targets]
    also = [of(part, CUTTING, target) - of(part, "informed", target) for target in part.targets]
    return [
        f"With the table `{part.document['setting']['cost_table']}` `hybrid-cut`, which cuts events off, finds by "
        f"{min(more):+.3f} to {max(more):+.3f} more than hybrid, and by {min(also):+.3f} to {max(also):+.3f} more than "
        "informed."
    ]


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
        f"{percent(paper)}; so does informed below {percent(part.targets[most])}, where it sheds "
        f"{100 * ratios[most]:.0f} % of the births."
    ]


def _ahead(part: Stored) -> str:
    """Whether state-based shedding has the better recall."""
    ahead = [
        max(of(part, name, target) for name in STATE) - max(of(part, name, target) for name in INPUT)
        for target in part.targets
    ]
    least, most = min(ahead), max(ahead)
    where = "everywhere" if least > 0 else "nowhere" if most <= 0 else "not everywhere"
    return (
        f"The better of the state-based ones is ahead of the better of the input-based ones {where}: by {least:.3f} to "
        f"{most:.3f}."
    )


def _speeds(part: Stored) -> str:
    speeds = {name: of(part, name, MIDDLE, "speed") for name in (*INPUT, *STATE)}
    low, high = min(speeds.values()), max(speeds.values())
    if high / low < 1.1:
        return (
            f"At equal bounds all of them have about the same throughput (there {high:.2f} times that without "
            "shedding): where operations are counted, a bound on the work is one on the throughput."
        )
    told = ", ".join(f"{value:.2f} ({name.upper()})" for name, value in speeds.items())
    return f"Throughput there is {told} times that without shedding."


def _judged(part: Stored) -> list[str]:
    """The strategies that are no references."""
    return [name for name in part.shedders if name not in part.references]


def _recalls(part: Stored, names: Sequence[str]) -> str:
    told = [f"{of(part, name, MIDDLE):.2f} ({name.upper() if name in BASELINES else name})" for name in names]
    return joined(told)
