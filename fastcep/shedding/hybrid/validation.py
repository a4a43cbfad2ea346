"""Validation of a model on the later part of the history.

The history is split by time. Features are tested on the later part, classes are fitted on the earlier part, and their
drop order is replayed on the later part: the lineage gives, for each match there, the first step that would lose it.
This yields the *held-out recall*. No engine runs with shedding.

Features that do not generalise are removed. If the model's own estimate of the recall is still wrong, or if random
shedding or a model without features is better, more features are removed, and finally all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.overload.protocols import Classes, Floats, Ints, Tree
from fastcep.query import ast
from fastcep.shedding.hybrid.attribution import Account
from fastcep.shedding.hybrid.classes import bins_of, informative_features
from fastcep.shedding.hybrid.columns import CONSUMPTION, CONTRIBUTION, POSITION, column, vectors
from fastcep.shedding.hybrid.feature_selection import held_out_gain, responses_of
from fastcep.shedding.hybrid.replay import Curve, drop_curves, random_curve
from fastcep.shedding.hybrid.summary import Summary

__all__ = ["Kind", "Validation", "validate"]

_LOG = logging.getLogger("fastcep.shedding")

Kind = tuple[str, str]  #: ``"partial match"`` or ``"event"``, and the variable
Kinds = Mapping[str, Classes | Tree]  #: by variable
Features = dict[Kind, list[str]]

#: Share of the events in the earlier part.
_EARLIER = 0.7
#: Smallest number of matches in each part.
_MATCHES = 20
#: Shares of the work that can be saved, at which recalls are compared.
SHARES = (0.2, 0.5, 0.8)
#: Largest difference of the estimated and the held-out recall without a warning.
_TOLERANCE = 0.05
#: Difference of two mean recalls that does not count.
_EQUAL = 0.005
#: Number of features that are removed, one after the other while that helps, before all of them are.
_REMOVALS = 3
#: Share of later members with values unseen before, from which on the feature must be informative about these as well.
_UNSEEN = 0.1
#: Largest share of later members with values outside the earlier range.
_OUTSIDE = 0.2


@dataclass(frozen=True)
class Validation:
    """Result of a validation.

    Attributes
    ----------
    features
        Features that may be used, by kind of members. None: all, as the history is too short to validate.
    slices
        Number of slices of the window.
    report
        Report as JSON values, see `HybridModel.validation`.
    """

    features: Features | None
    slices: int
    report: dict[str, Any]


@dataclass(frozen=True)
class _Candidate:
    """Model of the earlier part, and its recalls at `SHARES`."""

    features: Features
    slices: int
    estimated: Floats
    held_out: Floats

    @property
    def gap(self) -> float:
        """Largest difference of the estimated and the held-out recall."""
        return float(np.abs(self.estimated - self.held_out).max())

    @property
    def score(self) -> float:
        """Mean held-out recall."""
        return float(self.held_out.mean())

    def beats(self, recall: Floats) -> bool:
        """Return whether the held-out recall is nowhere below the given one, except for a negligible difference."""
        return bool((self.held_out >= recall - _EQUAL).all())


def validate(
    query: ast.Query,
    account: Account,
    members: Callable[[Kind], pa.Table],
    kinds: Sequence[Kind],
    classes_of: Callable[[Kind, pa.Table, Sequence[str]], Classes | Tree | None],
    seed: int,
) -> Validation:
    """Validate the features of a query on the later part of its history, and log a warning if they mislead.

    Parameters
    ----------
    query
        Query to fit.
    account
        Account of the whole history.
    members
        Function that returns the members of a kind, with the column `POSITION`.
    kinds
        Kinds of members.
    classes_of
        Function that fits the classes of a kind to some of its members, with some features.
    seed
        Seed of samples.
    """
    split = _split(query, account)
    report: dict[str, Any] = {"states": _states(account), "features": {}, "removed": []}
    matches = [int((account.matched & part.is_owned).sum()) for part in split]
    if not account.stored.any():
        return Validation(None, account.slices, report)  # nothing to fit; the fit raises an error
    if min(matches) < _MATCHES:
        by_state = "; ".join(
            f"{state['variable']}: {state['partial_matches']:,}, {state['useful']:,} of which led to a match"
            for state in report["states"]
        )
        report["warning"] = (
            f"history of {account.owned[1]:,} events is too short to validate the model of query {query.name!r}: found "
            f"{matches[0]:,} matches in its earlier part and {matches[1]:,} in its later part, expected {_MATCHES} in "
            f"each; give more history. Partial matches: {by_state}"
        )
        _LOG.warning("%s", report["warning"])
        return Validation(None, account.slices, report)
    early, late = split
    gains: dict[tuple[Kind, str], float] = {}
    earlier: dict[Kind, pa.Table] = {}
    removed: list[dict[str, str]] = []
    features: Features = {}
    for kind in kinds:
        table = members(kind)
        earlier[kind], later = _between(table, *early.owned), _between(table, *late.owned)
        features[kind] = []
        for name, gain, reason in _tested(earlier[kind], later, seed):
            if reason:
                removed.append(_removal(kind, name, reason))
            else:
                features[kind].append(name)
                gains[kind, name] = gain
    found: dict[tuple[Kind, tuple[str, ...]], Classes | Tree | None] = {}

    def evaluated(of: Features) -> _Candidate:
        for kind, names in of.items():
            if names and (kind, tuple(names)) not in found:
                found[kind, tuple(names)] = classes_of(kind, earlier[kind], names)
        classes = {kind: found.get((kind, tuple(names))) for kind, names in of.items()}
        own, events = (
            {name: item for (role, name), item in classes.items() if role == wanted and item is not None}
            for wanted in ("partial match", "event")
        )
        estimated, held_out = drop_curves(early, late, own, events)
        return _Candidate(of, account.slices, _at_shares(estimated), _at_shares(held_out))

    chance = _at_shares(random_curve(late))
    candidates = [evaluated(features)]
    without = evaluated({kind: [] for kind in kinds}) if gains else candidates[0]
    if candidates[0].gap > _TOLERANCE or candidates[0].score < without.score or not candidates[0].beats(chance):
        left = dict(sorted(gains.items(), key=lambda item: item[1]))
        for _ in range(min(_REMOVALS, len(left) - 1)):
            del left[next(iter(left))]
            fewer = {kind: [name for name in names if (kind, name) in left] for kind, names in features.items()}
            candidates.append(evaluated(fewer))
            last, removal = candidates[-2:]
            if last.beats(chance) and removal.score <= last.score:
                break
        candidates.append(without)
    if account.slices > 1 and not any(candidate.beats(chance) for candidate in candidates):  # age misleads as well
        whole = account.sliced(1)
        curves = drop_curves(whole.restricted(*early.owned), whole.restricted(*late.owned), {}, {})
        candidates.append(_Candidate(without.features, 1, *map(_at_shares, curves)))
    fairest = max(candidates, key=lambda item: float((item.held_out - chance).min()))
    eligible = [candidate for candidate in candidates if candidate.beats(chance)] or [fairest]
    best = max(candidate.score for candidate in eligible)
    chosen = min((item for item in eligible if item.score >= best - _EQUAL), key=lambda item: item.gap)
    if candidates[0].beats(chance):
        reason = "the held-out recall or its estimate is better without it"
    else:
        reason = "with it, the held-out recall is lower than that of random shedding"
    for kind, name in gains:
        if name not in chosen.features[kind]:
            removed.append(_removal(kind, name, reason))
    report |= {
        "matches": {"earlier": matches[0], "later": matches[1]},
        "shares": list(SHARES),
        "held_out_recall": chosen.held_out.round(4).tolist(),
        "estimated_recall": chosen.estimated.round(4).tolist(),
        "random_recall": chance.round(4).tolist(),
        "features": {f"{role} {name}": names for (role, name), names in chosen.features.items() if names},
        "slices": chosen.slices,
        "removed": removed,
        "warning": None,
    }
    problems = []
    if chosen.gap > _TOLERANCE:
        problems.append(f"estimated recall differs from the held-out recall by {chosen.gap:.2f}")
    if not chosen.beats(chance):
        problems.append("random shedding (rs) has a higher held-out recall")
    if problems:
        recalls = ", ".join(
            f"{held:.2f} ({own:.2f}, {random:.2f}) at {share:.0%}"
            for share, held, own, random in zip(SHARES, chosen.held_out, chosen.estimated, chance, strict=True)
        )
        report["warning"] = (
            f"model of query {query.name!r}: {' and '.join(problems)}. Held-out recall (estimated, random) by share of "
            f"the savings: {recalls}. The stream changes with time or the history is too short; give a longer or more "
            "recent one, or exclude identifiers with exclude="
        )
        _LOG.warning("%s", report["warning"])
    return Validation(chosen.features, chosen.slices, report)


def _split(query: ast.Query, account: Account) -> tuple[Account, Account]:
    """Return the accounts of the earlier and of the later part, with a window between them."""
    first, last = account.owned
    cut = first + int((last - first) * _EARLIER)
    end = cut
    if account.reach >= 0 and cut < last:  # positions of events whose windows end before the cut
        ends = account.limits[-1, first:cut]
        end = first + int(np.searchsorted(ends, cut, "left"))
    return account.restricted(first, end), account.restricted(cut, last)


def _states(account: Account) -> list[dict[str, Any]]:
    """Count the partial matches of each state, and those that led to a match."""
    states, count = account.record.states, len(account.variables)
    useful = account.stored & account.derived[0].any(axis=1)
    stored, led = (np.bincount(states[mask], minlength=count).tolist() for mask in (account.stored, useful))
    rows = zip(account.variables, stored, led, strict=True)
    return [{"variable": of, "partial_matches": rows_, "useful": led_} for of, rows_, led_ in rows if rows_]


def _between(members: pa.Table, first: int, last: int) -> pa.Table:
    """Return the members that events of a range of positions created; members are in the order of these."""
    low, high = np.searchsorted(members[POSITION].to_numpy(), [first, last])
    return members.slice(low, high - low)


def _tested(early: pa.Table, late: pa.Table, seed: int) -> list[tuple[str, float, str]]:
    """Return the features that are informative in the earlier part, their gain later, and why they are removed."""
    summaries = [Summary.of(part, seed) for part in (early, late)]
    samples = [summary.sample for summary in summaries]
    names = informative_features(samples[0])
    both = pa.concat_tables(samples).combine_chunks()
    responses = responses_of(vectors(both, CONTRIBUTION), vectors(both, CONSUMPTION))
    is_early = np.arange(len(both)) < len(samples[0])
    results = []
    for name in names:
        values, null = column(both, name)
        bins: Ints = bins_of(values, null)
        gain = held_out_gain(bins, responses, is_early, ~is_early)
        stats, later = summaries[0].feature_stats[name], ~is_early & ~null
        seen = pc.is_in(both[name], pc.unique(early[name])).to_numpy(zero_copy_only=False)
        unseen: npt.NDArray[np.bool_] = later & ~seen
        of_later = max(int(later.sum()), 1)
        outside = float((later & ((values < stats.low) | (values > stats.high))).sum()) / of_later
        share = float(unseen.sum()) / of_later
        reason = ""
        if not gain:
            reason = "predicts nothing in the later part of the history"
        elif outside > _OUTSIDE:
            reason = f"{outside:.0%} of its later values are outside the earlier range"
        elif share > _UNSEEN and not held_out_gain(bins, responses, is_early, unseen):
            reason = f"{share:.0%} of its later values are new, and it predicts nothing for these"
        results.append((name, gain, reason))
    return results


def _removal(kind: Kind, name: str, reason: str) -> dict[str, str]:
    return {"of": kind[0], "variable": kind[1], "feature": name, "reason": reason}


def _at_shares(curve: Curve) -> Floats:
    return curve.recall(np.array(SHARES))
