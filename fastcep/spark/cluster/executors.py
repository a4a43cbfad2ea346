"""``ExecutorPool``: the executors of an application on a standalone cluster, whose number changes while they work.

Spark has no request that reverses the end of an executor: one that is drained finishes its tasks and ends. Therefore a
busy executor of the surplus is first only chosen, and drained after the grace period; until then it is used again at no
cost. The master has no part in this. It only holds the total, and starts executors until the application has as many.
"""

from __future__ import annotations

import math
from threading import RLock
from time import monotonic, sleep

from pyspark.sql import SparkSession

from fastcep.engine.instance_pool import InstanceCounts
from fastcep.errors import ValidationError
from fastcep.spark.cluster.executor_backend import Executor, ExecutorBackend

__all__ = ["ExecutorPool"]

_POLL = 0.1  #: seconds between two looks of `wait`
_REPEAT = 1.0  #: seconds after which a request is repeated while executors are missing


class ExecutorPool:
    """The executors of a Spark application on a standalone cluster, as instances whose number can be changed.

    It implements `fastcep.engine.instance_pool.InstancePool`. Jobs may run while the number changes; their results are
    the same. Nothing happens in the background: :meth:`counts`, :meth:`wait` and :meth:`resize` look at the executors,
    end those of the surplus, and repeat a request that was lost.

    Parameters
    ----------
    session
        Session with a standalone master (``spark://host:port``), with ``spark.decommission.enabled=true`` and without
        ``spark.dynamicAllocation.enabled``. Set ``spark.executor.cores``, too: without it, an executor takes all free
        cores of a worker, and there is one executor per worker at most.
    most
        Largest number of executors; None for no limit.
    grace
        Seconds after which a busy executor of the surplus gets no more tasks. Until then it works as before, and
        :meth:`resize` can take it back at once. ``math.inf`` ends executors only when they have no task.

    Raises
    ------
    ValidationError
        If the session or an option is not as described.

    Notes
    -----
    The number stays below the total if the cluster has too few free cores (or memory) or if ``spark.cores.max`` allows
    no more; `counts().starting` is the difference. Until the first :meth:`resize`, an application has as many executors
    as the cluster has room for; standalone clusters ignore ``spark.executor.instances``.

    An executor takes its cached blocks and shuffle files with it. Spark computes them again, or moves them before with
    ``spark.storage.decommission.enabled``. Use one pool per session.
    """

    def __init__(self, session: SparkSession, *, most: int | None = None, grace: float = 10.0) -> None:
        if most is not None and not _is_count(most):
            raise ValidationError(f"most={most!r}: expected the largest number of executors, at least 1, or None")
        if isinstance(grace, bool) or not isinstance(grace, int | float) or not grace >= 0:
            raise ValidationError(f"grace={grace!r}: expected a number of seconds, at least 0")
        self._most = most
        self._grace = grace
        self._backend = ExecutorBackend(session)
        self._lock = RLock()
        self._total: int | None = None  # that of the last `resize`
        self._acknowledged = False  # the master knows the total
        self._requested = -math.inf  # when it was sent to the master
        self._chosen: dict[int, float] = {}  # busy executors of the surplus, and when they were chosen

    def resize(self, instances: int) -> None:
        """Set the number of executors, without waiting for it.

        For more executors, busy ones of the surplus that are in their grace period are used again first, and the rest
        is started; an executor that is drained keeps its cores until it ends. For fewer, executors without a task end
        first, then those that were started last. The same number again repeats the request.

        Parameters
        ----------
        instances
            Total number of executors, 1 to `most`.

        Raises
        ------
        ValidationError
            If the number is out of range, or the session has been stopped.
        """
        if not _is_count(instances) or (self._most is not None and instances > self._most):
            limit = "" if self._most is None else f" to {self._most}"
            raise ValidationError(
                f"instances={instances!r}: expected a number of executors from 1{limit or ', without a limit'}"
                + (f"; raise the limit with most={instances}" if limit and _is_count(instances) else "")
            )
        with self._lock:
            self._total = instances
            self._acknowledged = False
            self._poll()

    def counts(self) -> InstanceCounts:
        """Return the present numbers of executors, and end those of the surplus that can end now.

        An executor of the surplus is `leaving` until the driver is no longer connected with it. Before the first
        :meth:`resize`, `starting` is 0.

        Raises
        ------
        ValidationError
            If the session has been stopped.
        """
        with self._lock:
            return self._poll()

    def wait(self, timeout: float) -> bool:
        """Wait until the number of executors is reached and none is leaving.

        The driver does not know of an executor that the master has started and that is not connected yet. If it is of
        the surplus, because the number was reduced in the meantime, a later :meth:`counts` ends it.

        Parameters
        ----------
        timeout
            Longest wait in seconds; ``math.inf`` for no limit.

        Returns
        -------
        bool
            True if the number was reached.

        Raises
        ------
        ValidationError
            If `resize` has not been called, the time is negative, or the session has been stopped.
        """
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
            raise ValidationError(f"timeout={timeout!r}: expected a number of seconds, at least 0")
        if self._total is None:
            raise ValidationError("wait() before resize(): no number of executors to wait for; call resize() first")
        end = monotonic() + timeout
        while self.counts() != InstanceCounts(ready=self._total):
            remaining = end - monotonic()
            if remaining <= 0:
                return False
            sleep(min(_POLL, remaining))
        return True

    def _poll(self) -> InstanceCounts:
        """Bring the executors closer to the total, and return their numbers."""
        executors = self._backend.executors()
        active = [executor for executor in executors if executor.active]
        total = len(active) if self._total is None else self._total
        starting = max(0, total - len(active))
        now = monotonic()
        if self._total is not None and not (self._acknowledged and (not starting or now - self._requested < _REPEAT)):
            self._acknowledged = self._backend.request(total)
            self._requested = now
        if self._acknowledged:  # otherwise the master could replace those that end
            self._end_surplus(active, len(active) - total, now)
        ready = min(total, len(active))
        return InstanceCounts(ready=ready, starting=starting, leaving=len(executors) - ready)

    def _end_surplus(self, active: list[Executor], surplus: int, now: float) -> None:
        """Choose the executors of the surplus, and drain those without a task or whose grace period is over."""
        active = sorted(active, key=lambda one: (one.busy, one.number not in self._chosen, -one.number))
        chosen = active[: max(0, surplus)]
        since = {one.number: self._chosen.get(one.number, now) for one in chosen}
        self._chosen = {}
        for executor in chosen:
            if not executor.busy or now - since[executor.number] >= self._grace:
                self._backend.drain(executor.number)
            else:
                self._chosen[executor.number] = since[executor.number]


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1
