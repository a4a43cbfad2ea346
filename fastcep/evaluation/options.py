"""The options of an evaluation, checked."""

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
    """Check the options of `evaluate`, and put those together that are of all runs.

    Raises
    ------
    ValidationError
        If one is wrong, or some do not go together.
    """
    mode = _mode(bounds, rates, demands)
    statistic = _choice("statistic", statistic, tuple(STATISTICS))
    clock = _choice("clock", clock, tuple(_REPEATS))
    index = _choice("index", index, _INDEXES)
    if mode == "rates" and latency_bound is None:
        raise ValidationError("rates need latency_bound='…': the event latency, queueing included, that is to hold")
    if mode != "rates" and latency_bound is not None:
        raise ValidationError(f"latency_bound={latency_bound!r} is for rates; with {mode} leave it out")
    if mode == "demands" and detector is not None:
        raise ValidationError(f"detector={detector!r} with demands: these are not detected; leave it out")
    if isinstance(skip, bool) or not isinstance(skip, int | float) or not 0 <= skip < 1:
        raise ValidationError(f"skip={skip!r}: expected a share of the events, from 0 to below 1")
    return Setting(
        mode, clock, read_table(cost_table), index, statistic,
        None if latency_bound is None else parse_bound("latency_bound", latency_bound),
        float(skip), _seeds(seeds), _repeats(repeats, clock), _detectors(detector),
    )  # fmt: skip


def _mode(*given: Any) -> str:
    named = [mode for mode, value in zip(MODES, given, strict=True) if value is not None]
    if len(named) != 1:
        raise ValidationError(f"found {' and '.join(named) or 'none'} of {', '.join(MODES)}: give exactly one of them")
    return named[0]


def _choice(option: str, value: Any, choices: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        *some, last = map(repr, choices)
        raise ValidationError(f"{option}={value!r}: expected {', '.join(some)} or {last}")
    return value


def _seeds(seeds: Any) -> tuple[int, ...]:
    found = range(seeds) if isinstance(seeds, int) and not isinstance(seeds, bool) else seeds
    expected = "expected how many, at least 1, or a list of whole numbers from 0 to 2^64 - 1"
    if not isinstance(found, Sequence) or isinstance(found, str) or not found:
        raise ValidationError(f"seeds={seeds!r}: {expected}")
    for seed in found:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 64:
            raise ValidationError(f"seeds={seeds!r}: {expected}")
    if len(set(found)) < len(found):
        raise ValidationError(f"seeds={seeds!r}: one is there twice; name each once")
    return tuple(found)


def _repeats(repeats: Any, clock: str) -> int:
    if repeats is None:
        return _REPEATS[clock]
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise ValidationError(f"repeats={repeats!r}: expected a whole number, at least 1")
    if clock == "virtual" and repeats > 1:
        raise ValidationError(f"repeats={repeats}: on the virtual clock a run is the same every time; give more seeds")
    return repeats


def _detectors(detector: Any) -> tuple[Detector, ...]:
    if detector is None:
        return ()
    given = detector if isinstance(detector, list | tuple) else (detector,)
    try:
        found = tuple(detector_by_name(item) if isinstance(item, str) else item for item in given)
    except ValidationError as error:
        raise ValidationError(f"detector: {error}") from None
    if not found or any(isinstance(item, type) or not hasattr(item, "read") for item in found):
        raise ValidationError(
            f"detector={detector!r}: expected a spelling such as 'latency', a detector, or a list of some"
        )
    return found
