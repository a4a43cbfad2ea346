"""Where ``fastcep run`` writes to, and that no file is written twice or over an input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastcep.errors import ValidationError
from fastcep.io import MatchWriter

__all__ = ["OutputOptions", "check_apart", "check_not_read"]


@dataclass(frozen=True)
class OutputOptions:
    """The options ``--output`` and ``--output-format``, see `fastcep.io.MatchWriter`; None: not given.

    Raises
    ------
    ValidationError
        If there is a format but no output.
    """

    path: str | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        if self.format is not None and self.path is None:
            raise ValidationError(
                f"--output-format {self.format} says how to write matches, but not where; add --output PATH"
            )

    @property
    def piped(self) -> bool:
        """Whether matches go to standard output, to which nothing else may go then."""
        return self.path == "-"

    def open(self) -> MatchWriter | None:
        """Make the writer, if matches are to be written."""
        return None if self.path is None else MatchWriter(self.path, self.format)


def check_apart(sources: Sequence[str], targets: Mapping[str, str | Path | None]) -> None:
    """Refuse a file that two options would write, or that is an input.

    Parameters
    ----------
    sources
        The inputs.
    targets
        Of each option the file that it writes; None or ``"-"`` for none. Devices and pipes may be shared.

    Raises
    ------
    ValidationError
        Names the options.
    """
    inputs = {Path(source).resolve() for source in sources if source != "-"}
    taken: dict[Path, str] = {}
    for option, target in targets.items():
        if target is None or str(target) == "-":
            continue
        path = Path(target).resolve()
        if path.exists() and not path.is_file():
            continue
        if path in taken:
            raise ValidationError(f"{option} and {taken[path]} are both '{target}'; give two names")
        if path in inputs:
            raise ValidationError(f"{option} cannot go to '{target}', which is the input; give another path")
        taken[path] = option


def check_not_read(files: Mapping[str, Path | None], targets: Mapping[str, str | Path | None]) -> None:
    """Refuse to write over a file that is read beside the input: of each the name for people, and the file."""
    for option, target in targets.items():
        for name, path in files.items():
            if target is not None and path is not None and Path(target).resolve() == path.resolve():
                raise ValidationError(f"{option} cannot go to '{target}', which is {name}; give another path")
