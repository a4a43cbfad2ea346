"""What was measured, as rows and as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.table import Table

from bench.peers.protocol import Result


@dataclass(frozen=True)
class Row:
    """One peer on one query, beside fastcep on the same events, asked for the same."""

    query: str
    peer: str
    asked: str
    events: int
    found: Result
    fastcep: Result

    @property
    def rate(self) -> float:
        """Million events per CPU second."""
        return self.events / self.found.cpu / 1e6

    @property
    def ratio(self) -> float:
        """How many times as much CPU time as fastcep it takes."""
        return self.found.cpu / self.fastcep.cpu

    def check(self) -> str | None:
        """What is wrong with its matches, if anything."""
        if self.found.matches == self.fastcep.matches:
            return None
        return f"{self.peer} finds {self.found.matches:,} matches in {self.query}, fastcep {self.fastcep.matches:,}"

    def figures(self) -> dict[str, Any]:
        """For the file of results."""
        return {
            "query": self.query,
            "peer": self.peer,
            "asked": self.asked,
            "events": self.events,
            "matches": self.found.matches,
            "cpu_seconds": round(self.found.cpu, 4),
            "wall_seconds": round(self.found.wall, 4),
            "million_events_per_cpu_second": float(f"{self.rate:.3g}"),
            "fastcep_cpu_seconds": round(self.fastcep.cpu, 4),
            "times_the_cpu_of_fastcep": float(f"{self.ratio:.3g}"),
        }


def table(rows: list[Row]) -> Table:
    """All rows; those of one query together, fastcep first."""
    drawn = Table("query", "peer", "asked for", title="fastcep and its peers, the same matches")
    for column in ("events", "matches", "CPU s", "wall s", "M events per CPU s", "CPU, × fastcep"):
        drawn.add_column(column, justify="right")
    queries = list(dict.fromkeys(row.query for row in rows))
    rows = sorted(rows, key=lambda row: (queries.index(row.query), row.peer != "fastcep"))
    for i, row in enumerate(rows):
        last = i + 1 == len(rows) or rows[i + 1].query != row.query
        numbers = (f"{row.events:,}", f"{row.found.matches:,}", f"{row.found.cpu:.3f}", f"{row.found.wall:.3f}")
        rates = (f"{row.rate:.3g}", "1" if row.peer == "fastcep" else f"{row.ratio:,.3g}")
        drawn.add_row(row.query, row.peer, row.asked, *numbers, *rates, end_section=last)
    return drawn
