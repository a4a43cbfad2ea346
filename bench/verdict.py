"""Decide whether a revision is slower than its base, given the noise between two processes of the base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FLOOR = 0.05  # smaller slowdowns, as a share of the time, always pass
SAMPLES = 4000  # of the bootstrap


@dataclass(frozen=True)
class Verdict:
    """Speed of the head relative to the base, and whether it is too low.

    Attributes
    ----------
    speed
        Speed of the head, relative to the base: the median over runs.
    noise
        The 99 % quantile of the error of this median, as a share: the larger one of two bootstrap estimates, from the
        runs of the base against itself and from the runs of the head.
    allowed
        Largest slowdown that passes: `noise`, but at least the floor.
    slower
        Whether the head is slower by more than `allowed`.
    """

    speed: float
    noise: float
    allowed: float
    slower: bool


def judge(head: Sequence[float], twin: Sequence[float], floor: float = FLOOR) -> Verdict:
    """Compare the head with the base, given the ratios of interleaved runs.

    Parameters
    ----------
    head
        For each run, the time of the base divided by that of the head; below 1 the head is slower.
    twin
        For each run, the time of the base divided by that of the base in another process.
    floor
        Smallest slowdown that can fail, as a share of the time.

    Raises
    ------
    ValueError
        If there are fewer than three ratios of a kind, or one is not a positive number.
    """
    head_logs, twin_logs = _logs(head), _logs(twin)
    generator = np.random.default_rng(7)
    median = float(np.median(head_logs))
    twin_errors, head_errors = _medians(twin_logs, generator), _medians(head_logs, generator) - median
    noise = float(np.expm1(max(np.quantile(np.abs(twin_errors), 0.99), np.quantile(np.abs(head_errors), 0.99))))
    allowed = max(noise, floor)
    return Verdict(float(np.exp(median)), noise, allowed, bool(np.expm1(-median) > allowed))


def _logs(ratios: Sequence[float]) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = np.array(ratios, dtype=np.float64)
    if len(values) < 3 or not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"found the ratios {list(ratios)}, expected three positive numbers or more; make more runs")
    logs: npt.NDArray[np.float64] = np.log(values)
    return logs


def _medians(logs: npt.NDArray[np.float64], generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return the medians of bootstrap samples."""
    medians: npt.NDArray[np.float64] = np.median(generator.choice(logs, (SAMPLES, len(logs))), axis=1)
    return medians
