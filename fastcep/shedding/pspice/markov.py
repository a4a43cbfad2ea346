"""Completion of partial matches as a Markov chain, and their remaining work as a Markov reward process.

pSPICE, section III-C. The states are those of `fastcep.shedding.counts.matrix`, the last one is the match. Under
skip_till_next the matrix is row-stochastic. Under skip_till_any it has the mean number of partial matches that one
leads to at an event, and the results are expected numbers of matches and the expected work for all descendants.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep.errors import ValidationError

__all__ = ["capped", "completion_probability", "remaining_time"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Largest value of a result: expected numbers of matches can grow exponentially, as with a Kleene closure.
_LARGEST = 1e300


def completion_probability(matrix: npt.ArrayLike, remaining: npt.ArrayLike) -> Floats:
    """Return the probability that a partial match completes within the remaining events of its window.

    This is the last column of ``matrix`` to the power of ``remaining`` (pSPICE, section III-C). For a matrix of mean
    numbers of partial matches it is the expected number of matches.

    Parameters
    ----------
    matrix
        float64[m, m], not negative; the last state is final.
    remaining
        Number of events, at least 0: an integer, or an array of n integers.

    Returns
    -------
    numpy.ndarray
        float64[m], or float64[n, m] for an array. At most 1e300.

    Raises
    ------
    ValidationError
        If the matrix is not square, or a value is negative or not finite.

    Examples
    --------
    >>> steps = [[2 / 3, 1 / 3, 0], [0, 2 / 3, 1 / 3], [0, 0, 1]]
    >>> completion_probability(steps, 2).round(4)
    array([0.1111, 0.5556, 1.    ])
    """
    steps = _checked("completion_probability", "matrix", matrix)
    final = np.zeros(len(steps))
    final[-1] = 1.0
    return _after("completion_probability", steps, final, remaining)


def remaining_time(matrix: npt.ArrayLike, times: npt.ArrayLike, remaining: npt.ArrayLike) -> Floats:
    """Return the expected time that is spent on a partial match until its window ends.

    Value iteration over the remaining events (pSPICE, section III-C): ``v[0] = 0`` and
    ``v[n][i] = sum over j of matrix[i, j] * (times[i, j] + v[n - 1][j])``, with 0 for the final state.

    Parameters
    ----------
    matrix
        float64[m, m], as for `completion_probability`.
    times
        Mean time of a step: float64[m, m], not negative, in any unit.
    remaining
        Number of events, at least 0: an integer, or an array of n integers.

    Returns
    -------
    numpy.ndarray
        float64[m], or float64[n, m] for an array, in the unit of ``times``. At most 1e300.

    Raises
    ------
    ValidationError
        If the shapes are wrong, or a value is negative or not finite.
    """
    steps = _checked("remaining_time", "matrix", matrix)
    rewards = _checked("remaining_time", "times", times)
    if rewards.shape != steps.shape:
        raise ValidationError(
            f"remaining_time: times has the shape {rewards.shape}, expected that of matrix, {steps.shape}"
        )
    states = len(steps)
    # One more state, whose value is always 1, adds the mean reward of a step.
    whole = np.zeros((states + 1, states + 1))
    whole[: states - 1, :states] = steps[:-1]
    whole[: states - 1, states] = (steps * rewards).sum(axis=1)[:-1]
    whole[states, states] = 1.0
    start = np.zeros(states + 1)
    start[states] = 1.0
    return _after("remaining_time", whole, start, remaining)[..., :states]


def _after(caller: str, matrix: Floats, start: Floats, remaining: npt.ArrayLike) -> Floats:
    """Return ``matrix ** n @ start`` for each n, by squares of the matrix."""
    counts = _counts(caller, remaining)
    levels, places = np.unique(counts, return_inverse=True)
    values = np.empty((len(levels), len(start)))
    squares, value, before = [matrix], start, 0
    with np.errstate(over="ignore"):  # `capped` limits what overflows
        for number, level in enumerate(levels.tolist()):
            step, power = level - before, 0
            while step >> power:
                if power == len(squares):
                    squares.append(capped(squares[-1] @ squares[-1]))
                if step >> power & 1:
                    value = capped(squares[power] @ value)
                power += 1
            values[number], before = value, level
    return values[places.reshape(counts.shape)]


def capped(values: Floats) -> Floats:
    """Limit values to `_LARGEST`; a product may be infinite."""
    return np.minimum(values, _LARGEST)


def _counts(caller: str, remaining: npt.ArrayLike) -> Ints:
    try:
        found = np.asarray(remaining)
    except ValueError:  # lists of different lengths
        found = np.asarray(None)
    if found.ndim <= 1 and (found.dtype.kind in "iu" or found.size == 0):
        counts = found.astype(np.int64)
        if (counts >= 0).all():
            return counts
    raise ValidationError(
        f"{caller}: remaining={remaining!r}, expected a number of events, or an array of these: integers from 0 on"
    )


def _checked(caller: str, name: str, value: npt.ArrayLike) -> Floats:
    try:
        matrix = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ValidationError(f"{caller}: {name} is no array of numbers, expected float64[m, m]") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValidationError(f"{caller}: {name} has the shape {matrix.shape}, expected a square matrix")
    wrong = np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise ValidationError(
            f"{caller}: {name}[{row}, {column}] is {matrix[row, column]}, expected a finite number that is not negative"
        )
    return matrix
