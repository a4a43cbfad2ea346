"""Fit models of eSPICE again on recent events, and test whether the position shares have changed."""

from __future__ import annotations

import warnings
from math import erfc, sqrt

import numpy as np
import numpy.typing as npt

from fastcep.errors import FastcepError
from fastcep.query import ast
from fastcep.shedding.espice.fit import fit_espice
from fastcep.shedding.espice.model import ESpiceModel
from fastcep.shedding.refit.result import FitJob, FitResult

__all__ = ["change_of_shares", "refit_models"]

Floats = npt.NDArray[np.float64]

#: Largest probability of the difference by chance, and least difference (Cramér's V) that matters.
_CHANCE, _SMALL = 0.01, 0.1
#: Number of parts of a window whose counts are compared.
_PARTS = 8
#: Least expected count of a cell; smaller ones are pooled.
_FEWEST = 5.0


def refit_models(job: FitJob) -> dict[str, FitResult]:
    """Fit a model for each query, and return it if its position shares differ from those of the model in use."""
    return {query.name: _refit(query, job) for query in job.queries}


def _refit(query: ast.Query, job: FitJob) -> FitResult:
    old = ESpiceModel.of(job.current[query.name])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            new = fit_espice(query, job.history, cost_table=job.costs, index=job.index, **dict(old.parameters))
    except FastcepError as failure:
        return FitResult(why=str(failure))
    tests = {
        name: change_of_shares(before * old.windows, after * new.windows, old.windows, new.windows)
        for name, before, after in zip(("events", "matched"), old.parts(_PARTS), new.parts(_PARTS), strict=True)
    }
    measured = {f"{name}_{key}": value for name, (p, v) in tests.items() for key, value in (("p", p), ("v", v))}
    if any(p < _CHANCE and v > _SMALL for p, v in tests.values()):
        return FitResult(new.stored(), measured)
    return FitResult(None, measured, "its position shares do not differ from those of the model in use")


def change_of_shares(before: Floats, after: Floats, windows_before: int, windows_after: int) -> tuple[float, float]:
    """Test whether two samples have the same shares of their cells: the chi-square test of homogeneity.

    Windows overlap and their events depend on each other, so each window counts as one observation. Cells that are too
    rare for the test are pooled.

    Parameters
    ----------
    before, after
        Counts of both samples: float64[types, parts].
    windows_before, windows_after
        Number of windows of both.

    Returns
    -------
    p, v
        Probability of a difference as large by chance, by the approximation of Wilson and Hilferty, and Cramér's V, the
        size of the difference from 0 to 1.
    """
    totals = float(before.sum()), float(after.sum())
    if min(*totals, windows_before, windows_after) <= 0:
        return 1.0, 0.0
    table = np.stack([
        before.ravel() * windows_before / totals[0], after.ravel() * windows_after / totals[1],
    ])  # fmt: skip
    rows, observed = table.sum(axis=1), float(table.sum())
    rare = table.sum(axis=0) * float(rows.min()) / observed < _FEWEST
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    expected = np.outer(rows, table.sum(axis=0)) / observed
    used = expected.min(axis=0) > 0
    square = float(((table - expected)[:, used] ** 2 / expected[:, used]).sum())
    freedom = int(used.sum()) - 1
    if freedom < 1:
        return 1.0, 0.0
    normal = ((square / freedom) ** (1 / 3) - 1 + 2 / (9 * freedom)) / sqrt(2 / (9 * freedom))
    return erfc(normal / sqrt(2)) / 2, sqrt(square / observed)
