"""Share a trial with other processes by a file that each process reads once; other machines get it pickled."""

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
    """Function that runs cells of a trial from a file; small when pickled.

    Parameters
    ----------
    path
        Path of the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, cell: Cell) -> Outcome:
        """Run a cell."""
        return judge(_load(self._path), cell)


@contextmanager
def shared(trial: Comparison, runner: Runner) -> Iterator[Callable[[Cell], Outcome]]:
    """Yield the function that a runner applies to cells; the trial is in a temporary file, unless the runner is remote.

    Raises
    ------
    ValidationError
        If a strategy cannot be pickled.
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
                "the top level of a module, or omit the runner"
            ) from None
        try:
            yield Judge(str(path))
        finally:
            _load.cache_clear()  # a runner of threads shares this cache


@lru_cache(maxsize=1)
def _load(path: str) -> Comparison:
    """Read a trial; the cache holds only the last one."""
    trial: Comparison = pickle.loads(Path(path).read_bytes())
    return trial
