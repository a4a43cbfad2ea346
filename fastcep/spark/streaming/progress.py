"""Progress of a streaming query, from its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from fastcep.spark.streaming.commit import Commits
from fastcep.spark.streaming.files import Files, absolute

__all__ = ["StreamProgress", "stream_progress"]


@dataclass(frozen=True)
class StreamProgress:
    """The last committed micro-batch of a streaming query.

    Attributes
    ----------
    batch
        Its number.
    watermark
        Watermark after it, ns; None: no event yet.
    events
        Number of its events.
    matches, late, timed_out
        Number of its rows of each kind.
    slices
        Number of slices.
    state_bytes
        Bytes of the state of all engines.
    partial_matches
        Number of live partial matches.
    measure_ms, detect_ms
        Time to measure the batch, and to send its events and process them.
    dropped_events, dropped_partial_matches
        Numbers that the engines have dropped, with a latency bound. They start at 0 again when the number of slices
        changes, or the query; so do the latency and the recall.
    latency
        Latency of an event in an engine, ns: the 99th percentile, of the slice with the largest one. None without a
        latency bound.
    estimated_recall
        Share of the matches that is found, by estimate, in the slice with the smallest one. None: unknown, or no bound.
    """

    batch: int
    watermark: int | None
    events: int
    matches: int
    late: int
    timed_out: int
    slices: int
    state_bytes: int
    partial_matches: int
    measure_ms: int
    detect_ms: int
    dropped_events: int
    dropped_partial_matches: int
    latency: float | None
    estimated_recall: float | None


def stream_progress(checkpoint: str | PathLike[str]) -> StreamProgress | None:
    """Return the progress of the streaming query with this checkpoint; None before its first commit.

    Raises
    ------
    ValidationError
        If the path is invalid.
    SnapshotError
        If the checkpoint is damaged.
    """
    commit = Commits(Files(absolute(checkpoint, "checkpoint"))).latest()
    if commit is None:
        return None
    counts, times = commit.counts, commit.milliseconds
    shedding = [item for item in commit.shedding if item is not None]
    recalls = [item["recall"] for item in shedding if item["recall"] is not None]
    return StreamProgress(
        commit.batch, commit.watermark, counts["events"], counts["match"], counts["late"], counts["timed_out"],
        commit.slices, sum(commit.sizes), sum(commit.partial_matches), times["measure"], times["detect"],
        sum(item["events"] for item in shedding), sum(item["partial_matches"] for item in shedding),
        max((item["latency"] for item in shedding), default=None), min(recalls, default=None),
    )  # fmt: skip
