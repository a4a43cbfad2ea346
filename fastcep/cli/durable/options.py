"""The options ``--checkpoint`` and ``--checkpoint-every``, and which other options they do not go with."""

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
    """Where a run keeps what it needs to go on, and how often.

    Attributes
    ----------
    folder
        The folder; it is made if it is not there.
    every
        At least so much time lies between two commits, as text; ``"0s"`` commits after every batch.

    Raises
    ------
    ValidationError
        If the time is none.
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
        """The time between two commits."""
        return parse_duration(self.every) / 1e9

    def check(self, sources: Sequence[str], targets: Mapping[str, str | Path | None]) -> None:
        """Refuse what cannot be done again after a crash.

        Parameters
        ----------
        sources
            The inputs.
        targets
            Of each option the file that it writes, or None.

        Raises
        ------
        ValidationError
            If an input cannot be read twice, a target is a stream, or either lies in the folder.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise ValidationError(f"--checkpoint '{self.folder}' is a file; give the name of a folder")
        for source in sources:
            path = Path(source)
            if source == "-":
                raise ValidationError(
                    "--checkpoint needs an input that can be read again, which standard input is not; "
                    "write it to a file first"
                )
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise ValidationError(
                    f"--checkpoint needs an input that can be read again, which '{source}' (a pipe or a device) is "
                    "not; write it to a file first"
                )
            self._check_outside("--input", source)
            found = [source] if path.exists() else glob.glob(source)
            if any(self.folder.resolve().is_relative_to(Path(name).resolve()) for name in found):
                raise ValidationError(
                    f"--checkpoint '{self.folder}' is in the folder of --input '{source}', and would be read; give "
                    "another folder"
                )
        for option, target in targets.items():
            if str(target) == "-":
                raise ValidationError(
                    f"--checkpoint and {option} - exclude each other: what a pipe has taken cannot be taken back; "
                    f"give {option} a file"
                )
            if target is not None:
                self._check_outside(option, target)
                if Path(target).is_fifo():
                    raise ValidationError(
                        f"--checkpoint and {option} '{target}' exclude each other: what a pipe has taken cannot be "
                        f"taken back; give {option} a file"
                    )

    def _check_outside(self, option: str, path: str | Path) -> None:
        if Path(path).resolve().is_relative_to(self.folder.resolve()):
            raise ValidationError(
                f"{option} '{path}' is in the folder of --checkpoint, which holds nothing else; give another path"
            )


def checkpoint_options(folder: Path | None, every: str | None) -> CheckpointOptions | None:
    """Give the options as one, None without a folder; ValidationError if there is a time but no folder."""
    if folder is None:
        if every is not None:
            raise ValidationError(f"--checkpoint-every {every} says how often, but not where; add --checkpoint FOLDER")
        return None
    return CheckpointOptions(folder) if every is None else CheckpointOptions(folder, every)
