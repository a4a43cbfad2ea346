"""Results of the peers, as rows and as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.table import Table

from bench.peers.protocol import Result


@dataclass(frozen=True)
class Row:
    """Result of a peer for a query, and that of fastcep on the same events with the same semantics."""

    query: str
    peer: str
    semantics: str
    events: int
    result: Result
    fastcep: Result

    @property
    def rate(self) -> float:
        """Return million events per CPU second."""
        return self.events / self.result.cpu / 1e6

    @property
    def ratio(self) -> float:
        """Return the CPU time relative to that of fastcep."""
        return self.result.cpu / self.fastcep.cpu

    def check(self) -> str | None:
        """Return an error message if the number of matches differs from that of fastcep."""
        if self.result.matches == self.fastcep.matches:
            return None
        return f"{self.peer} finds {self.result.matches:,} matches in {self.query}, fastcep {self.fastcep.matches:,}"

    def figures(self) -> dict[str, Any]:
        """Return the fields for the file of results."""
        return {
            "query": self.query,
            "peer": self.peer,
            "asked": self.semantics,
            "events": self.events,
            "matches": self.result.matches,
            "cpu_seconds": round(self.result.cpu, 4),
            "wall_seconds": round(self.result.wall, 4),
            "million_events_per_cpu_second": float(f"{self.rate:.3g}"),
            "fastcep_cpu_seconds": round(self.fastcep.cpu, 4),
            "times_the_cpu_of_fastcep": float(f"{self.ratio:.3g}"),
        }


def rich_table(rows: list[Row]) -> Table:
    """Return a table of all rows, grouped by query, fastcep first."""
    table = Table("query", "peer", "semantics", title="fastcep and its peers, the same matches")
    for column in ("events", "matches", "CPU s", "wall s", "M events per CPU s", "CPU, × fastcep"):
        table.add_column(column, justify="right")
    queries = list(dict.fromkeys(row.query for row in rows))
    rows = sorted(rows, key=lambda row: (queries.index(row.query), row.peer != "fastcep"))
    for i, row in enumerate(rows):
        last = i + 1 == len(rows) or rows[i + 1].query != row.query
        numbers = (f"{row.events:,}", f"{row.result.matches:,}", f"{row.result.cpu:.3f}", f"{row.result.wall:.3f}")
        rates = (f"{row.rate:.3g}", "1" if row.peer == "fastcep" else f"{row.ratio:,.3g}")
        table.add_row(row.query, row.peer, row.semantics, *numbers, *rates, end_section=last)
    return table
