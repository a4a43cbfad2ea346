"""Assemble the outputs of a finished run from the files in its folder."""

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

__all__ = ["assemble", "check_targets", "outdated_outputs"]

_BLOCK = 1 << 20


def check_targets(job: Job) -> None:
    """Raise ValidationError for outputs that cannot be written, before the run starts."""
    if job.outputs.path is not None:
        check_output(job.outputs.path, job.outputs.format)
    if job.lateness.output is not None:
        check_output(job.lateness.output)
    if job.inputs.bad_rows is not None:
        check_target(job.inputs.bad_rows)


def outdated_outputs(record: Record, job: Job) -> dict[str, Path]:
    """Return the paths, by option, of the outputs that are missing or do not hold the complete run."""
    targets = {"--output": job.outputs.path, "--late": job.lateness.output, "--bad-rows": job.inputs.bad_rows}
    paths = {option: Path(path).resolve() for option, path in targets.items() if path is not None}
    return {
        option: path
        for option, path in paths.items()
        if record.written.get(option) != _location(option, path, job) or not path.exists()
    }


def _location(option: str, path: Path, job: Job) -> str:
    """Return the path of an output, and its format if the options set one, as the record stores it."""
    output_format = job.outputs.format if option == "--output" else None
    return str(path) if output_format is None else f"{path} ({output_format})"


def assemble(folder: Folder, record: Record, job: Job) -> Record:
    """Write the outputs that do not hold the complete run; each file is replaced atomically.

    Parameters
    ----------
    folder
        Folder of the run.
    record
        Last commit of the run, which is finished.
    job
        Job with the paths of the outputs.

    Returns
    -------
    Record
        Last commit, which now lists all outputs as written.

    Raises
    ------
    ValidationError
        If an output cannot be written.
    SnapshotError
        If a file of the folder is damaged.
    """
    start = perf_counter()
    paths = outdated_outputs(record, job)
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
    written = {**record.written, **{option: _location(option, path, job) for option, path in paths.items()}}
    summary = Summary(**record.summary)
    summary.stop(summary.seconds + perf_counter() - start)
    new_record = replace(record, number=record.number + 1, written=written, summary=asdict(summary))
    folder.commit(new_record, record)
    return new_record


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
    """Return the temporary name of an output: unique to this run, so that a restart replaces what a killed run left."""
    return f".fastcep-{xxh64_hexdigest(repr((str(folder.path.resolve()), str(path))).encode())}.part"
