"""Check the options of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastcep.errors import ValidationError
from fastcep.evaluation.latencies import STATISTICS
from fastcep.evaluation.setting import Setting
from fastcep.evaluation.targets import MODES, parse_bound
from fastcep.overload.costs import cost_table as read_table
from fastcep.overload.protocols import Detector
from fastcep.shedding import detector_by_name

__all__ = ["setting_of"]

_REPEATS = {"virtual": 1, "wall": 3}
_INDEXES = ("full", "key", "off")


def setting_of(
    *,
    bounds: Any, rates: Any, demands: Any, statistic: Any, latency_bound: Any, seeds: Any, clock: Any, cost_table: Any,
    index: Any, detector: Any, skip: Any, repeats: Any,
) -> Setting:  # fmt: skip
    """Check the options of `evaluate`, and return those that all runs share.

    Raises
    ------
    ValidationError
        If an option is wrong, or options contradict each other.
    """
    mode = _mode(bounds, rates, demands)
    statistic = _choice("statistic", statistic, tuple(STATISTICS))
    clock = _choice("clock", clock, tuple(_REPEATS))
    index = _choice("index", index, _INDEXES)
    if mode == "rates" and latency_bound is None:
        raise ValidationError("rates need latency_bound='…': the bound on the event latency, queueing included")
    if mode != "rates" and latency_bound is not None:
        raise ValidationError(f"latency_bound={latency_bound!r} is for rates; with {mode} omit it")
    if mode == "demands" and detector is not None:
        raise ValidationError(f"detector={detector!r} has no effect with demands; omit it")
    if isinstance(skip, bool) or not isinstance(skip, int | float) or not 0 <= skip < 1:
        raise ValidationError(f"skip={skip!r}: expected a share of the events, from 0 to below 1")
    return Setting(
        mode, clock, read_table(cost_table), index, statistic,
        None if latency_bound is None else parse_bound("latency_bound", latency_bound),
        float(skip), _seeds(seeds), _repeats(repeats, clock), _detectors(detector),
    )  # fmt: skip


def _mode(*values: Any) -> str:
    modes = [mode for mode, value in zip(MODES, values, strict=True) if value is not None]
    if len(modes) != 1:
        raise ValidationError(f"found {' and '.join(modes) or 'none'} of {', '.join(MODES)}: give exactly one of them")
    return modes[0]


def _choice(option: str, value: Any, choices: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise ValidationError(f"{option}={value!r}: expected {', '.join(others)} or {last}")
    return value


def _seeds(seeds: Any) -> tuple[int, ...]:
    values = range(seeds) if isinstance(seeds, int) and not isinstance(seeds, bool) else seeds
    expected = "expected a number of seeds, at least 1, or a list of integers from 0 to 2^64 - 1"
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise ValidationError(f"seeds={seeds!r}: {expected}")
    for seed in values:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 64:
            raise ValidationError(f"seeds={seeds!r}: {expected}")
    if len(set(values)) < len(values):
        raise ValidationError(f"seeds={seeds!r}: found a duplicate; give each seed once")
    return tuple(values)


def _repeats(repeats: Any, clock: str) -> int:
    if repeats is None:
        return _REPEATS[clock]
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise ValidationError(f"repeats={repeats!r}: expected a positive integer")
    if clock == "virtual" and repeats > 1:
        raise ValidationError(f"repeats={repeats}: on the virtual clock all repetitions are equal; give more seeds")
    return repeats


def _detectors(detector: Any) -> tuple[Detector, ...]:
    if detector is None:
        return ()
    items = detector if isinstance(detector, list | tuple) else (detector,)
    try:
        detectors = tuple(detector_by_name(item) if isinstance(item, str) else item for item in items)
    except ValidationError as error:
        raise ValidationError(f"detector: {error}") from None
    if not detectors or any(isinstance(item, type) or not hasattr(item, "read") for item in detectors):
        raise ValidationError(
            f"detector={detector!r}: expected a name such as 'latency', a detector, or a list of them"
        )
    return detectors
