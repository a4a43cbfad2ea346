"""The options ``--checkpoint`` and ``--checkpoint-every``, and checks against other options."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastcep.errors import ValidationError
from fastcep.events import parse_duration

__all__ = ["CheckpointOptions", "checkpoint_options"]


@dataclass(frozen=True)
class CheckpointOptions:
    """Folder and frequency of the commits of a run.

    Attributes
    ----------
    folder
        Path of the folder; it is created if it does not exist.
    every
        Minimum time between two commits, as a duration text; ``"0s"`` commits after every batch.

    Raises
    ------
    ValidationError
        If the duration is malformed.
    """

    folder: Path
    every: str = "10s"

    def __post_init__(self) -> None:
        try:
            parse_duration(self.every)
        except ValidationError as error:
            raise ValidationError(f"--checkpoint-every: {error}") from None

    @property
    def seconds(self) -> float:
        """The minimum time between two commits, in seconds."""
        return parse_duration(self.every) / 1e9

    def check(self, sources: Sequence[str], targets: Mapping[str, str | Path | None]) -> None:
        """Reject inputs and outputs that a restarted run cannot read again or replace.

        Parameters
        ----------
        sources
            Paths of the inputs.
        targets
            File that each output option writes, or None.

        Raises
        ------
        ValidationError
            If an input cannot be read twice, a target is a stream, or either is in the folder.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise ValidationError(f"--checkpoint '{self.folder}' is a file; give the name of a folder")
        for source in sources:
            path = Path(source)
            if source == "-":
                raise ValidationError("--checkpoint cannot read standard input twice; write it to a file first")
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise ValidationError(
                    f"--checkpoint cannot read '{source}' twice, as it is a pipe or a device; write it to a file first"
                )
            self._check_outside("--input", source)
            paths = [source] if path.exists() else glob.glob(source)
            if any(self.folder.resolve().is_relative_to(Path(name).resolve()) for name in paths):
                raise ValidationError(
                    f"--checkpoint '{self.folder}' is inside --input '{source}' and would be read as input; give "
                    "another folder"
                )
        for option, target in targets.items():
            if str(target) == "-":
                raise ValidationError(
                    f"--checkpoint and {option} - exclude each other: output written to a pipe cannot be replaced; "
                    f"give {option} a file"
                )
            if target is not None:
                self._check_outside(option, target)
                if Path(target).is_fifo():
                    raise ValidationError(
                        f"--checkpoint and {option} '{target}' exclude each other: output written to a pipe cannot be "
                        f"replaced; give {option} a file"
                    )

    def _check_outside(self, option: str, path: str | Path) -> None:
        if Path(path).resolve().is_relative_to(self.folder.resolve()):
            raise ValidationError(
                f"{option} '{path}' is in the --checkpoint folder, which may hold no other files; give another path"
            )


def checkpoint_options(folder: Path | None, every: str | None) -> CheckpointOptions | None:
    """Combine the two options; None without a folder, ValidationError for a time without a folder."""
    if folder is None:
        if every is not None:
            raise ValidationError(f"--checkpoint-every {every} needs a folder; add --checkpoint FOLDER")
        return None
    return CheckpointOptions(folder) if every is None else CheckpointOptions(folder, every)
