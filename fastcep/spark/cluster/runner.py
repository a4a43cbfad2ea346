"""``SparkRunner``: run independent work items, such as the runs of `fastcep.evaluate`, as Spark tasks."""

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
from fastcep.query.user_functions.registry import functions
from fastcep.spark.functions import by_value, pickled, ship_all
from fastcep.spark.interpreter import interpreter_errors, set_interpreter
from fastcep.spark.session import stage

__all__ = ["SparkRunner"]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: The function that this process applies, by its digest; at most one entry.
_cached: dict[bytes, Callable[[Any], Any]] = {}


class SparkRunner:
    """Runner with one Spark task per item, for ``fastcep.evaluate(…, runner=SparkRunner(spark))``.

    The function is sent to each machine once, with all objects that it holds (Spark broadcasts large ones) and the user
    functions that queries may call. Results are returned when all tasks are done.

    Parameters
    ----------
    session
        Spark session that runs the tasks.
    """

    #: See `fastcep.engine.runner.Runner`: executors cannot read files of this machine.
    remote = True

    def __init__(self, session: SparkSession) -> None:
        if not hasattr(session, "createDataFrame"):
            raise ValidationError(f"found {type(session).__name__}, expected a Spark session: SparkRunner(spark)")
        set_interpreter(session)
        self._session = session

    def map(self, function: Callable[[Item], Result], items: Iterable[Item], /) -> list[Result]:
        """Apply the function to each item; results are in the order of the items.

        Raises
        ------
        Exception
            The exception of the first item that failed; RuntimeError with its text, if it cannot be pickled.
        ValidationError
            If the function or an item cannot be pickled, or the workers have no fastcep.
        """
        tasks = list(items)
        if not tasks:
            return []
        with by_value([registered.python for registered in functions().values()]):
            code = _pickled((ship_all(), function))
            table = pa.table({
                "number": pa.array(range(len(tasks)), pa.int32()),
                "item": pa.array([_pickled(item) for item in tasks], pa.binary()),
            })  # fmt: skip
        digest = hashlib.sha256(code).digest()

        def fastcep_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                results = [_apply(digest, code, item.as_py()) for item in batch.column("item")]
                yield pa.record_batch({"number": batch.column("number"), "result": pa.array(results, pa.binary())})

        frame = self._session.createDataFrame(table).repartitionById(len(tasks), F.col("number"))
        with stage(self._session, f"fastcep: {len(tasks):,} work items"), interpreter_errors():
            answers = frame.mapInArrow(fastcep_task, "number int, result binary").toArrow()
        results: list[Result] = []
        for packed in answers.sort_by("number")["result"]:
            succeeded, result = pickle.loads(packed.as_py())
            if not succeeded:
                raise result
            results.append(result)
        return results


def _pickled(value: Any) -> bytes:
    return pickled(value, "runner: the work", "functions and shedders must", ", or omit the runner")


def _apply(digest: bytes, code: bytes, item: bytes) -> bytes:
    """Apply the function; return (True, result) or (False, exception), pickled."""
    try:
        return _pickled((True, _function(digest, code)(pickle.loads(item))))
    except Exception as error:
        return _raised(error)


def _raised(error: Exception) -> bytes:
    """Pickle (False, exception); an exception that cannot be pickled is replaced by a RuntimeError with its text."""
    try:
        packed = _pickled((False, error))
        pickle.loads(packed)
    except Exception:
        packed = _pickled((False, RuntimeError("".join(traceback.format_exception(error)))))
    return packed


def _function(digest: bytes, code: bytes) -> Callable[[Any], Any]:
    """Unpickle the function, once per process."""
    if digest not in _cached:
        user_functions, function = pickle.loads(code)
        user_functions.register()
        _cached.clear()
        _cached[digest] = function
    return _cached[digest]
