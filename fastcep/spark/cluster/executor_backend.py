"""Requests to Spark's scheduler about single executors, which PySpark does not offer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fastcep.errors import ValidationError
from fastcep.spark.session import context_of

__all__ = ["Executor", "ExecutorBackend"]


@dataclass(frozen=True)
class Executor:
    """State of an executor that the driver is connected with.

    Attributes
    ----------
    number
        Spark's number of the executor; it grows with every executor that is started.
    active
        The executor gets tasks. False: it finishes its tasks and ends, or the driver has lost it.
    busy
        The executor runs a task.
    """

    number: int
    active: bool
    busy: bool


class ExecutorBackend:
    """The executors of a session on a standalone cluster, as its driver sees them.

    Parameters
    ----------
    session
        Spark session of a standalone cluster, without dynamic allocation and with ``spark.decommission.enabled``.

    Raises
    ------
    ValidationError
        If the session is not such a session. Every method also raises it, after the session has been stopped.
    """

    def __init__(self, session: SparkSession) -> None:
        if not hasattr(session, "createDataFrame"):
            raise ValidationError(f"found {type(session).__name__}, expected a Spark session: ExecutorPool(spark)")
        context = context_of(session)
        if context is None:
            raise ValidationError(
                "found a Spark Connect session, which cannot change its executors; expected a session of the master "
                "itself: SparkSession.builder.master('spark://host:port')"
            )
        self._context = context
        self._check_running()
        if not (context.master or "").startswith("spark://"):
            raise ValidationError(
                f"found a session with master {context.master!r}, expected one on a standalone cluster, "
                "'spark://host:port': only there an ExecutorPool can change the number of executors"
            )
        settings = {key.lower(): value.strip().lower() for key, value in context.getConf().getAll()}
        if settings.get("spark.dynamicallocation.enabled") == "true":
            raise ValidationError(
                "found spark.dynamicAllocation.enabled=true: Spark would change the number of executors, too; expected "
                "false. Set it when you create the session"
            )
        if settings.get("spark.decommission.enabled") != "true":
            raise ValidationError(
                f"found spark.decommission.enabled={settings.get('spark.decommission.enabled', 'false')}, expected "
                "true, so that an executor can finish its tasks before it ends. Set it when you create the session: "
                "SparkSession.builder.config('spark.decommission.enabled', 'true')"
            )
        assert context._jvm is not None
        self._jvm = context._jvm
        self._scheduler = context._jsc.sc()  # Spark's own SparkContext, in the driver's JVM
        self._backend = self._scheduler.schedulerBackend()
        self._tasks = self._scheduler.taskScheduler()

    def executors(self) -> list[Executor]:
        """Return the executors that the driver is connected with, by number."""
        with self._requests():
            names = list(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(self._backend.getExecutorIds()))
            return sorted(
                (
                    Executor(int(name), self._backend.isExecutorActive(name), self._tasks.isExecutorBusy(name))
                    for name in names
                ),
                key=lambda executor: executor.number,
            )

    def request(self, total: int) -> bool:
        """Set the total at the master, and return True if the master has acknowledged it.

        The master starts executors until the application has the total, and replaces those that end. It ends none.
        """
        try:
            with self._requests():
                hosts = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({})  # no preferred hosts
                return bool(self._scheduler.requestTotalExecutors(total, 0, hosts))
        except (Py4JError, PySparkException):  # the master did not answer in time
            return False

    def drain(self, number: int) -> None:
        """Give an executor no more tasks, and let it end after the tasks that it has. This cannot be cancelled."""
        with self._requests():
            reason = self._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
                "surplus of a fastcep ExecutorPool", self._jvm.scala.Option.empty()
            )
            self._backend.decommissionExecutor(str(number), reason, False, False)

    @contextmanager
    def _requests(self) -> Iterator[None]:
        """Raise a ValidationError if the session has been stopped, before or inside the block."""
        self._check_running()
        try:
            yield
        except (Py4JError, PySparkException, OSError):
            self._check_running()
            raise

    def _check_running(self) -> None:
        java_context = self._context._jsc
        try:
            stopped = java_context is None or java_context.sc().isStopped()
        except (Py4JError, OSError):  # the driver's JVM has ended
            stopped = True
        if stopped:
            raise ValidationError(
                "found a Spark session that is stopped, expected a running one: create a session, and an ExecutorPool "
                "for it"
            ) from None
