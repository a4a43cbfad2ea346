"""Fit models in another process of the lowest priority; it gets its job in a temporary folder.

The folder has ``history.arrow``, ``job.json`` and the models in use; the process adds the new models and, at last,
``result.json``. The process is started anew, not forked, and ends with the engine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from fastcep.errors import FastcepError
from fastcep.overload.costs import CostTable
from fastcep.query import Document, document_text, parse_document
from fastcep.shedding.model import load_model
from fastcep.shedding.refit.result import FitJob, FitResult, fit_function

__all__ = ["FitProcess", "run_job"]

_NICE = 19  # the lowest priority


class FitProcess:
    """Fit in another process.

    Parameters
    ----------
    task
        Place of the function that fits, see `fit_function`.
    job
        Its argument.

    Raises
    ------
    OSError
        If the process cannot be started.
    """

    def __init__(self, task: str, job: FitJob) -> None:
        self._names = [query.name for query in job.queries]
        self._folder = tempfile.TemporaryDirectory(prefix="fastcep-fit-")
        folder = Path(self._folder.name)
        values = {
            "task": task, "text": document_text(Document(job.queries[0].schema, tuple(job.queries))),
            "index": job.index, "seed": job.seed, "costs": {"name": job.costs.name, **job.costs.nanoseconds},
            "current": list(job.current), "demand": job.demand,
        }  # fmt: skip
        (folder / "job.json").write_text(json.dumps(values))
        table = job.history
        with pa.OSFile(str(folder / "history.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        for number, model in enumerate(job.current.values()):
            model.save(folder / f"current-{number}")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", "-m", "fastcep.shedding.refit", str(folder)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
            env=_environment(), start_new_session=True,
        )  # fmt: skip
        with suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)
        self._end = weakref.finalize(self, _stop, self._process, self._folder)

    @property
    def process(self) -> int:
        """Id of the process."""
        return self._process.pid

    def poll(self) -> dict[str, FitResult] | None:
        """Return the result by name of the query; None while the process works."""
        if self._process.poll() is None:
            return None
        try:
            return self._result()
        finally:
            self._end()

    def close(self) -> None:
        """End the process, and remove its folder."""
        self._end()

    def _result(self) -> dict[str, FitResult]:
        folder = Path(self._folder.name)
        try:
            result = json.loads((folder / "result.json").read_text())
            if "error" in result:
                return {name: FitResult(why=result["error"]) for name in self._names}
            return {
                name: FitResult(
                    load_model(folder / of["model"]) if of["model"] else None, of["measured"], of["why"], of["random"]
                )
                for name, of in result.items()
            }  # fmt: skip
        except (OSError, ValueError, LookupError, FastcepError) as error:
            code = self._process.returncode
            why = f"the fitting process ended with code {code}: {error}"
            return {name: FitResult(why=why) for name in self._names}


def _stop(process: subprocess.Popen[bytes], folder: tempfile.TemporaryDirectory[str]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    folder.cleanup()


def _environment() -> dict[str, str]:
    """Return the environment with this process's module path, and one thread for numerical libraries."""
    paths = dict.fromkeys(os.path.abspath(path) for path in sys.path if path)
    root = str(Path(__file__).resolve().parents[3])
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join([root, *(path for path in paths if path != root)])}


def run_job(folder: Path) -> None:
    """Do the job of a folder; called in the other process."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # Linux: runs only while the machine is idle
    job = json.loads((folder / "job.json").read_text())
    result: dict[str, Any]
    try:
        queries = parse_document(job["text"], "engine").queries
        with pa.memory_map(str(folder / "history.arrow")) as source:
            history = pa.ipc.open_file(source).read_all()
            current = {name: load_model(folder / f"current-{number}") for number, name in enumerate(job["current"])}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                costs = CostTable(**job["costs"])
                given = FitJob(queries, history, current, costs, job["index"], job["seed"], job["demand"])
                fits = fit_function(job["task"])(given)
        result = {}
        for number, (name, fitted) in enumerate(fits.items()):
            place = f"model-{number}" if fitted.model is not None else ""
            if fitted.model is not None:
                fitted.model.save(folder / place)
            result[name] = {
                "model": place, "measured": dict(fitted.measured), "why": fitted.why, "random": fitted.random
            }  # fmt: skip
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    (folder / "part").write_text(json.dumps(result))
    (folder / "part").rename(folder / "result.json")
