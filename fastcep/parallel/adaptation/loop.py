"""The adaptation loop: measure arrivals, forecast them, and set the number of instances (paper 5, section V-D).

    arrivals ──▶ log of the last times between them ──▶ fit, rate ──▶ forecast ──▶ degree ──▶ pool.resize
                                       service times by rate (profile, or measured) ──▶┘

A decision is due at equal intervals, or whenever enough events have arrived. It asks for the number of instances that
will be needed after a *horizon*, the time that a new instance takes to start. More instances are started at once, so
that they are there at the horizon. Fewer take effect after the horizon, and only if no decision in between asked for
more: the pool has the largest number that any decision within the last horizon asked for. If the stream falls silent,
the smallest number is asked for in the same way.

Invariant: the number asked of the pool depends only on the arrivals, the service times and the times of the decisions.
Everything stored is bounded: a few times `Adaptation.samples` times, the last 500 rates, the last 500 decisions, and
one entry per number of instances that the last horizon asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastcep.engine.instance_pool import InstancePool
from fastcep.errors import CapacityError, ValidationError
from fastcep.events import parse_duration
from fastcep.parallel.adaptation.forecast import Forecast, Method, forecast
from fastcep.parallel.adaptation.options import KEPT, Adaptation
from fastcep.parallel.queueing.distributions import Distribution, Samples
from fastcep.parallel.queueing.instance_count import Degree, degree
from fastcep.parallel.queueing.target import LEAST_SAMPLES

__all__ = ["AdaptationLoop", "Decision", "Service"]

Floats = npt.NDArray[np.float64]

#: Distribution of the service time at a rate in events/s; None: not known yet.
Service = Callable[[float], Distribution | None]

#: Number of decisions after which the method of the forecast is chosen again, which takes about 0.3 s.
_CHOSEN_AGAIN = 5
#: The stream is silent after this multiple of the mean time between events, and at least one horizon.
_SILENT = 100
#: Share of the highest probability that is good enough if the required one cannot be reached.
_NEARLY = 0.99


@dataclass(frozen=True)
class Decision:
    """A decision of the loop.

    Attributes
    ----------
    time
        Time of the decision in ns, on the clock of the loop.
    rate
        Events per second since the decision before, or of the last `Adaptation.samples` events, if they are more.
    forecast
        Rate that is expected after the horizon, without the margin.
    wanted
        Number of instances that will be needed then.
    instances
        Number asked of the pool: the largest that was wanted within the last horizon.
    degree
        The computation; None if the queue will grow without limit.
    problem
        Reason why the limit cannot be kept with the required probability; empty if it can.
    """

    time: int
    rate: float
    forecast: Forecast
    wanted: int
    instances: int
    degree: Degree | None
    problem: str = ""


class AdaptationLoop:
    """Sets the number of instances of a pool.

    Parameters
    ----------
    pool
        The instances.
    service
        Service time of an event by arrival rate, such as `Profile.service`.
    options
        The options.
    start
        Time in ns, on the clock that :meth:`step` uses.

    Attributes
    ----------
    decisions
        The last 500 decisions.
    """

    def __init__(self, pool: InstancePool, service: Service, options: Adaptation, start: int) -> None:
        self._pool, self._service = pool, service
        self.options: Adaptation = options
        self._interval = None if options.interval is None else parse_duration(options.interval)
        self._horizon = parse_duration(options.horizon)
        self.decisions: deque[Decision] = deque(maxlen=KEPT)
        self._rates: deque[float] = deque(maxlen=KEPT)
        self._gaps = np.empty(0)
        self._recent: list[Floats] = []  # after `_gaps`
        self._arrived = self._recent_count = 0
        self._last = self._heard = start  # time of the last decision, and of the last step with new arrivals
        self._is_new = False  # whether events have arrived since the last step
        # Time and number of decisions, the numbers falling; the first is in force, the others after the horizon.
        self._wanted: deque[tuple[int, int]] = deque([(start, options.first)])
        self._method: Method = options.forecast
        self._until_choice = 0
        self.instances: int = options.first  #: asked of the pool

    def arrived(self, gaps: Floats) -> None:
        """Log the times in ns between each of the next events and the event before it, float64[n]."""
        if not len(gaps):
            return
        self._arrived += len(gaps)
        self._is_new = True
        self._recent.append(gaps[-self.options.samples :])
        self._recent_count += len(self._recent[-1])
        if self._recent_count > 2 * self.options.samples:
            self._gather()

    def step(self, now: int) -> Decision | None:
        """Let due changes take effect, and decide if a decision is due; return it.

        Parameters
        ----------
        now
            Time in ns, not before that of the last call.

        Raises
        ------
        Exception
            Those of the pool; the decision is made then, and the next one repeats the request.
        """
        if self._is_new:
            self._heard, self._is_new = now, False
        decision = self._decide(now) if self._is_due(now) else None
        if self._is_silent(now):
            self._last = now  # the rate after a silence is that since its end
            if self._wanted[-1][1] > self.options.least:
                self._want(now, self.options.least)
        if decision is not None or self._is_change_due(now):
            self._let_take_effect(now)
            self._pool.resize(self.instances)
        return decision

    def _is_due(self, now: int) -> bool:
        if self._interval is None:
            return self._arrived >= self.options.samples and now > self._last
        return now - self._last >= self._interval

    def _is_silent(self, now: int) -> bool:
        if self._arrived or not len(self._gaps):
            return False
        return now - self._heard > max(_SILENT * float(self._gaps.mean()), self._horizon)

    def _is_change_due(self, now: int) -> bool:
        return len(self._wanted) > 1 and self._wanted[1][0] + self._horizon <= now

    def _gather(self) -> None:
        self._gaps = np.concatenate([self._gaps, *self._recent])[-self.options.samples :]
        self._recent, self._recent_count = [], 0

    def _decide(self, now: int) -> Decision | None:
        elapsed, arrived = now - self._last, self._arrived
        self._gather()
        self._last, self._arrived = now, 0
        if arrived == 0 or len(self._gaps) < LEAST_SAMPLES or not self._gaps.any():
            return None
        rate = 1e9 * (arrived / elapsed if arrived >= self.options.samples else 1 / float(self._gaps.mean()))
        self._rates.append(rate)
        expected = self._forecast(elapsed)
        error = self._gaps.std() / self._gaps.mean() / np.sqrt(max(arrived, len(self._gaps)))
        planned = expected.value * (1 + self.options.margin * float(error))
        service = self._service(planned)
        if service is None:
            return None
        found, problem = self._degree(planned, service)
        wanted = self.options.largest if found is None else max(found.instances, self.options.least)
        self._want(now, wanted)
        self._let_take_effect(now)
        self.decisions.append(Decision(now, rate, expected, wanted, self.instances, found, problem))
        return self.decisions[-1]

    def _forecast(self, elapsed: int) -> Forecast:
        steps = max(1, -(-self._horizon // elapsed))
        choose = self.options.forecast == "auto" and self._until_choice == 0
        method: Method = "auto" if choose else self._method
        expected = forecast(np.array(self._rates), steps, method=method, period=self.options.period)
        if choose:
            self._method = expected.method
            self._until_choice = _CHOSEN_AGAIN
        self._until_choice = max(0, self._until_choice - 1)
        return expected

    def _degree(self, rate: float, service: Distribution) -> tuple[Degree | None, str]:
        """Return the degree for arrivals distributed like the last ones, at another rate, and a problem.

        If no number of instances keeps the limit, it is the number from which on more instances hardly help.
        """
        options = self.options
        gaps = Samples(self._gaps * (1e9 / rate / self._gaps.mean()), "arrivals")
        try:
            return degree(gaps, service, options.buffer_limit, options.probability, most=options.largest), ""
        except CapacityError as error:
            problem, best = str(error), _NEARLY * error.probability
        try:
            return degree(gaps, service, options.buffer_limit, best, most=options.largest), problem
        except (CapacityError, ValidationError):  # the queue grows without limit
            return None, problem

    def _want(self, now: int, wanted: int) -> None:
        """Add a number; it replaces smaller ones before it, which cannot be the largest any more."""
        time = now
        while self._wanted and self._wanted[-1][1] <= wanted:
            time, _ = self._wanted.pop()  # what is before it stays in force as long as before
        self._wanted.append((time, wanted))

    def _let_take_effect(self, now: int) -> None:
        """Set the number of instances to the largest wanted within the last horizon."""
        while self._is_change_due(now):
            self._wanted.popleft()
        self.instances = self._wanted[0][1]
