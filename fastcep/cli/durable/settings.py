"""What must be the same when a run goes on: queries, functions, and the options that decide what is found."""

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
    """Gather them."""
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
    """A duration as it is usually written; of what is none the engine will say so."""
    try:
        return None if text is None else format_duration(parse_duration(text))
    except ValidationError:
        return text


def check_settings(recorded: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Refuse to go on with others than were recorded.

    Raises
    ------
    ValidationError
        Names all that differ.
    """
    then = SheddingOptions().settings() | dict(recorded)  # a record may be older than these options
    differing = [_difference(key, then.get(key), now.get(key)) for key in now if then.get(key) != now.get(key)]
    if differing:
        raise ValidationError(
            f"the run of --checkpoint '{folder}' was begun with others: {'; '.join(differing)}. Give the same as then, "
            "or start anew with another --checkpoint folder"
        )


def _difference(key: str, then: Any, now: Any) -> str:
    if key == "schema":
        return "the schema (STREAM and EVENT) is another"
    if key == "--functions":
        return "the file of --functions is another" if then and now else f"--functions was {_given(then)}"
    if key == "queries":
        texts = dict(then)
        changed = [name for name, text in now if texts.get(name, text) != text]
        if changed:
            return f"the query {', '.join(changed)} is another"
        return f"found the queries {_names(now)}, expected {_names(then)}"
    if isinstance(now, bool):
        return f"{key} was {_given(then)}"
    return f"found {key} {_shown(now)}, expected {_shown(then)}"


def _names(queries: list[list[str]]) -> str:
    return ", ".join(name for name, _ in queries)


def _given(value: Any) -> str:
    return "given" if value else "not given"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(value)
    return "not given" if value is None else json.dumps(value, ensure_ascii=False)
