"""A trial for other processes: written to a file once, read by each process once; other machines get it whole."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from fastcep.engine.runner import Runner
from fastcep.errors import ValidationError
from fastcep.evaluation.judging import Cell, Comparison, judge
from fastcep.evaluation.outcome import Outcome

__all__ = ["Judge", "shared"]


class Judge:
    """Judges cells of a trial in a file; it can be pickled, and is small.

    Parameters
    ----------
    path
        Of the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, cell: Cell) -> Outcome:
        """Judge a cell."""
        return judge(_load(self._path), cell)


@contextmanager
def shared(trial: Comparison, runner: Runner) -> Iterator[Callable[[Cell], Outcome]]:
    """Give what judges cells by a runner: with the trial in a temporary file, unless that is of no use to the runner.

    Raises
    ------
    ValidationError
        If it cannot be written, as a strategy cannot be pickled.
    """
    if getattr(runner, "remote", False):
        yield partial(judge, trial)
        return
    with TemporaryDirectory(prefix="fastcep-") as folder:
        path = Path(folder) / "trial"
        try:
            path.write_bytes(pickle.dumps(trial, protocol=5))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValidationError(
                f"runner: the shedders cannot be sent to other processes ({error}); define functions and classes at "
                "the top level of a module, or leave the runner out"
            ) from None
        try:
            yield Judge(str(path))
        finally:
            _load.cache_clear()  # of threads, which share it with us


@lru_cache(maxsize=1)
def _load(path: str) -> Comparison:
    """Read the trial; the next one takes its place."""
    trial: Comparison = pickle.loads(Path(path).read_bytes())
    return trial
