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
from bench.peers.table import Row, rich_table
from bench.queries import events, store

PEERS: tuple[Peer, ...] = (Fastcep(), Pandas(), DuckDB(), JOINS, PATTERNS, API, SQL, Spark())


def main() -> None:
    """Measure the available peers, print the table, write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", help="peers whose name contains this; repeatable")
    parser.add_argument("--events", type=int, default=1_000_000, help="number of events, the first ones of the stream")
    parser.add_argument("--setup", action="store_true", help="first download missing peers to build/peers")
    options = parser.parse_args()
    selected = [
        peer for peer in PEERS if not options.only or any(part.lower() in peer.name.lower() for part in options.only)
    ]
    missing, available = _available(selected, options.setup)
    rows = _measure(available, options.events, missing)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(rich_table(rows))
    for name, reason in missing.items():
        console.print(f"{name}: {reason}")
    wrong = [text for row in rows if (text := row.check())]
    if wrong:
        raise SystemExit("\n".join(wrong))
    if not options.only and options.events == 1_000_000:
        descriptions = {peer.name: {"version": peer.version(), "clock": peer.clock} for peer in available}
        store("peers", {"peers": descriptions, "missing": missing, "rows": [row.figures() for row in rows]})


def _available(peers: list[Peer], setup: bool) -> tuple[dict[str, str], list[Peer]]:
    """Return the reasons why peers are missing, and the available peers."""
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
    """Measure every peer and query, and fastcep on the same events; a peer that fails is added to ``missing``."""
    stream = events()
    rows = []
    for peer in peers:
        for query, case in peer.cases.items():
            table = stream.slice(0, min(case.events, count))
            fastcep = Fastcep(peer.semantics).run(query, table)
            try:
                result: Result = fastcep if isinstance(peer, Fastcep) else peer.run(query, table)
            except Unavailable as error:
                missing[f"{peer.name}, {query}"] = str(error)
                continue
            rows.append(Row(query, peer.name, peer.semantics, len(table), result, fastcep))
            print(f"{peer.name}, {query}: {result}", file=sys.stderr)
    return rows


if __name__ == "__main__":
    main()
