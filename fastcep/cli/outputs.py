"""Output options of ``fastcep run``, and checks that no file is written twice or over an input."""

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
                f"--output-format {self.format} needs an output; add --output PATH"
            )

    @property
    def piped(self) -> bool:
        """True if matches are written to standard output; nothing else may be printed there then."""
        return self.path == "-"

    def open(self) -> MatchWriter | None:
        """Return the writer of matches, None without an output."""
        return None if self.path is None else MatchWriter(self.path, self.format)


def check_apart(sources: Sequence[str], targets: Mapping[str, str | Path | None]) -> None:
    """Reject a file that two options write, or that is an input.

    Parameters
    ----------
    sources
        Paths of the inputs.
    targets
        File that each option writes; None or ``"-"`` for none. Devices and pipes may be shared.

    Raises
    ------
    ValidationError
        If there is such a file; the message names the options.
    """
    inputs = {Path(source).resolve() for source in sources if source != "-"}
    option_of_path: dict[Path, str] = {}
    for option, target in targets.items():
        if target is None or str(target) == "-":
            continue
        path = Path(target).resolve()
        if path.exists() and not path.is_file():
            continue
        if path in option_of_path:
            raise ValidationError(f"{option} and {option_of_path[path]} are both '{target}'; give two names")
        if path in inputs:
            raise ValidationError(f"{option} cannot write to '{target}', which is the input; give another path")
        option_of_path[path] = option


def check_not_read(files: Mapping[str, Path | None], targets: Mapping[str, str | Path | None]) -> None:
    """Reject an output that is one of `files`, which the command also reads; the keys describe them in the message."""
    for option, target in targets.items():
        for name, path in files.items():
            if target is not None and path is not None and Path(target).resolve() == path.resolve():
                raise ValidationError(f"{option} cannot write to '{target}', which is {name}; give another path")
