"""``SparkRunner``: independent pieces of work, such as the runs of `fastcep.evaluate`, as tasks of Spark."""

from __future__ import annotations

import hashlib
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from fastcep.errors import ValidationError
from fastcep.query.registry import functions
from fastcep.spark.functions import all_shipped, by_value, pickled
from fastcep.spark.survey import stage

__all__ = ["SparkRunner"]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: What this process carries out, by its digest; the next one takes its place.
_made: dict[bytes, Callable[[Any], Any]] = {}


class SparkRunner:
    """Carries out items as tasks of Spark, one for each, for ``fastcep.evaluate(…, runner=SparkRunner(spark))``.

    The function goes to each machine once, with all that it holds (Spark broadcasts what is large), and with the user's
    functions that queries may call. All results come when the last one is there.

    Parameters
    ----------
    session
        Where they run.
    """

    #: See `fastcep.engine.runner.Runner`: executors have no files of this machine.
    remote = True

    def __init__(self, session: SparkSession) -> None:
        if not hasattr(session, "createDataFrame"):
            raise ValidationError(f"found {type(session).__name__}, expected a Spark session: SparkRunner(spark)")
        self._session = session

    def map(self, function: Callable[[Item], Result], items: Iterable[Item], /) -> list[Result]:
        """Apply the function to each item; the results come in the order of the items.

        Raises
        ------
        Exception
            What the function raised for the first item for which it did; RuntimeError with its text, if it cannot be
            sent.
        ValidationError
            The function or an item cannot be pickled.
        """
        todo = list(items)
        if not todo:
            return []
        with by_value([own.python for own in functions().values()]):
            whole = _pickled((all_shipped(), function))
            table = pa.table({
                "number": pa.array(range(len(todo)), pa.int32()),
                "item": pa.array([_pickled(item) for item in todo], pa.binary()),
            })  # fmt: skip
        digest = hashlib.sha256(whole).digest()

        def fastcep_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                found = [_carried_out(digest, whole, item.as_py()) for item in batch.column("item")]
                yield pa.record_batch({"number": batch.column("number"), "result": pa.array(found, pa.binary())})

        frame = self._session.createDataFrame(table).repartitionById(len(todo), F.col("number"))
        with stage(self._session, f"fastcep: {len(todo):,} pieces of work"):
            done = frame.mapInArrow(fastcep_task, "number int, result binary").toArrow()
        results: list[Result] = []
        for packed in done.sort_by("number")["result"]:
            good, result = pickle.loads(packed.as_py())
            if not good:
                raise result
            results.append(result)
        return results


def _pickled(thing: Any) -> bytes:
    return pickled(thing, "runner: what is to be done", "let functions and shedders", ", or leave the runner out")


def _carried_out(digest: bytes, whole: bytes, item: bytes) -> bytes:
    """Whether it went well, and the result, or what was raised."""
    try:
        return _pickled((True, _function(digest, whole)(pickle.loads(item))))
    except Exception as error:
        return _raised(error)


def _raised(error: Exception) -> bytes:
    """The exception, or what it says, if it cannot be sent."""
    try:
        packed = _pickled((False, error))
        pickle.loads(packed)
    except Exception:
        packed = _pickled((False, RuntimeError("".join(traceback.format_exception(error)))))
    return packed


def _function(digest: bytes, whole: bytes) -> Callable[[Any], Any]:
    """Make the function from its bytes: once in each process, however many tasks that does."""
    if digest not in _made:
        known, function = pickle.loads(whole)
        known.register()
        _made.clear()
        _made[digest] = function
    return _made[digest]
