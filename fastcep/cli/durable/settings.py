"""Settings that must not change when a run resumes: queries, functions, and the options that affect the matches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xxhash import xxh64_hexdigest

from fastcep.cli.shedding import SheddingOptions
from fastcep.errors import ValidationError
from fastcep.events import parse_duration
from fastcep.events.units import format_duration
from fastcep.query import to_text
from fastcep.query.document import Document, document_text

if TYPE_CHECKING:
    from fastcep.cli.job import Job

__all__ = ["check_settings", "make_settings"]


def make_settings(job: Job) -> dict[str, Any]:
    """Return the settings of a job, by option, as the record stores them."""
    inputs, engine, shedding = job.inputs, job.engine, job.shedding.settings()
    return {
        "schema": document_text(Document(job.schema, ())),
        "queries": [[query.name, to_text(query)] for query in job.queries],
        "--functions": None if job.functions is None else xxh64_hexdigest(job.functions.read_bytes()),
        "--input": list(job.sources),
        "--format": inputs.format,
        "--delimiter": inputs.delimiter,
        "--encoding": inputs.encoding,
        "--sort": inputs.sort,
        "--bad-rows": inputs.bad_rows is not None,
        "--attributes": engine["attributes"],
        "--allowed-lateness": _duration(engine["allowed_lateness"]),
        "--late": job.lateness.output is not None,
        **shedding,
        "--latency-bound": _duration(shedding["--latency-bound"]),
    }


def _duration(text: str | None) -> str | None:
    """Normalise the text of a duration; a malformed one is returned unchanged, and the engine rejects it later."""
    try:
        return None if text is None else format_duration(parse_duration(text))
    except ValidationError:
        return text


def check_settings(recorded: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Compare the settings of this run with the recorded ones.

    Raises
    ------
    ValidationError
        If settings differ; the message lists all differences.
    """
    expected = SheddingOptions().settings() | dict(recorded)  # a record may be older than these options
    differences = [
        _difference(key, expected.get(key), now.get(key)) for key in now if expected.get(key) != now.get(key)
    ]
    if differences:
        raise ValidationError(
            f"the run of --checkpoint '{folder}' was started with other settings: {'; '.join(differences)}. Use the "
            "original settings, or start over with another --checkpoint folder"
        )


def _difference(key: str, expected: Any, now: Any) -> str:
    if key == "schema":
        return "the schema (STREAM and EVENT) has changed"
    if key == "--functions":
        return "the file of --functions has changed" if expected and now else f"--functions was {_presence(expected)}"
    if key == "queries":
        texts = dict(expected)
        changed = [name for name, text in now if texts.get(name, text) != text]
        if changed:
            return f"the query {', '.join(changed)} has changed"
        return f"found the queries {_names(now)}, expected {_names(expected)}"
    if isinstance(now, bool):
        return f"{key} was {_presence(expected)}"
    return f"found {key} {_as_text(now)}, expected {_as_text(expected)}"


def _names(queries: list[list[str]]) -> str:
    return ", ".join(name for name, _ in queries)


def _presence(value: Any) -> str:
    return "given" if value else "not given"


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(value)
    return "not given" if value is None else json.dumps(value, ensure_ascii=False)
