"""Parts of a Spark session that Spark Connect does not offer: the context, and names of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

__all__ = ["UNCHECKED_BATCHES", "checks_batches", "context_of", "stage"]

#: Setting without which Spark 4.3 computes the size of a batch after each row that it adds, two thirds of the time of
#: passing events to Python.
UNCHECKED_BATCHES = ("spark.sql.execution.arrow.maxBytesPerBatch", "2147483647b")


def context_of(session: SparkSession) -> SparkContext | None:
    """Return the SparkContext of a session; None for Spark Connect."""
    try:
        return session.sparkContext
    except (PySparkException, AttributeError):
        return None


def checks_batches(session: SparkSession) -> bool:
    """Return whether a session computes the size of a batch for Python after each row, see `UNCHECKED_BATCHES`."""
    name, unlimited = UNCHECKED_BATCHES
    try:
        value = str(session.conf.get(name))
    except PySparkException:  # this version of Spark has no such limit
        return False
    return value.rstrip("b") != unlimited.rstrip("b")


@contextmanager
def stage(session: SparkSession, name: str) -> Iterator[None]:
    """Name the jobs started inside this context in Spark's UI; without effect for Spark Connect."""
    context = context_of(session)
    if context is None:
        yield
        return
    before = {key: context.getLocalProperty(key) for key in ("spark.job.description", "callSite.short")}
    for key in before:
        context.setLocalProperty(key, name)
    try:
        yield
    finally:
        for key, value in before.items():
            context.setLocalProperty(key, value)  # type: ignore[arg-type]  # None removes it
