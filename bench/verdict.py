"""Is the head of a branch slower than its base? From pairs that took turns, and pairs of the base with itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FLOOR = 0.05  # a slowdown smaller than this share of the time is let pass, however quiet the machine
SAMPLES = 4000


@dataclass(frozen=True)
class Verdict:
    """What is known of the head's speed.

    Attributes
    ----------
    speed
        Of the head, relative to the base: the median over pairs.
    noise
        How far such a median is from the truth in one of a hundred cases, as a share: the larger of what pairs of the
        base with itself show and what the spread of the head's pairs does.
    allowed
        The slowdown that passes: `noise`, at least the floor.
    slower
        Whether the head is slower by more than is allowed.
    """

    speed: float
    noise: float
    allowed: float
    slower: bool


def judge(head: Sequence[float], twin: Sequence[float], floor: float = FLOOR) -> Verdict:
    """Judge the ratios of paired passes.

    Parameters
    ----------
    head
        Of each run, the base's time over the head's: below 1 the head is slower.
    twin
        The base's time over that of the base in another process.
    floor
        The smallest slowdown that can fail, as a share.

    Raises
    ------
    ValueError
        If there are fewer than three of each, or one is no positive number.
    """
    logs, null = _logs(head), _logs(twin)
    draw = np.random.default_rng(7)
    middle = float(np.median(logs))
    of_twin, of_head = _medians(null, draw), _medians(logs, draw) - middle
    noise = float(np.expm1(max(np.quantile(np.abs(of_twin), 0.99), np.quantile(np.abs(of_head), 0.99))))
    allowed = max(noise, floor)
    return Verdict(float(np.exp(middle)), noise, allowed, bool(np.expm1(-middle) > allowed))


def _logs(ratios: Sequence[float]) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = np.array(ratios, dtype=np.float64)
    if len(values) < 3 or not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"found the ratios {list(ratios)}, expected three positive numbers or more; make more runs")
    logs: npt.NDArray[np.float64] = np.log(values)
    return logs


def _medians(logs: npt.NDArray[np.float64], draw: np.random.Generator) -> npt.NDArray[np.float64]:
    """Medians of as many values drawn from these, again and again (the bootstrap)."""
    medians: npt.NDArray[np.float64] = np.median(draw.choice(logs, (SAMPLES, len(logs))), axis=1)
    return medians
