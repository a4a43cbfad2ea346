"""The commits of a streaming query: one record per micro-batch, which lists the files of the batch."""

from __future__ import annotations

import errno
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from fastcep.engine.state.keygroups import GROUPS
from fastcep.errors import SnapshotError
from fastcep.spark.streaming.assignment import Unit
from fastcep.spark.streaming.files import Files
from fastcep.stored import AMOUNT, COUNT, INT64, SHARE, listed, matching, or_null, record, whole

__all__ = ["Commit", "Commits", "OutputFile"]

_VERSION = 2
_RECORD = "commit.json"
_GROUP = whole(0, GROUPS - 1)

_STATE = matching(r"(batches/\d{1,18}/state-[\w-]+\.fcs)?", "the name of a file, batches/N/state-….fcs")
_ROWS = matching(r"batches/\d{1,18}/rows-[\w-]+\.parquet", "the name of a file, batches/N/rows-….parquet")
_SHEDDING = record({"events": COUNT, "partial_matches": COUNT, "latency": AMOUNT, "recall": or_null(SHARE)})
_UNIT = record({
    "groups": listed(_GROUP), "state": _STATE, "bytes": COUNT, "partial_matches": COUNT, "shedding": or_null(_SHEDDING),
})  # fmt: skip
_CHECK = record(
    {
        "version": whole(_VERSION, _VERSION),
        "batch": COUNT,
        "watermark": or_null(INT64),
        "slices": whole(1, GROUPS),
        "units": listed(_UNIT),
        "outputs": listed(record({"file": _ROWS, "rows": COUNT, "bytes": COUNT})),
        "counts": record({"events": COUNT, "match": COUNT, "late": COUNT, "timed_out": COUNT}),
        "milliseconds": record({"measure": COUNT, "detect": COUNT}),
    }
)


@dataclass(frozen=True)
class OutputFile:
    """Parquet file with rows of a slice, by its name in the checkpoint."""

    file: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Commit:
    """State of a streaming query after a micro-batch.

    Attributes
    ----------
    batch
        Number of the micro-batch.
    watermark
        Watermark after the batch, ns; None: no event yet.
    slices
        Number of slices of the batch.
    units
        Key groups and state files.
    sizes, partial_matches, shedding
        Bytes of the state file of each unit, its live partial matches, and with a latency bound what its engine has
        dropped so far: numbers of ``events`` and ``partial_matches``, the ``latency`` of an event (99th percentile, ns)
        and the estimated ``recall``.
    outputs
        Files with the rows of the batch.
    counts
        ``events`` of the batch and its rows by kind: ``match``, ``late``, ``timed_out``.
    milliseconds
        Time to ``measure`` the batch, and to ``detect``, which includes sending the events to their slices.
    """

    batch: int
    watermark: int | None
    slices: int
    units: tuple[Unit, ...]
    sizes: tuple[int, ...]
    partial_matches: tuple[int, ...]
    shedding: tuple[dict[str, Any] | None, ...]
    outputs: tuple[OutputFile, ...] = ()
    counts: dict[str, int] = field(default_factory=lambda: {"events": 0, "match": 0, "late": 0, "timed_out": 0})
    milliseconds: dict[str, int] = field(default_factory=lambda: {"measure": 0, "detect": 0})

    def to_json(self) -> bytes:
        """Return the record."""
        units = [
            {"groups": list(unit.groups), "state": unit.state, "bytes": size, "partial_matches": partial,
             "shedding": shedding}
            for unit, size, partial, shedding in zip(
                self.units, self.sizes, self.partial_matches, self.shedding, strict=True
            )
        ]  # fmt: skip
        document = {
            "version": _VERSION, "batch": self.batch, "watermark": self.watermark, "slices": self.slices,
            "units": units, "outputs": [asdict(output) for output in self.outputs], "counts": self.counts,
            "milliseconds": self.milliseconds,
        }  # fmt: skip
        return json.dumps(document, indent=1).encode()

    @classmethod
    def of(cls, document: dict[str, Any]) -> Commit:
        """Return the commit of a record."""
        units = document["units"]
        return cls(
            document["batch"], document["watermark"], document["slices"],
            tuple(Unit(tuple(unit["groups"]), unit["state"]) for unit in units),
            tuple(unit["bytes"] for unit in units), tuple(unit["partial_matches"] for unit in units),
            tuple(unit["shedding"] for unit in units), tuple(OutputFile(**output) for output in document["outputs"]),
            document["counts"], document["milliseconds"],
        )  # fmt: skip

    def folders(self) -> set[int]:
        """Return the batches in whose folders the files of this commit are."""
        names = [unit.state for unit in self.units] + [output.file for output in self.outputs]
        return {self.batch} | {int(name.split("/")[1]) for name in names if name}


