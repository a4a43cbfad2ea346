"""The outputs of a finished run, put together from what it kept in its folder."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from xxhash import xxh64_hexdigest

from fastcep.cli.durable.segments import tables
from fastcep.cli.summary import Summary
from fastcep.errors import ValidationError
from fastcep.io import MatchWriter
from fastcep.io.write.matches import check_output
from fastcep.io.write.target import check_target, sync_folder, write_blocks

if TYPE_CHECKING:
    from fastcep.cli.durable.folder import Folder
    from fastcep.cli.durable.record import Part, Record
    from fastcep.cli.job import Job

__all__ = ["check_targets", "missing", "put_together"]

_BLOCK = 1 << 20


def check_targets(job: Job) -> None:
    """Refuse outputs that cannot work, before anything is done; ValidationError."""
    if job.outputs.path is not None:
        check_output(job.outputs.path, job.outputs.format)
    if job.lateness.output is not None:
        check_output(job.lateness.output)
    if job.inputs.bad_rows is not None:
        check_target(job.inputs.bad_rows)


def missing(record: Record, job: Job) -> dict[str, Path]:
    """Name the outputs that do not hold all of the run, by option."""
    wanted = {"--output": job.outputs.path, "--late": job.lateness.output, "--bad-rows": job.inputs.bad_rows}
    paths = {option: Path(path).resolve() for option, path in wanted.items() if path is not None}
    return {
        option: path
        for option, path in paths.items()
        if record.written.get(option) != _written(option, path, job) or not path.exists()
    }


def _written(option: str, path: Path, job: Job) -> str:
    """What the record says of an output that is written: where, and in which format if that was asked for."""
    asked = job.outputs.format if option == "--output" else None
    return str(path) if asked is None else f"{path} ({asked})"


def put_together(folder: Folder, record: Record, job: Job) -> Record:
    """Write the outputs that do not hold all of a finished run; each appears whole, or stays as it was.

    Parameters
    ----------
    folder
        The run's.
    record
        Its last commit.
    job
        Says where outputs go.

    Returns
    -------
    Record
        The last commit, which now says that they are written.

    Raises
    ------
    ValidationError
        If one cannot be written.
    SnapshotError
        If a file of the folder is damaged.
    """
    start = perf_counter()
    paths = missing(record, job)
    if not paths:
        return record
    if "--output" in paths:
        _write(folder, record.matches, paths["--output"], job.outputs.format)
    if "--late" in paths:
        _write(folder, record.late, paths["--late"], None)
    if "--bad-rows" in paths and record.bad_rows is not None:
        _copy(folder, record.bad_rows, paths["--bad-rows"])
    for path in paths.values():
        try:
            sync_folder(path.parent)
        except OSError as error:
            raise ValidationError(f"cannot write '{path}': {error.strerror or error}") from error
    written = {**record.written, **{option: _written(option, path, job) for option, path in paths.items()}}
    summary = Summary(**record.summary)
    summary.stop(summary.seconds + perf_counter() - start)
    done = replace(record, number=record.number + 1, written=written, summary=asdict(summary))
    folder.commit(done, record)
    return done


def _write(folder: Folder, parts: tuple[Part, ...], path: Path, format: str | None) -> None:
    writer = MatchWriter(path, format, part=_temporary(folder, path), sync=True)
    try:
        for table in tables(folder, parts):
            writer.write(table)
    except BaseException:
        writer.abandon()
        raise
    writer.close()


def _copy(folder: Folder, part: Part, path: Path) -> None:
    folder.check(part)
    with open(folder.file(part.name), "rb") as file:
        write_blocks(path, iter(lambda: file.read(_BLOCK), b""), part=_temporary(folder, path), sync=True)


def _temporary(folder: Folder, path: Path) -> str:
    """A name that this run alone uses, so that it replaces what it left when it was killed."""
    return f".fastcep-{xxh64_hexdigest(repr((str(folder.path.resolve()), str(path))).encode())}.part"
