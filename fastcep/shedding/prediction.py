"""Detector that predicts the latency of the next event from the number of partial matches."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from fastcep.errors import ValidationError
from fastcep.events import format_duration, parse_duration
from fastcep.overload.load import DetectorReading, Load
from fastcep.overload.protocols import Detector
from fastcep.shedding.detectors import rounded
from fastcep.shedding.options import as_count
from fastcep.shedding.regression import FAMILIES, Curve, fit_curve
from fastcep.stored import AMOUNT, COUNT, NUMBER, listed, one_of, or_null, record, sequence

__all__ = ["PredictedLatency"]

_LEAST = 10  # samples to fit to
_FORGET = 0.8  # factor of an error at each decision


class PredictedLatency(Detector):
    """Predicts the latency of the next event from its waiting time and the number of live partial matches.

    This is the detector of *pspice* (its Algorithm 1). ``f(n)`` is the time to process an event with ``n`` partial
    matches, ``g(n)`` the time to drop some of them; both are fitted to samples of the run
    (`fastcep.shedding.regression`). The engine is overloaded if ``waited + f(n) + g(n) + buffer > bound``. The number
    of partial matches to keep is then the inverse of ``f`` at the time that is left for processing.

    The paper decides at each event. Here about as many events pass until the next decision as have passed since the
    last one, e of them. If an event then takes the time t, and one arrives in each interval a, the last of them has
    waited for e (t - a) longer, and is finished in time if ``waited + e * (t - a) + t <= bound``. The number of partial
    matches to keep is the inverse of ``f`` at the largest such t.

    In the meantime further partial matches are created, so an event waits longer than predicted. The largest such
    error of the last decisions is added to the buffer.

    Parameters
    ----------
    buffer
        Time to reserve in any case.
    samples
        Number of recent measurements to fit to.
    refit
        Number of new measurements after which to fit again.

    Raises
    ------
    ValidationError
        If an option is wrong.
    """

    name = "prediction"

    def __init__(self, buffer: str | timedelta = "0ns", samples: int = 1000, refit: int = 100) -> None:
        try:
            self.buffer: int = parse_duration(buffer)
        except ValidationError as error:
            raise ValidationError(f"detector 'prediction': buffer: {error}") from None
        self.samples: int = as_count("detector 'prediction'", "samples", samples, _LEAST)
        self.refit: int = as_count("detector 'prediction'", "refit", refit)
        self._processing = _FittedDuration(self.samples, self.refit)
        self._dropping = _FittedDuration(self.samples, self.refit)
        self._error = 0.0  # by how much events have waited longer than predicted, in ns
        self._predicted: tuple[float, float] | None = None  # waiting time, and its predicted growth with each event

    def note_decision(self, partial_matches: int, cost: float) -> None:
        """Learn the cost of a decision to shed, in ns, at a number of partial matches."""
        self._dropping.add_sample(partial_matches, cost)

    def read(self, load: Load) -> DetectorReading:
        """Learn from the load, and compare the predicted latency with the bound."""
        n = load.partial_matches
        if load.events > 0:
            self._processing.add_sample(n, load.recent)
        processing, dropping = self._processing.predict(n, load.recent), self._dropping.predict(n)
        further = load.events * max(0.0, processing - 1 / load.arrivals) if load.arrivals > 0 else 0.0
        self._learn_error(load)
        buffer = self.buffer + self._error
        fixed = load.waited + further + dropping + buffer
        excess = (fixed + processing) / load.bound - 1
        why = (
            f"predicted latency {rounded(fixed + processing)} ({rounded(load.waited + further)} in the queue, "
            f"{rounded(processing)} to process, {rounded(dropping)} to shed, {rounded(buffer)} buffer), bound "
            f"{rounded(load.bound)}"
        )
        amount = None
        if excess > 0:
            amount = self._excess_share(n, _longest_time(load.bound - load.waited - dropping - buffer, load))
        self._predicted = None
        if load.arrivals > 0:
            kept = self._processing.predict(round(n * (1 - (amount or 0.0))), load.recent)
            self._predicted = load.waited, kept - 1 / load.arrivals
        return DetectorReading(excess, amount=amount, why=why)

    def _learn_error(self, load: Load) -> None:
        """Compare the time that the last event has waited with the prediction of the last decision."""
        if self._predicted is None:
            return
        waited, growth = self._predicted
        self._error = max(load.waited - max(waited + load.events * growth, 0.0), _FORGET * self._error)

    def _excess_share(self, n: int, left: float) -> float | None:
        """Return the share of ``n`` partial matches that do not fit into the time left; None if unknown."""
        curve = self._processing.curve
        if curve is None or curve.flat or n == 0:
            return None
        return min(max(1 - curve.inverse(left) / n, 0.0), 1.0)

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        buffer = format_duration(self.buffer)
        return {"name": self.name, "buffer": buffer, "samples": self.samples, "refit": self.refit}

    def state(self) -> dict[str, Any]:
        """Return the learned state as JSON values."""
        return {
            "processing": self._processing.state(), "dropping": self._dropping.state(), "error": self._error,
            "predicted": None if self._predicted is None else list(self._predicted),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        _STATE(dict(state), "control.learned")
        self._processing.restore(state["processing"])
        self._dropping.restore(state["dropping"])
        self._error, predicted = state["error"], state["predicted"]
        self._predicted = None if predicted is None else (predicted[0], predicted[1])


_DURATION = record({
    "samples": listed(sequence(COUNT, AMOUNT)), "new": COUNT,
    "curve": or_null(record({"family": one_of(*FAMILIES), "a": NUMBER, "b": AMOUNT, "c": AMOUNT})),
})  # fmt: skip
_STATE = record({
    "processing": _DURATION, "dropping": _DURATION, "error": AMOUNT, "predicted": or_null(sequence(AMOUNT, NUMBER)),
})  # fmt: skip


def _longest_time(left: float, load: Load) -> float:
    """Return how long each event may take so that the last one before the next decision is finished in time.

    ``left`` is the time that is left for the next event; if there is none, nothing may stay.
    """
    interval = 1 / load.arrivals if load.arrivals > 0 else left
    return (left + load.events * interval) / (load.events + 1) if left > 0 else left


class _FittedDuration:
    """Duration as a function of the number of partial matches, fitted to recent samples."""

    def __init__(self, samples: int, refit: int) -> None:
        self.curve: Curve | None = None
        self._samples: deque[tuple[int, float]] = deque(maxlen=samples)
        self._refit = refit
        self._new = 0

    def add_sample(self, n: int, ns: float) -> None:
        """Add a sample, and fit again if enough are new."""
        self._samples.append((n, ns))
        self._new += 1
        if len(self._samples) >= _LEAST and (self.curve is None or self._new >= self._refit):
            self.curve = fit_curve([n for n, _ in self._samples], [ns for _, ns in self._samples])
            self._new = 0

    def predict(self, n: int, otherwise: float | None = None) -> float:
        """Return the expected duration for ``n``; before the first fit ``otherwise``, or the mean so far."""
        if self.curve is not None:
            return max(self.curve(n), 0.0)
        if otherwise is not None:
            return otherwise
        return sum(ns for _, ns in self._samples) / len(self._samples) if self._samples else 0.0

    def state(self) -> dict[str, Any]:
        """Return samples and curve as JSON values."""
        curve = None if self.curve is None else self.curve.spec()
        return {"samples": [list(sample) for sample in self._samples], "new": self._new, "curve": curve}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        self._samples.clear()
        self._samples.extend((n, ns) for n, ns in state["samples"])
        self._new = state["new"]
        self.curve = None if state["curve"] is None else Curve(**state["curve"])