class Commits:
    """The commits of a checkpoint.

    The folder ``batches/N`` has the files of batch N. A batch is committed when its record gets its name. Files that no
    record lists come from killed or repeated tasks, and are removed with the folder, two batches later.

    Parameters
    ----------
    files
        The checkpoint.
    """

    def __init__(self, files: Files) -> None:
        self.files = files
        self._latest: Commit | None = None

    def read(self, batch: int) -> Commit | None:
        """Return the commit of a batch; None if it is not committed.

        Raises
        ------
        SnapshotError
            If its record is damaged.
        """
        if self._latest is not None and self._latest.batch == batch:
            return self._latest
        remedy = "restore the checkpoint from a copy, or start with a new one"
        try:
            document = self.files.read_record(f"batches/{batch}/{_RECORD}", _CHECK, "the record of a batch", remedy)
        except FileNotFoundError:
            return None
        return Commit.of(document)

    def before(self, batch: int) -> Commit | None:
        """Return the commit of the batch before; None for the first batch.

        Raises
        ------
        SnapshotError
            If it is missing.
        """
        if not batch:
            return None
        commit = self.read(batch - 1)
        if commit is None:
            raise SnapshotError(
                f"checkpoint {self.files.folder}: Spark is at batch {batch}, but there is no commit of batch "
                f"{batch - 1}; restore the whole checkpoint from a copy, or start with a new one"
            )
        return commit

    def latest(self) -> Commit | None:
        """Return the last commit; None if there is none."""
        for batch in sorted(self._batches(), reverse=True):
            commit = self.read(batch)
            if commit is not None:
                return commit
        return None

    def prepare_offsets(self, latest: Commit | None) -> None:
        """Check that Spark's checkpoint has the batch of the last commit; remove an unfinished file of the first batch.

        Without the batch, Spark would begin again with numbers that are committed, so the rows of new batches would be
        lost. If a driver is killed while it writes its first batch, Spark does not start beside the unfinished file.

        Raises
        ------
        SnapshotError
            If Spark's checkpoint does not have the batch.
        """
        names = self.files.names("spark/offsets")
        if latest is None and names and not any(name.isdigit() for name in names):
            self.files.remove_folder("spark/offsets")
        if latest is not None and str(latest.batch) not in names:
            raise SnapshotError(
                f"checkpoint {self.files.folder}: batch {latest.batch} is committed, but Spark's own checkpoint in the "
                "folder spark does not have it; restore the whole checkpoint from a copy, or start with a new one"
            )

    def write(self, commit: Commit) -> None:
        """Commit a batch."""
        self.files.write(f"batches/{commit.batch}/{_RECORD}", commit.to_json())
        self._latest = commit

    def clean(self, *needed: Commit | None) -> None:
        """Remove the folders of earlier batches that none of these commits needs.

        A late attempt of a task may write to one of them at the same time: then a later batch removes it.
        """
        commits = [commit for commit in needed if commit is not None]
        folders = set().union(*(commit.folders() for commit in commits))
        last = max((commit.batch for commit in commits), default=-1)
        for batch in self._batches():
            if batch < last and batch not in folders:
                try:
                    self.files.remove_folder(f"batches/{batch}")
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                        raise

    def _batches(self) -> list[int]:
        return [int(name) for name in self.files.names("batches") if name.isdigit()]
