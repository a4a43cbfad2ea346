"""Fit models of pSPICE again on recent events, and compare their matrices with those of the models in use."""

from __future__ import annotations

from math import sqrt

import numpy as np

from fastcep.errors import FastcepError
from fastcep.query import ast
from fastcep.shedding.counts import matrix
from fastcep.shedding.pspice.fit import fit_pspice
from fastcep.shedding.pspice.model import PSpiceModel
from fastcep.shedding.refit.result import FitJob, FitResult

__all__ = ["matrix_error", "refit_models"]

#: Error of the matrix above which a new model replaces the one in use.
_CHANGED = 0.05


def refit_models(job: FitJob) -> dict[str, FitResult]:
    """Fit a model for each query, and return it if its matrix differs from that of the model in use.

    This is the test of pSPICE, section III-D: the model is replaced when the mean squared error between the matrices
    exceeds a threshold.
    """
    return {query.name: _refit(query, job) for query in job.queries}


def _refit(query: ast.Query, job: FitJob) -> FitResult:
    try:
        model = fit_pspice(query, job.history, cost_table=job.costs, index=job.index)
    except FastcepError as failure:
        return FitResult(why=str(failure))
    error = matrix_error(PSpiceModel.of(job.current[query.name]), model)
    if error <= _CHANGED:
        return FitResult(None, {"error": error}, f"the error of its matrix is {error:.3f}, at most {_CHANGED}")
    return FitResult(model.stored(), {"error": error})


def matrix_error(old: PSpiceModel, new: PSpiceModel) -> float:
    """Return the root of the mean squared error between the transition matrices of two models of one query.

    It is relative to the root mean square of the first one's entries. Entries on the diagonal are left out: they are
    close to 1, as most events leave a partial match as it is, and would hide the others.
    """
    before, after = matrix(old.counts), matrix(new.counts)
    off = ~np.eye(len(before), dtype=bool)
    scale = float(np.mean(before[off] ** 2))
    return sqrt(float(np.mean((after - before)[off] ** 2)) / scale) if scale > 0 else 0.0
