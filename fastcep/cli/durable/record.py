"""The commit record, ``checkpoint.json``: what belongs together at one moment of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from xxhash import xxh64_hexdigest

from fastcep.errors import SnapshotError

__all__ = ["FORMAT", "Part", "Record"]

FORMAT = 1


@dataclass(frozen=True)
class Part:
    """A file of the folder: its name, size in bytes and xxhash64 checksum."""

    name: str
    bytes: int
    checksum: str


@dataclass(frozen=True)
class Record:
    """All that a run needs to go on.

    Attributes
    ----------
    number
        Of the commit, from 1.
    settings
        What must be the same when the run goes on, see `fastcep.cli.durable.settings`.
    rows, digest
        How many rows of the input were taken, and their `Digest`.
    state
        The engine's snapshot; None when the run is finished.
    matches, late
        Arrow files of the matches and the late events, in order.
    bad_rows
        The file of bad rows of a finished run, if it keeps them.
    finished
        Whether the input was taken to its end and the engine was flushed.
    written
        The outputs that hold all of it, by option.
    summary
        The counts so far.
    """

    number: int
    settings: Mapping[str, Any]
    rows: int
    digest: str
    state: Part | None
    matches: tuple[Part, ...]
    late: tuple[Part, ...]
    bad_rows: Part | None
    finished: bool
    written: Mapping[str, str]
    summary: Mapping[str, Any]

    @property
    def parts(self) -> tuple[Part, ...]:
        """All files that belong to it."""
        others = (part for part in (self.state, self.bad_rows) if part is not None)
        return (*others, *self.matches, *self.late)

    def to_bytes(self) -> bytes:
        """Give the record as JSON, with its format and a checksum."""
        data = {"format": FORMAT, **asdict(self)}
        return json.dumps(data | {"checksum": _checksum(data)}, indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Record:
        """Read what `to_bytes` gave.

        Parameters
        ----------
        data
            The JSON.
        name
            The file's name, for messages.

        Raises
        ------
        SnapshotError
            If it is damaged, or of a format that this version does not know.
        """
        try:
            values = json.loads(data)
            found = values.pop("format")
            if isinstance(found, int) and found > FORMAT:
                raise SnapshotError(
                    f"'{name}' has format {found}, expected at most {FORMAT}; a newer fastcep wrote it, use that one"
                )
            if values.pop("checksum") != _checksum({"format": found, **values}):
                raise ValueError("its checksum is another")
            for key in ("matches", "late"):
                values[key] = tuple(Part(**part) for part in values[key])
            for key in ("state", "bad_rows"):
                values[key] = None if values[key] is None else Part(**values[key])
            return cls(**values)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SnapshotError(
                f"'{name}' is damaged ({error}); put back a copy of the folder, or start anew with another "
                "--checkpoint folder"
            ) from None


def _checksum(data: Mapping[str, Any]) -> str:
    return xxh64_hexdigest(json.dumps(data, sort_keys=True).encode())
