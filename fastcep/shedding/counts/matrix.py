"""Matrices over states from transition counts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.shedding.counts.lifetimes import GONE, MATCH, START
from fastcep.shedding.counts.tables import metadata_of

__all__ = ["dense", "matrix", "mean_times", "state_names"]

Floats = npt.NDArray[np.float64]


def state_names(counts: pa.Table) -> tuple[str, ...]:
    """Return the names of the rows and columns of `matrix`.

    They are start, the states of the plan, gone (under skip_till_next only) and match.
    """
    metadata = metadata_of("state_names", counts, "transitions")
    return ("start", *metadata["states"], *(["gone"] if metadata["strategy"] == "skip_till_next" else []), "match")


def matrix(counts: pa.Table) -> Floats:
    """Return the transition matrix for one event.

    Parameters
    ----------
    counts
        Table of `transition_counts` or `added_transitions`.

    Returns
    -------
    numpy.ndarray
        float64[states, states], see `state_names`; the last state is ``match``.

        * Under skip_till_next, the row-stochastic T: ``matrix_power(T, n)[i, -1]`` is the probability that a partial
          match in state i completes if n events are left in its window (pSPICE, section III-C). If one event completes
          a match that can also go on, or extends a partial match in several ways, the row sums to more than 1, and the
          power is the expected number of matches.
        * Under skip_till_any, a partial match stays and forks. The matrix A has the mean numbers of partial matches
          afterwards, and the same power is the expected number of completions.

        States that have ended, or that never met an event, keep their partial matches.
    """
    names = state_names(counts)
    observed, _, events_met, _ = dense(counts, names)
    met = events_met.diagonal()
    means = np.divide(observed, met[:, None], out=np.eye(len(names)), where=met[:, None] > 0)
    return np.asarray(means, np.float64)


def mean_times(counts: pa.Table) -> Floats:
    """Return R, the mean time in ns of a transition between states, indexed as `matrix`; 0 where none was observed.

    It is the reward function of pSPICE, section III-C.
    """
    observed, _, _, time = dense(counts, state_names(counts))
    return np.asarray(np.divide(time, observed, out=np.zeros(time.shape), where=observed > 0), np.float64)


def dense(counts: pa.Table, names: tuple[str, ...]) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the columns ``observations``, ``stayed``, ``met`` and ``time`` as matrices, indexed as `matrix`."""
    size = len(names)
    place = {START: 0, GONE: size - 2, MATCH: size - 1}
    rows, columns = (
        np.array([place.get(number, number + 1) for number in counts[name].to_numpy().tolist()], np.int64)
        for name in ("source", "target")
    )
    matrices = np.zeros((4, size, size))
    for values, name in zip(matrices, ("observations", "stayed", "met", "time"), strict=True):
        values[rows, columns] = counts[name].to_numpy()
    return matrices[0], matrices[1], matrices[2], matrices[3]
