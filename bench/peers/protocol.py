"""Protocol of a peer: a program that answers the limit queries of ``bench.queries`` and reports its times."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from bench.queries import QUERIES

#: Folder that peers are downloaded to and compiled in; git ignores it.
FOLDER = Path(__file__).parents[2] / "build" / "peers"
WINDOWS = {"Q1": 8000, "Q1s": 1000, "QS": 1000, "QK": 1000}
#: Semantics of the results, and the clause that gives fastcep the same semantics.
ALL, FIRST = "all matches", "first of every A"
CLAUSES = {ALL: "", FIRST: " AFTER MATCH SKIP TO NEXT"}


class Unavailable(Exception):
    """A peer cannot run; the message gives the reason."""


@dataclass(frozen=True)
class Case:
    """Largest number of events that a peer gets for a query, and number of runs; the first run only warms up."""

    events: int = 1_000_000
    runs: int = 5


@dataclass(frozen=True)
class Result:
    """Number of matches, CPU seconds of all threads, and wall seconds."""

    matches: int
    cpu: float
    wall: float


class Peer(Protocol):
    """Program that answers the queries.

    Attributes
    ----------
    name
        Name in the table and for ``--only``.
    clock
        Description of what the time covers.
    semantics
        ``ALL`` or ``FIRST``.
    cases
        Queries that it can express.
    """

    name: str
    clock: str
    semantics: str
    cases: Mapping[str, Case]

    def available(self) -> str | None:
        """Return why it cannot run on this machine; ``None`` if it can."""

    def setup(self) -> None:
        """Download its dependencies into `FOLDER`; raise `Unavailable` if that fails."""

    def version(self) -> str:
        """Return its version and that of its platform."""

    def run(self, query: str, events: pa.Table) -> Result:
        """Match a query of `cases` over events with the columns of ``bench.queries.events``."""


def query_text(query: str, semantics: str = ALL) -> str:
    """Return the text of a query for fastcep."""
    return QUERIES[query] + CLAUSES[semantics]


def timed(find: Callable[[], int], runs: int) -> Result:
    """Run a function several times in this process and return the median times."""
    results = []
    for _ in range(runs):
        cpu, wall = time.process_time(), time.perf_counter()
        matches = find()
        results.append(Result(matches, time.process_time() - cpu, time.perf_counter() - wall))
    return median(results)


def median(results: Sequence[Result]) -> Result:
    """Return the median times of all runs but the first; all must have the same number of matches."""
    warm = results[1:] or results
    (matches,) = {result.matches for result in results}
    return Result(
        matches, statistics.median(result.cpu for result in warm), statistics.median(result.wall for result in warm)
    )
