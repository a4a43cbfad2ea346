"""The adaptation loop: measure arrivals, forecast them, and set the number of instances (paper 5, section V-D).

    arrivals ──▶ log of the last times between them ──▶ fit, rate ──▶ forecast ──▶ degree ──▶ pool.resize
                                       service times by rate (profile, or measured) ──▶┘

A decision is due at equal intervals, or whenever enough events have arrived. It asks for the number of instances that
will be needed after a *horizon*, the time that a new instance takes to start. More instances are started at once, so
that they are there at the horizon. Fewer take effect after the horizon, and only if no decision in between asked for
more: the pool has the largest number that any decision within the last horizon asked for.

Invariant: the number asked of the pool depends only on the arrivals, the service times and the times of the decisions.
Everything stored is bounded: the last `Adaptation.samples` times, the last 500 rates, the last 500 decisions.
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
        self._pool, self._service, self.options = pool, service, options
        self._interval = None if options.interval is None else parse_duration(options.interval)
        self._horizon = parse_duration(options.horizon)
        self.decisions: deque[Decision] = deque(maxlen=KEPT)
        self._rates: deque[float] = deque(maxlen=KEPT)
        self._gaps = np.empty(0)
        self._recent: list[Floats] = []  # after `_gaps`
        self._arrived = self._recent_count = 0
        self._last = start
        self._wanted: deque[tuple[int, int]] = deque([(start, options.first)])  # time and number; the first is in force
        self._method: Method = options.forecast
        self._until_choice = 0
        self.instances = options.first  #: asked of the pool

    def arrived(self, gaps: Floats) -> None:
        """Log the times in ns between each of the next events and the event before it, float64[n]."""
        self._arrived += len(gaps)
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
        """
        decision = None
        if self._is_due(now):
            decision = self._decide(now)
        elif len(self._wanted) > 1 and self._wanted[1][0] + self._horizon <= now:
            self._resize(now)
        return decision

    def _is_due(self, now: int) -> bool:
        if self._interval is None:
            return self._arrived >= self.options.samples and now > self._last
        return now - self._last >= self._interval

    def _gather(self) -> None:
        self._gaps = np.concatenate([self._gaps, *self._recent])[-self.options.samples :]
        self._recent, self._recent_count = [], 0

    def _decide(self, now: int) -> Decision | None:
        elapsed, arrived = now - self._last, self._arrived
        self._gather()
        self._last, self._arrived = now, 0
        if arrived == 0 or len(self._gaps) < LEAST_SAMPLES or not self._gaps.any():
            return None
        rate = 1e9 * (arrived / elapsed if arrived >= self.options.samples else 1 / self._gaps.mean())
        self._rates.append(rate)
        expected = self._forecast(elapsed)
        error = self._gaps.std() / self._gaps.mean() / np.sqrt(max(arrived, len(self._gaps)))
        planned = expected.value * (1 + self.options.margin * float(error))
        service = self._service(planned)
        if service is None:
            return None
        found, problem = self._degree(planned, service)
        wanted = self.options.largest if found is None else max(found.instances, self.options.least)
        self._wanted.append((now, wanted))
        self._resize(now)
        decision = Decision(now, rate, expected, wanted, self.instances, found, problem)
        self.decisions.append(decision)
        return decision

    def _forecast(self, elapsed: int) -> Forecast:
        steps = max(1, -(-self._horizon // elapsed))
        choose = self.options.forecast == "auto" and self._until_choice == 0
        method: Method = "auto" if choose else self._method
        expected = forecast(np.array(self._rates), steps, method=method, period=self.options.period)
        if choose:
            self._method = expected.method  # type: ignore[assignment]
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

    def _resize(self, now: int) -> None:
        """Ask the pool for the largest number wanted within the last horizon; asking again repairs a lost request."""
        while len(self._wanted) > 1 and self._wanted[1][0] + self._horizon <= now:
            self._wanted.popleft()
        self.instances = max(number for _, number in self._wanted)
        self._pool.resize(self.instances)
