"""From transition counts to what models are made of: matrices over states."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.shedding.counts.lifetimes import GONE, MATCH, START
from fastcep.shedding.counts.tables import about

__all__ = ["matrix", "mean_times", "state_names"]

Floats = npt.NDArray[np.float64]


def state_names(counts: pa.Table) -> tuple[str, ...]:
    """Names of the rows and columns of `matrix`: start, the plan's states, gone (under skip_till_next only), match."""
    told = about("state_names", counts, "transitions")
    return ("start", *told["states"], *(["gone"] if told["strategy"] == "skip_till_next" else []), "match")


def matrix(counts: pa.Table) -> Floats:
    """Give what one event does to a partial match.

    Parameters
    ----------
    counts
        Of `transition_counts`, or `added_transitions`.

    Returns
    -------
    numpy.ndarray
        float64[states, states], see `state_names`; the last is ``match``. Under skip_till_next the row-stochastic T:
        ``matrix_power(T, n)[i, -1]`` is the probability that a partial match in state i completes in a window in
        which n events are left (pSPICE, section III-C). Under skip_till_any, where it stays and forks, A of the mean
        numbers of partial matches afterwards, so that the same power is the expected number of completions. What has
        ended, and what was never met, stays as it is.
    """
    names = state_names(counts)
    observed, stayed, _ = _dense(counts, names)
    forks = about("matrix", counts, "transitions")["strategy"] != "skip_till_next"
    met = np.diagonal(stayed) if forks else observed.sum(axis=1)
    found = np.divide(observed, met[:, None], out=np.eye(len(names)), where=met[:, None] > 0)
    return np.asarray(found, np.float64)


def mean_times(counts: pa.Table) -> Floats:
    """R: the mean time of a step from one state to another, ns, as in `matrix`; 0 where there was none.

    It is the reward function of pSPICE, section III-C.
    """
    observed, _, time = _dense(counts, state_names(counts))
    return np.asarray(np.divide(time, observed, out=np.zeros(time.shape), where=observed > 0), np.float64)


def _dense(counts: pa.Table, names: tuple[str, ...]) -> tuple[Floats, Floats, Floats]:
    size = len(names)
    place = {START: 0, GONE: size - 2, MATCH: size - 1}
    rows, columns = (
        np.array([place.get(number, number + 1) for number in counts[name].to_numpy().tolist()], np.int64)
        for name in ("source", "target")
    )
    found = np.zeros((3, size, size))
    for values, name in zip(found, ("observations", "stayed", "time"), strict=True):
        values[rows, columns] = counts[name].to_numpy()
    return found[0], found[1], found[2]
