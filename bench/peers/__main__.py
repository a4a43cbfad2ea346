"""Compare fastcep with its peers on the limit queries and write ``results/peers.json``; see ``docs/peers.md``."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from bench.peers.duckdb_ import DuckDB
from bench.peers.fastcep_ import Fastcep
from bench.peers.flink import API, SQL
from bench.peers.pandas_ import Pandas
from bench.peers.protocol import Peer, Result, Unavailable
from bench.peers.siddhi import JOINS, PATTERNS
from bench.peers.spark import Spark
from bench.peers.table import Row, table
from bench.queries import events, store

PEERS: tuple[Peer, ...] = (Fastcep(), Pandas(), DuckDB(), JOINS, PATTERNS, API, SQL, Spark())


def main() -> None:
    """Run those that are there, print the table, write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", help="peers whose name holds this; may be given again")
    parser.add_argument("--events", type=int, default=1_000_000, help="the first events of the stream only")
    parser.add_argument("--setup", action="store_true", help="download what is missing to build/peers before")
    given = parser.parse_args()
    chosen = [peer for peer in PEERS if not given.only or any(x.lower() in peer.name.lower() for x in given.only)]
    missing, there = _available(chosen, given.setup)
    rows = _measure(there, given.events, missing)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table(rows))
    for name, reason in missing.items():
        console.print(f"{name}: {reason}")
    wrong = [text for row in rows if (text := row.check())]
    if wrong:
        raise SystemExit("\n".join(wrong))
    if not given.only and given.events == 1_000_000:
        about = {peer.name: {"version": peer.version(), "clock": peer.clock} for peer in there}
        store("peers", {"peers": about, "missing": missing, "rows": [row.figures() for row in rows]})


def _available(peers: list[Peer], setup: bool) -> tuple[dict[str, str], list[Peer]]:
    """Why some are missing, and those that are not."""
    missing: dict[str, str] = {}
    for peer in peers:
        reason = peer.available()
        if reason is not None and setup:
            try:
                peer.setup()
                reason = peer.available()
            except Unavailable as error:
                reason = str(error)
        if reason is not None:
            missing[peer.name] = reason
    return missing, [peer for peer in peers if peer.name not in missing]


def _measure(peers: list[Peer], count: int, missing: dict[str, str]) -> list[Row]:
    """One row for every peer and query; fastcep runs beside each, on the same events. A peer that fails is missing."""
    stream = events()
    rows = []
    for peer in peers:
        for query, case in peer.cases.items():
            given = stream.slice(0, min(case.events, count))
            ours = Fastcep(peer.asked).run(query, given)
            try:
                found: Result = ours if isinstance(peer, Fastcep) else peer.run(query, given)
            except Unavailable as error:
                missing[f"{peer.name}, {query}"] = str(error)
                continue
            rows.append(Row(query, peer.name, peer.asked, len(given), found, ours))
            print(f"{peer.name}, {query}: {found}", file=sys.stderr)
    return rows


if __name__ == "__main__":
    main()
