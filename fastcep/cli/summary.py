"""Summary of a run: its counts and times."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from fastcep.engine import Engine, Matches

__all__ = ["Summary"]


@dataclass
class Summary:
    """Counts and times of a run: the object that ``--json`` prints.

    ``seconds`` is the time from opening the input to the last match, reading and writing included;
    ``memory_bytes`` is the largest size of the engine's state at the end of a batch.
    """

    events: int = 0
    matches: int = 0
    matches_by_query: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    events_per_second: float = 0.0
    peak_partial_matches: int = 0
    memory_bytes: int = 0
    late: int = 0
    bad_rows: int = 0
    shed_events: int = 0
    shed_windows: int = 0
    shed_matches: int = 0
    estimated_recall: float | None = 1.0

    def add(self, engine: Engine, matches: Matches) -> None:
        """Add the matches of one call of the engine, and update the counts from its metrics."""
        self.matches += len(matches)
        for name, count in matches.counts().items():
            self.matches_by_query[name] = self.matches_by_query.get(name, 0) + count
        metrics = engine.metrics()
        self.events = int(metrics["events"])
        self.late = int(metrics["late_events"])
        self.peak_partial_matches = int(metrics["peak_partial_matches"])
        self.memory_bytes = max(self.memory_bytes, int(metrics["memory_bytes"]))
        shedding = metrics["shedding"]
        if shedding is not None:
            self.shed_events = shedding["dropped_events"] + shedding["dropped_in_windows"]
            self.shed_windows = shedding["dropped_windows"]
            self.shed_matches = shedding["dropped_partial_matches"] + metrics["dropped_partial_matches"]
            recall = shedding["estimated_recall"]
            self.estimated_recall = None if recall is None else round(recall, 6)

    def stop(self, seconds: float) -> None:
        """Set the time, in seconds, and the throughput."""
        self.seconds = round(seconds, 6)
        self.events_per_second = round(self.events / seconds, 1) if seconds > 0 else 0.0

    def as_json(self) -> str:
        """Return the summary as one line of JSON."""
        return json.dumps(asdict(self))

    def show(self, bad_rows: Path | None, file: TextIO) -> None:
        """Print the totals as text."""
        if len(self.matches_by_query) > 1:
            for name, count in self.matches_by_query.items():
                print(f"{name}: {count:,} matches", file=file)
        print(
            f"{self.events:,} events, {self.matches:,} matches in {self.seconds:.3f} s "
            f"({self.events_per_second:,.0f} events/s), at most {self.peak_partial_matches:,} live partial matches",
            file=file,
        )
        if self.shed_events or self.shed_windows or self.shed_matches:
            recall = "n/a" if self.estimated_recall is None else f"{self.estimated_recall:.3f}"
            print(
                f"shed: {self.shed_events:,} events, {self.shed_windows:,} windows, {self.shed_matches:,} partial "
                f"matches; estimated recall {recall}",
                file=file,
            )
        if self.bad_rows:
            print(f"{self.bad_rows:,} bad rows in {bad_rows}", file=file)
