"""Findings of Fig. 4 to 6 and of the rejected runs: sentences computed from the stored results."""

from __future__ import annotations

from collections.abc import Sequence

from bench.papers.results import PartResult
from bench.papers.sentences import (
    Parts,
    goal_sentence,
    interpolate,
    invalid_points,
    join_words,
    oracle_exceeded,
    spaced,
    table_name,
    value_of,
)
from bench.papers.strategies import BASELINES, CUTTING, HYBRID, INPUT, STATE

__all__ = ["rejected", "shed_ratios", "under_bounds"]

MIDDLE = "48.4%"
#: Recall from which a run is called lossless.
LOSSLESS = 0.9995
_NAMES = {"mean": "mean", "p95": "95th percentile"}
#: Bounds at which the paper's hybrid strategy starts to shed fewer partial matches: 500 and 700 us of 1,033.
_TURNS = {"mean": MIDDLE, "p95": "67.8%"}


def under_bounds(parts: Parts, statistic: str) -> list[str]:
    """Return the findings of Fig. 4 or 5."""
    paper, measured = parts["paper"], parts["measured"]
    return [
        f"At the paper's 500 us ({spaced(MIDDLE)}), where its hybrid strategy finds all matches, and with the table "
        f"`paper`, recall is {_recalls(paper, _strategies(paper))}. The references have "
        f"{_recalls(paper, paper.references)}.",
        f"{_tightest_lossless_bounds(paper, statistic)} {_tightest_lossless_bounds(measured, statistic)}",
        *_goals(paper, parts["lowest_paper"], statistic), *_goals(measured, parts["lowest_measured"], statistic),
        f"{_state_lead(paper)} {_throughputs(paper)}",
        *_gain_of_cutting(paper), *_gain_of_cutting(measured), *_turn(paper, _TURNS[statistic]),
        *oracle_exceeded(paper), *oracle_exceeded(measured),
        f"{invalid_points(paper)} {invalid_points(measured)}",
        f"Here the bound is on the {_NAMES[statistic]} over all events; in the paper it is over complete matches.",
    ]  # fmt: skip


def shed_ratios(parts: Parts) -> list[str]:
    """Return the findings of Fig. 6."""
    paper, sentences = parts["paper"], []
    shares = (((*INPUT, "hyi"), "shed_event_ratio", "events"), ((*STATE, "hys"), "shed_match_ratio", "partial matches"))
    for names, key, noun in shares:
        names = tuple(name for name in names if name in paper.shedders)
        recalls = [interpolate(paper, name, key, "recall", 0.5) for name in names]
        values = join_words(f"{value:.2f} with {name}" for name, value in zip(names, recalls, strict=True))
        reported = " (in the paper 0.3 with rs and ss, 1 with hys)" if key == "shed_match_ratio" else ""
        sentences.append(
            f"Where half of the {noun} are shed, recall is {values}{reported}, interpolated between two runs."
        )
    if "hys" in paper.shedders:
        subject = "Work is visiting and creating partial matches, mostly visiting. Where half is saved, recall of hys"
        baselines = join_words(f"{value_of(paper, name, '50%'):.2f} with {name}" for name in STATE)
        sentences.append(f"{goal_sentence(subject, value_of(paper, 'hys', '50%'), 0.98)} It is {baselines}.")
        sentences.append(
            "At that point half of the partial matches that would be live are not; hys still finds all matches, RS "
            "half of them. `tests/shedding/hybrid/test_shedder.py` counts them."
        )
    free = [target for target in paper.targets if "oracle" in paper.shedders and value_of(paper, "oracle", target) >= 1]
    if free:
        events, matches = (value_of(paper, "oracle", free[0], key) for key in ("shed_event_ratio", "shed_match_ratio"))
        sentences.append(
            f"{100 * events:.0f} % of the events and {100 * matches:.0f} % of the created partial matches contribute "
            "to no match. The oracle sheds these at every demand, so its lines begin there. The paper's shares are of "
            "live partial matches, so that a long-lived one counts more; ours are of created ones."
        )
    return sentences


def rejected(parts: Parts) -> list[str]:
    """Return the messages of ``Report.check``."""
    messages = {part.replace("_", " "): _indent(result.document["check"]) for part, result in parts.items()}
    return [f"`report.check()` on *{part}*:\n\n  ```text\n{text}\n  ```" for part, text in messages.items()]


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _tightest_lossless_bounds(part: PartResult, statistic: str) -> str:
    """Describe the tightest bound at which each reference finds all matches, or its largest recall."""
    clauses, key = [], f"{statistic}_latency"
    for name in part.references:
        unshed = part.document["truth"][key]
        recalls = [(value_of(part, name, target), target) for target in part.targets]
        free = [target for recall, target in recalls if recall >= 1]
        if free:
            share = 100 * value_of(part, name, free[-1], key) / unshed
            clauses.append(
                f"{name} finds all matches down to the bound of {spaced(free[-1])} ({share:.1f} % of the latency)"
            )
        else:
            recall, target = max(recalls)
            clauses.append(f"{name} has a recall of {recall:.3f} at most (at {spaced(target)})")
    return f"With the table `{table_name(part)}`, {' and '.join(clauses)}."


