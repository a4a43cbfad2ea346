"""Fit models of pSPICE again on recent events, and compare their matrices with those of the models in use."""

from __future__ import annotations

from math import sqrt

import numpy as np

from fastcep.errors import FastcepError
from fastcep.query import ast
from fastcep.shedding.counts import matrix
from fastcep.shedding.counts.tables import metadata_of
from fastcep.shedding.pspice.children import relative_difference
from fastcep.shedding.pspice.fit import fit_pspice
from fastcep.shedding.pspice.model import PSpiceModel
from fastcep.shedding.refit.result import FitJob, FitResult

__all__ = ["children_error", "matrix_error", "refit_models"]

#: Error of the matrix above which a new model replaces the one in use.
_CHANGED = 0.05

#: Relative difference of the children above which it does, too, and number of ages up to which they are compared.
_OTHER_CHILDREN, _AGES = 0.25, 8


def refit_models(job: FitJob) -> dict[str, FitResult]:
    """Fit a model for each query, and return it if its matrix differs from that of the model in use.

    This is the test of pSPICE, section III-D: the model is replaced when the mean squared error between the matrices
    exceeds a threshold. It is also replaced when the children by age differ, by which `Drift` sees a change; otherwise
    it would see the same change again.
    """
    return {query.name: _refit(query, job) for query in job.queries}


def _refit(query: ast.Query, job: FitJob) -> FitResult:
    try:
        model = fit_pspice(query, job.history, cost_table=job.costs, index=job.index)
    except FastcepError as failure:
        return FitResult(why=str(failure))
    current = PSpiceModel.of(job.current[query.name])
    error, children = matrix_error(current, model), children_error(current, model)
    measured = {"error": error, "children": children}
    first = current.children is None and model.children is not None  # so far no drift was known
    if error <= _CHANGED and children <= _OTHER_CHILDREN and not first:
        why = f"the error of its matrix is {error:.3f}, at most {_CHANGED}, and its children differ by {children:.3f}"
        return FitResult(None, measured, f"{why}, at most {_OTHER_CHILDREN}")
    return FitResult(model.stored(), measured)


def matrix_error(old: PSpiceModel, new: PSpiceModel) -> float:
    """Return the root of the mean squared error between the transition matrices of two models of one query.

    It is relative to the root mean square of the first one's entries. Entries on the diagonal are left out: they are
    close to 1, as most events leave a partial match as it is, and would hide the others.
    """
    before, after = matrix(old.counts), matrix(new.counts)
    off = ~np.eye(len(before), dtype=bool)
    scale = float(np.mean(before[off] ** 2))
    return sqrt(float(np.mean((after - before)[off] ** 2)) / scale) if scale > 0 else 0.0


def children_error(old: PSpiceModel, new: PSpiceModel) -> float:
    """Return the relative difference of the children by age of two models; 0 if they were not counted in both."""
    before, after = old.children, new.children
    if before is None or after is None:
        return 0.0
    events = float(metadata_of("children_error", new.counts, "transitions")["stream"]["events"])
    error = events * np.hypot(after.error, before.error)
    # What is dropped begins at some age, so the drift compares the children up to an age.
    found, expected = (events * np.cumsum(counted.by_slice(_AGES), axis=2) for counted in (after, before))
    share = expected / np.maximum(expected[:, :, -1:], 1e-9)
    return max(
        relative_difference(found[:, :, age], expected[:, :, age], error * np.sqrt(share[:, :, age]))
        for age in range(_AGES)
    )
