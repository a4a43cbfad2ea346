"""Choose the Python interpreter of Spark's workers, and name the setting if it is wrong."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from fastcep.errors import ValidationError
from fastcep.spark.session import context_of

__all__ = ["interpreter_errors", "set_interpreter"]

_REMEDY = "set PYSPARK_PYTHON to a Python with fastcep that exists on every machine, before the session starts"


def set_interpreter(session: SparkSession) -> None:
    """Let the workers of a local session run the interpreter of the driver, unless ``PYSPARK_PYTHON`` names another.

    PySpark's default is the first ``python3`` of ``PATH``, which need not have fastcep. Sessions with another master
    run their workers on other machines.

    Raises
    ------
    ValidationError
        If the interpreter that ``PYSPARK_PYTHON`` names does not exist.
    """
    context = context_of(session)
    if context is None or not str(context.master).startswith("local"):
        return
    if "PYSPARK_PYTHON" not in os.environ and sys.executable:
        context.pythonExec = sys.executable
    if shutil.which(context.pythonExec) is None:
        raise ValidationError(f"Spark's workers need {context.pythonExec!r}, which does not exist; {_REMEDY}")


@contextmanager
def interpreter_errors() -> Iterator[None]:
    """Replace the error of a job whose workers cannot start, or have no fastcep.

    Raises
    ------
    ValidationError
        If an executor has no such interpreter, or the interpreter has no fastcep.
    """
    try:
        yield
    except Exception as error:
        text = str(error)
        if "Cannot run program" in text:
            program = text.split("Cannot run program", 1)[1].split('"')[1:2]
            name = repr(program[0]) if program else "the interpreter"
            raise ValidationError(f"an executor cannot run {name} for Spark's workers; {_REMEDY}") from None
        if "No module named 'fastcep'" in text:
            raise ValidationError(f"Spark's workers run a Python without fastcep; {_REMEDY}") from None
        raise