def _goals(part: PartResult, lowest: PartResult, statistic: str) -> list[str]:
    """Compare hybrid with the goals: lossless down to near the cost where `informed` is, and better than baselines."""
    key = f"{statistic}_latency"
    unshed = lowest.document["truth"][key]
    runs = [
        (value_of(result, "informed", target), value_of(result, "informed", target, key) / unshed)
        for result in (part, lowest)
        for target in result.targets
    ]
    free = [cost for recall, cost in runs if recall >= LOSSLESS]
    if not free or HYBRID not in part.shedders:
        return []
    z, share = min(free), {target: float(target.rstrip("%")) / 100 for target in part.targets}
    above = [value_of(part, HYBRID, target) for target in part.targets if share[target] >= z + 0.03]
    lags = [value_of(part, "informed", target) - value_of(part, HYBRID, target) for target in part.targets]
    leads = [
        value_of(part, HYBRID, target) - max(value_of(part, name, target) for name in BASELINES)
        for target in part.targets
    ]
    first = (
        f"With the table `{table_name(part)}`, informed finds {100 * LOSSLESS:g} % of the matches down to "
        f"z = {100 * z:.1f} % of the latency."
    )
    if above:
        first += " " + goal_sentence("The smallest recall of hybrid at a bound of z + 3 % or more", min(above), 0.99)
    worst = goal_sentence("The smallest recall of hybrid minus that of informed", -max(lags), -0.02)
    lead = goal_sentence("The smallest lead over the best baseline", min(leads), 0.0)
    return [f"{first} {worst} {lead}"]


def _gain_of_cutting(part: PartResult) -> list[str]:
    """Compare the recall of `hybrid-cut` with that of hybrid and `informed`."""
    if CUTTING not in part.shedders or HYBRID not in part.shedders:
        return []
    hybrid = [value_of(part, CUTTING, target) - value_of(part, HYBRID, target) for target in part.targets]
    informed = [value_of(part, CUTTING, target) - value_of(part, "informed", target) for target in part.targets]
    return [
        f"With the table `{table_name(part)}`, the recall of `hybrid-cut` differs from that of hybrid by "
        f"{min(hybrid):+.3f} to {max(hybrid):+.3f}, and from that of informed by {min(informed):+.3f} to "
        f"{max(informed):+.3f}."
    ]


def _turn(part: PartResult, paper: str) -> list[str]:
    """Describe the bound below which `informed` sheds fewer partial matches and more events, as in the paper."""
    if "informed" not in part.shedders:
        return []
    ratios = part.values("informed", "shed_match_ratio")
    largest = ratios.index(max(ratios))
    if largest == len(ratios) - 1:
        return []
    return [
        f"The paper's hybrid strategy sheds fewer partial matches, and more events, below a bound of {spaced(paper)}. "
        f"So does informed below {spaced(part.targets[largest])}, where it sheds {100 * ratios[largest]:.0f} % of the "
        "created partial matches."
    ]


def _state_lead(part: PartResult) -> str:
    """Compare the recall of state-based shedding with that of input-based shedding."""
    leads = [
        max(value_of(part, name, target) for name in STATE) - max(value_of(part, name, target) for name in INPUT)
        for target in part.targets
    ]
    smallest, largest = min(leads), max(leads)
    where = "at all bounds" if smallest > 0 else "at no bound" if largest <= 0 else "at some bounds"
    return (
        f"The better state-based baseline has a higher recall than the better input-based one {where}: by "
        f"{smallest:.3f} to {largest:.3f}."
    )


def _throughputs(part: PartResult) -> str:
    """Describe the throughput of the baselines at the bound `MIDDLE`."""
    speeds = {name: value_of(part, name, MIDDLE, "speed") for name in (*INPUT, *STATE)}
    low, high = min(speeds.values()), max(speeds.values())
    if high / low < 1.1:
        return (
            f"At equal bounds all of them have about the same throughput ({high:.2f} times that without shedding at "
            f"{spaced(MIDDLE)}): where operations are counted, a bound on the work is a bound on the throughput."
        )
    values = ", ".join(f"{value:.2f} ({name.upper()})" for name, value in speeds.items())
    return f"At {spaced(MIDDLE)} their throughput is {values} times that without shedding."


def _strategies(part: PartResult) -> list[str]:
    """Return the shedders that are not references."""
    return [name for name in part.shedders if name not in part.references]


def _recalls(part: PartResult, names: Sequence[str]) -> str:
    return join_words(
        f"{value_of(part, name, MIDDLE):.2f} ({name.upper() if name in BASELINES else name})" for name in names
    )
