"""Commit record ``checkpoint.json``: the position, state and output files of a run at one moment."""

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
    matching,
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
    """File of the folder: its name, size in bytes and xxhash64 checksum."""

    name: str
    bytes: int
    checksum: str


@dataclass(frozen=True)
class Record:
    """Commit of a run, from which it can resume.

    Attributes
    ----------
    number
        Number of the commit, from 1.
    settings
        Settings that must not change when the run resumes, see `fastcep.cli.durable.settings`.
    rows, digest
        Number of input rows processed, and their `Digest`.
    state
        Snapshot of the engine; None when the run is finished.
    matches, late
        Arrow files of the matches and the late events, in order.
    bad_rows
        File of bad rows of a finished run, None if it keeps none.
    finished
        Whether all input was processed and the engine was flushed.
    written
        Outputs that hold the complete run, by option.
    summary
        Counts so far, the fields of `Summary`.
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
        """All files that the record lists."""
        others = (part for part in (self.state, self.bad_rows) if part is not None)
        return (*others, *self.matches, *self.late)

    def to_bytes(self) -> bytes:
        """Serialise the record as JSON, with its format and a checksum."""
        data = {"format": FORMAT, **asdict(self)}
        return json.dumps(data | {"checksum": _checksum(data)}, indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Record:
        """Parse the JSON of `to_bytes`.

        Parameters
        ----------
        data
            JSON text in UTF-8.
        name
            Name of the file, for messages.

        Raises
        ------
        SnapshotError
            If the record is damaged, or of an unknown format.
        """
        try:
            values = json.loads(data)
            if not isinstance(values, dict):
                raise Misfit("the record", shown(values), "a JSON object")
            record_format = values.pop("format", None)
            if type(record_format) is int and record_format > FORMAT:
                raise SnapshotError(
                    f"'{name}' has format {record_format}, expected at most {FORMAT}; use the newer fastcep that "
                    "wrote it"
                )
            if values.pop("checksum", None) != _checksum({"format": record_format, **values}):
                raise ValueError("its checksum does not match")
            _check({"format": record_format, **values})
            for key in ("matches", "late"):
                values[key] = tuple(Part(**part) for part in values[key])
            for key in ("state", "bad_rows"):
                values[key] = None if values[key] is None else Part(**values[key])
            return cls(**values)
        except (ValueError, RecursionError) as error:
            raise SnapshotError(
                f"'{name}' is damaged ({error}); restore a copy of the folder, or start over with another "
                "--checkpoint folder"
            ) from None


def _check(values: dict[str, Any]) -> None:
    """Raise `Misfit` for values that no run writes, above all for names of foreign files."""
    _RECORD(values, "")
    if values["finished"] != (values["state"] is None):
        if values["finished"]:
            raise Misfit("state", "a file", "null, as the run is finished")
        raise Misfit("state", "null", "a file, as the run is not finished")
    parts = [*values["matches"], *values["late"], *filter(None, (values["state"], values["bad_rows"]))]
    names = [part["name"] for part in parts]
    if len(set(names)) < len(names):
        raise Misfit("matches, late", "a duplicate file", "distinct files")
    for name in names:
        number = re.sub(r"\D", "", name)
        if number and not 0 < int(number) <= values["number"]:
            raise Misfit("number", f"{values['number']} with the file {name!r}", "the number of the last commit")


def _setting(value: Any, name: str) -> None:
    """Check the value of an option: a text, a list of texts, a number, true, false or null."""
    check = listed(TEXT) if type(value) is list else anything if type(value) in _SCALARS else TEXT
    check(value, name)


def _settings(value: Any, name: str) -> None:
    """Check the settings: values of options, and name and text of each query."""
    by_name(anything)(value, name)
    listed(sequence(TEXT, TEXT))(value.get("queries"), f"{name}.queries")
    by_name(_setting)({key: setting for key, setting in value.items() if key != "queries"}, name)


def _file(pattern: str, shape: str) -> Check:
    """Return the check of a file of the folder; `pattern` matches its complete name."""
    name = matching(pattern, f"the name of a file of the folder, {shape}")
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
