"""When it is too much: before it happens, by how long an event will take with so many partial matches."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from fastcep.errors import ValidationError
from fastcep.events import format_duration, parse_duration
from fastcep.overload.protocols import Detector, DetectorReading, Load
from fastcep.shedding.detectors import rough
from fastcep.shedding.options import as_count
from fastcep.shedding.regression import FAMILIES, Curve, fit_curve
from fastcep.stored import AMOUNT, COUNT, NUMBER, listed, one_of, or_null, record, sequence

__all__ = ["PredictedLatency"]

_LEAST = 10  # samples to fit to


class PredictedLatency(Detector):
    """The latency of the next event, predicted from how long it has waited and how many partial matches live.

    This is the detector of *pspice* (its Algorithm 1). ``f`` says how long an event is processed with ``n`` partial
    matches, ``g`` how long it takes to drop some of them; both are fitted to samples of the run
    (`fastcep.shedding.regression`). It is too much if ``waited + f(n) + g(n) + buffer > bound``, and then as many
    partial matches are too many as are above the inverse of ``f`` at the time that is left for processing.

    The paper judges at each event. Here as many events pass until the next decision as have since the last one, so that
    ``waited`` is what the last of them will have waited: longer, if they come faster than they are processed.

    Parameters
    ----------
    buffer
        Kept free for what the prediction does not see.
    samples
        How many of the last measurements are fitted to.
    refit
        After how many new ones.

    Raises
    ------
    ValidationError
        If an option is wrong.
    """

    name = "prediction"

    def __init__(self, buffer: str | timedelta = "0ns", samples: int = 1000, refit: int = 100) -> None:
        try:
            self.buffer = parse_duration(buffer)
        except ValidationError as error:
            raise ValidationError(f"detector 'prediction': buffer: {error}") from None
        self.samples = as_count("detector 'prediction'", "samples", samples, _LEAST)
        self.refit = as_count("detector 'prediction'", "refit", refit)
        self._processing = _Function(self.samples, self.refit)
        self._dropping = _Function(self.samples, self.refit)

    def note_decision(self, partial_matches: int, cost: float) -> None:
        """Learn what a decision to shed cost, in ns, with so many partial matches."""
        self._dropping.note(partial_matches, cost)

    def read(self, load: Load) -> DetectorReading:
        """Judge what is measured, and learn from it."""
        n = load.partial_matches
        if load.events > 0:
            self._processing.note(n, load.recent)
        processing, dropping = self._processing.at(n, load.recent), self._dropping.at(n)
        later = load.events * max(0.0, processing - 1 / load.arrivals) if load.arrivals > 0 else 0.0
        fixed = load.waited + later + dropping + self.buffer
        excess = (fixed + processing) / load.bound - 1
        why = (
            f"predicted latency {rough(fixed + processing)} ({rough(load.waited + later)} in the queue, "
            f"{rough(processing)} to process, {rough(dropping)} to shed, {rough(self.buffer)} buffer), bound "
            f"{rough(load.bound)}"
        )
        return DetectorReading(excess, amount=self._too_many(n, load.bound - fixed) if excess > 0 else None, why=why)

    def _too_many(self, n: int, left: float) -> float | None:
        """The share of ``n`` partial matches that do not fit into the time left; None if that is not known."""
        curve = self._processing.curve
        if curve is None or curve.flat or n == 0:
            return None
        return min(max(1 - curve.inverse(left) / n, 0.0), 1.0)

    def spec(self) -> dict[str, Any]:
        """Its name and options, as JSON has them."""
        buffer = format_duration(self.buffer)
        return {"name": self.name, "buffer": buffer, "samples": self.samples, "refit": self.refit}

    def state(self) -> dict[str, Any]:
        """What it has learned, as JSON has it."""
        return {"processing": self._processing.state(), "dropping": self._dropping.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        record({"processing": _FUNCTION, "dropping": _FUNCTION})(dict(state), "control.learned")
        self._processing.restore(state["processing"])
        self._dropping.restore(state["dropping"])


_FUNCTION = record({
    "samples": listed(sequence(COUNT, AMOUNT)), "new": COUNT,
    "curve": or_null(record({"family": one_of(*FAMILIES), "a": NUMBER, "b": AMOUNT, "c": AMOUNT})),
})  # fmt: skip


class _Function:
    """A duration by the number of partial matches, as its last samples have it."""

    def __init__(self, samples: int, refit: int) -> None:
        self.curve: Curve | None = None
        self._samples: deque[tuple[int, float]] = deque(maxlen=samples)
        self._refit = refit
        self._new = 0

    def note(self, n: int, ns: float) -> None:
        """Take a sample, and fit if it is time."""
        self._samples.append((n, ns))
        self._new += 1
        if len(self._samples) >= _LEAST and (self.curve is None or self._new >= self._refit):
            self.curve = fit_curve([n for n, _ in self._samples], [ns for _, ns in self._samples])
            self._new = 0

    def at(self, n: int, otherwise: float | None = None) -> float:
        """What is to be expected with ``n``; before the first fit that is ``otherwise``, or the mean so far."""
        if self.curve is not None:
            return max(self.curve(n), 0.0)
        if otherwise is not None:
            return otherwise
        return sum(ns for _, ns in self._samples) / len(self._samples) if self._samples else 0.0

    def state(self) -> dict[str, Any]:
        """Samples and curve, as JSON has them."""
        curve = None if self.curve is None else self.curve.spec()
        return {"samples": [list(sample) for sample in self._samples], "new": self._new, "curve": curve}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        self._samples.clear()
        self._samples.extend((n, ns) for n, ns in state["samples"])
        self._new = state["new"]
        self.curve = None if state["curve"] is None else Curve(**state["curve"])
