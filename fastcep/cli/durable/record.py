"""The commit record, ``checkpoint.json``: what belongs together at one moment of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from xxhash import xxh64_hexdigest

from fastcep.cli.summary import Summary
from fastcep.errors import SnapshotError
from fastcep.stored import (
    AMOUNT,
    COUNT,
    FLAG,
    MOST,
    TEXT,
    Check,
    Misfit,
    anything,
    by_name,
    listed,
    or_null,
    record,
    sequence,
    shown,
    whole,
)  # fmt: skip

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
            if not isinstance(values, dict):
                raise Misfit("the record", shown(values), "a JSON object")
            found = values.pop("format", None)
            if type(found) is int and found > FORMAT:
                raise SnapshotError(
                    f"'{name}' has format {found}, expected at most {FORMAT}; a newer fastcep wrote it, use that one"
                )
            if values.pop("checksum", None) != _checksum({"format": found, **values}):
                raise ValueError("its checksum is another")
            _check({"format": found, **values})
            for key in ("matches", "late"):
                values[key] = tuple(Part(**part) for part in values[key])
            for key in ("state", "bad_rows"):
                values[key] = None if values[key] is None else Part(**values[key])
            return cls(**values)
        except (ValueError, RecursionError) as error:
            raise SnapshotError(
                f"'{name}' is damaged ({error}); put back a copy of the folder, or start anew with another "
                "--checkpoint folder"
            ) from None


def _check(values: dict[str, Any]) -> None:
    """Refuse what no run has recorded, above all files that are not its own: `Misfit`."""
    _RECORD(values, "")
    if values["finished"] != (values["state"] is None):
        found = "a state" if values["finished"] else "null"
        raise Misfit("state", found, "null for a run that is finished, else a file")
    parts = [*values["matches"], *values["late"], *filter(None, (values["state"], values["bad_rows"]))]
    names = [part["name"] for part in parts]
    if len(set(names)) < len(names):
        raise Misfit("matches, late", "a file that is named twice", "each once")
    for name in names:
        number = re.sub(r"\D", "", name)
        if number and not 0 < int(number) <= values["number"]:
            raise Misfit("number", f"{values['number']} beside the file {name!r}", "that of the last commit")


def _setting(value: Any, name: str) -> None:
    """A value of an option: a text, a list of texts, a number, true, false or null."""
    check = listed(TEXT) if type(value) is list else anything if type(value) in _SCALARS else TEXT
    check(value, name)


def _settings(value: Any, name: str) -> None:
    """What must be the same when the run goes on: values of options, and name and text of each query."""
    by_name(anything)(value, name)
    listed(sequence(TEXT, TEXT))(value.get("queries"), f"{name}.queries")
    by_name(_setting)({key: own for key, own in value.items() if key != "queries"}, name)


def _file(pattern: str, shape: str) -> Check:
    """A file of the folder, by a pattern for its whole name."""

    def name(value: Any, where: str) -> None:
        if type(value) is not str or not re.fullmatch(pattern, value, re.ASCII):
            raise Misfit(where, shown(value), f"the name of a file of the folder, {shape}")

    return record({"name": name, "bytes": COUNT, "checksum": TEXT})


_SCALARS = (str, int, float, bool, type(None))
_BY_TYPE = {"int": COUNT, "float": AMOUNT, "float | None": or_null(AMOUNT), "dict[str, int]": by_name(COUNT)}
_SUMMARY = {item.name: _BY_TYPE[str(item.type)] for item in fields(Summary)}
_RECORD = record({
    "format": whole(1, FORMAT),
    "number": whole(1, MOST),
    "settings": _settings,
    "rows": COUNT,
    "digest": TEXT,
    "state": or_null(_file(r"state-\d{1,18}\.fcs", "state-N.fcs")),
    "matches": listed(_file(r"matches-\d{1,18}\.arrow", "matches-N.arrow")),
    "late": listed(_file(r"late-\d{1,18}\.arrow", "late-N.arrow")),
    "bad_rows": or_null(_file(r"bad-rows\.jsonl", "bad-rows.jsonl")),
    "finished": FLAG,
    "written": by_name(TEXT),
    "summary": record({}, _SUMMARY),
})  # fmt: skip


def _checksum(data: Mapping[str, Any]) -> str:
    return xxh64_hexdigest(json.dumps(data, sort_keys=True).encode())
