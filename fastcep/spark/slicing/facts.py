"""Facts about the slices of a stream as JSON: what Spark's plan and the tasks must know of a `SliceAssignment`."""

from __future__ import annotations

import json
from dataclasses import asdict

from fastcep.errors import DataError
from fastcep.spark.slicing.assignment import ALL_PIECES, SliceAssignment
from fastcep.spark.slicing.slices import Slice

__all__ = ["KIND", "error_facts", "facts_text", "header_of", "slice_of"]

#: Type of the facts in Spark's DDL; ``headers`` has a text for each slice.
KIND = "struct<begins:array<bigint>,ends:array<bigint>,groups:array<int>,steps:array<int>,headers:array<string>>"
_ERROR = "error"


def facts_text(cut: SliceAssignment) -> str:
    """Return the facts about slices; a cut by time has one key group, which is cut by time."""
    return json.dumps({
        "begins": [] if cut.time is None else cut.time.begins,
        "ends": [] if cut.time is None else cut.time.ends,
        "groups": cut.groups or (0,), "steps": cut.steps or (ALL_PIECES if cut.time is None else 1,),
        "headers": [header_of(one) for one in cut.slices],
    })  # fmt: skip


def error_facts(message: str) -> str:
    """Return the facts about an invalid stream: no event is sent, and the only slice raises the error."""
    header = json.dumps({_ERROR: message})
    return json.dumps({"begins": [], "ends": [], "groups": [None], "steps": [ALL_PIECES], "headers": [header]})


def header_of(stream_slice: Slice) -> str:
    """Return the header of a slice."""
    return json.dumps(asdict(stream_slice))


def slice_of(header: str) -> Slice:
    """Return the slice that a header describes.

    Raises
    ------
    DataError
        If the survey has found that the stream is invalid.
    """
    content = json.loads(header)
    if _ERROR in content:
        raise DataError(content[_ERROR])
    return Slice(**content)
