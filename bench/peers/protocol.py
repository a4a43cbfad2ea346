"""What a peer is: something that answers the limit queries of ``bench.queries`` and whose clock is known."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from bench.queries import QUERIES

#: Where peers are downloaded and compiled to; git-ignored.
FOLDER = Path(__file__).parents[2] / "build" / "peers"
WINDOWS = {"Q1": 8000, "Q1s": 1000, "QS": 1000, "QK": 1000}
#: What is asked of every query, and how fastcep is asked for the same.
ALL, FIRST = "all matches", "first of every A"
ASKED = {ALL: "", FIRST: " AFTER MATCH SKIP TO NEXT"}


class Unavailable(Exception):
    """A peer cannot be had here; the text says why."""


@dataclass(frozen=True)
class Case:
    """How many events a peer is given for a query, at most, and how often it runs; the first run only warms up."""

    events: int = 1_000_000
    runs: int = 5


@dataclass(frozen=True)
class Result:
    """Matches, and seconds of all threads (``cpu``) and of the clock on the wall."""

    matches: int
    cpu: float
    wall: float


class Peer(Protocol):
    """One way to answer the queries.

    Attributes
    ----------
    name
        What the table and ``--only`` call it.
    clock
        What is inside the clock, in words.
    asked
        ``ALL`` or ``FIRST``.
    cases
        The queries that it can express.
    """

    name: str
    clock: str
    asked: str
    cases: Mapping[str, Case]

    def available(self) -> str | None:
        """Why it cannot run here and now; ``None`` if it can."""

    def setup(self) -> None:
        """Download what it needs into `FOLDER`; raises `Unavailable`."""

    def version(self) -> str:
        """Its version, and that of what it runs on."""

    def run(self, query: str, events: pa.Table) -> Result:
        """Find the matches of a query of `cases` in these events (columns as of ``bench.queries.events``)."""


def query_text(query: str, asked: str = ALL) -> str:
    """The query as fastcep is asked it."""
    return QUERIES[query] + ASKED[asked]


def timed(find: Callable[[], int], runs: int) -> Result:
    """Run something in this process, time it, and take the median."""
    results = []
    for _ in range(runs):
        cpu, wall = time.process_time(), time.perf_counter()
        matches = find()
        results.append(Result(matches, time.process_time() - cpu, time.perf_counter() - wall))
    return median(results)


def median(results: Sequence[Result]) -> Result:
    """The median of the runs after the first, which must all have found as many matches."""
    warm = results[1:] or results
    (matches,) = {result.matches for result in results}
    return Result(
        matches, statistics.median(result.cpu for result in warm), statistics.median(result.wall for result in warm)
    )
