"""Findings of Fig. 7 to 10 of the eSPICE paper: latency, sizes of windows, bins and overhead."""

from __future__ import annotations

from statistics import fmean

from bench.papers.espice.findings import MISSED, of_part
from bench.papers.results import PartResult
from bench.papers.sentences import Parts, invalid_points, join_words, spaced, value_of, verdict
from bench.papers.strategies import ESPICE

__all__ = ["bound_kept", "bound_kept_on_the_wall", "over_bins", "over_window_sizes", "overheads"]

#: Goals: mean latency as a share of the bound, and its allowed difference; share of events within the bound on the wall
#: clock; overhead by number of events in a window.
F, _NEAR, _WITHIN = 0.8, 0.1, 0.999
_OVERHEAD = {"2000": 0.01, "16000": 0.05}
#: False negatives that may be more, in absolute terms, for them to count as only slightly influenced.
_SLIGHTLY = 0.05


def bound_kept(parts: Parts) -> list[str]:
    """Return the findings of Fig. 7 on the virtual clock."""
    sentences = []
    for name, part in parts.items():
        clauses = []
        for line in part.document["series"]:
            late, used, shed = (
                value_of(part, ESPICE, line["target"], key)
                for key in ("share_over_bound", "used", "used_while_shedding")
            )
            clauses.append(
                f"at {spaced(line['target'])} the longest event latency of one seed is "
                f"{line['largest'] / line['bound']:.3f} of the bound (goal ≤ 1: "
                f"{verdict(line['largest'] <= line['bound'] and late == 0)}), {late:.2%} of the judged events of all "
                "seeds are late, and the mean "
                f"is {used:.2f} of the bound; while load is shed, it is {shed:.2f} (goal {F:g} ± {_NEAR:g}: "
                f"{verdict(abs(shed - F) <= _NEAR)})"
            )
        sentences.append(f"*{of_part(name)}*: {'; '.join(clauses)}.")
    return sentences


def bound_kept_on_the_wall(parts: Parts) -> list[str]:
    """Return the findings of Fig. 7 on the wall clock."""
    return [_within(parts["wall"], "With the longest queue of the paper"),
            _within(parts["wall_bound"], "With a queue as long as the bound allows")]  # fmt: skip


def _within(part: PartResult, case: str) -> str:
    values = join_words(
        f"{1 - value_of(part, ESPICE, target, 'share_over_bound'):.3%} at {spaced(target)} (goal ≥ {_WITHIN:.1%}: "
        f"{verdict(value_of(part, ESPICE, target, 'share_over_bound') <= 1 - _WITHIN)})"
        for target in part.targets
    )
    used = join_words(f"{value_of(part, ESPICE, target, 'used'):.2f}" for target in part.targets)
    overhead = max(part.values(ESPICE, "overhead"))
    missed = join_words(f"{value_of(part, ESPICE, target, MISSED):.0%}" for target in part.targets)
    return (
        f"{case}, {values} of the events are within the bound, and {missed} of the matches are missed. The mean "
        f"latency is {used} of the bound. Decisions take up to {overhead:.2%} of the busy time."
    )


def over_window_sizes(parts: Parts) -> list[str]:
    """Return the findings of Fig. 8."""
    return [f"{_values(name, part, ' %')} {_influence(part, '100')}" for name, part in parts.items()]


def over_bins(parts: Parts) -> list[str]:
    """Return the findings of Fig. 9."""
    return [f"{_values(name, part, '')} {_influence(part, '1')}" for name, part in parts.items()]


def overheads(parts: Parts) -> list[str]:
    """Return the findings of Fig. 10."""
    (part,) = parts.values()
    values = dict(zip(part.targets, part.values(ESPICE, "overhead"), strict=True))
    clauses, estimates = [], []
    for target, share in values.items():
        estimate = fmean(row["estimate"] for row in part.rows_of(ESPICE, target))
        estimates.append(f"{estimate:.1%} at {int(target):,}")
        seeds = [row["overhead"] for row in part.rows_of(ESPICE, target)]
        clauses.append(f"{share:.1%} ({min(seeds):.1%} to {max(seeds):.1%}) at {int(target):,} events")
    sentences = [
        f"Look-ups and decisions take {join_words(clauses)}, relative to the processing time; in brackets the range "
        "over the seeds, which shows the noise of the machine. The [estimated recall](espice.md#estimated-recall), "
        f"which the paper does not have, takes {join_words(estimates)} in addition."
    ]
    for target, goal in _OVERHEAD.items():
        if target in values:
            sentences.append(
                f"Windows of {int(target):,} events: {values[target]:.2%} (goal ≤ {goal:.0%}: "
                f"{verdict(values[target] <= goal)})."
            )
    return sentences


def _values(name: str, part: PartResult, unit: str) -> str:
    values = join_words(
        f"{100 * value:.3g} % at {target}{unit}"
        for target, value in zip(part.targets, part.values(ESPICE, MISSED), strict=True)
    )
    return f"*{name[:2].upper()}, {name.rpartition('_')[2]} %*: the false negatives are {values}."


def _influence(part: PartResult, reference: str) -> str:
    """Compare the largest false negatives of the valid points with those at a reference, or at the first of them."""
    valid = [target for target in part.targets if part.is_valid(ESPICE, target)]
    if not valid:
        return invalid_points(part)
    chosen = reference if reference in valid else valid[0]
    more = max(value_of(part, ESPICE, target, MISSED) for target in valid) - value_of(part, ESPICE, chosen, MISSED)
    sentence = (
        f"The most are {100 * more:.3g} percentage points above those at {spaced(chosen)} (goal ≤ "
        f"{100 * _SLIGHTLY:g}: {verdict(more <= _SLIGHTLY)})."
    )
    return sentence if len(valid) == len(part.targets) else f"{sentence} {invalid_points(part)}"
