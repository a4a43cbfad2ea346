"""The limit queries as hand-optimised self-joins in SQL, for both DuckDB and Spark.

A join on a range of times compares every pair of events. So time is divided into buckets as long as the window: an A is
in its own bucket, every other event in its own bucket and in the one before. All events that may match an A are then in
the bucket of the A.
"""

from __future__ import annotations

from bench.peers.protocol import WINDOWS


def self_join(query: str) -> str:
    """Return SQL that selects the times of each match's events from the table ``events``; in QK, matches with one B."""
    window = WINDOWS[query]
    filter_ = " AND V = 10" if query == "QS" else ""
    own = f"SELECT ts, ID, V, ts - ts % {window} AS bucket FROM events WHERE type = "
    before = f"SELECT ts, ID, V, ts - ts % {window} - {window} AS bucket FROM events WHERE type = "
    events = ", ".join(
        [f"a AS ({own}'A'{filter_})"]
        + [f"{x.lower()} AS ({own}'{x}'{filter_} UNION ALL {before}'{x}'{filter_})" for x in "BC"]
    )
    near = "{0}.ID = a.ID AND {0}.bucket = a.bucket AND {0}.ts > {1}.ts AND {0}.ts <= a.ts + " + str(window)
    of_b = " AND b.V = a.V" if query == "QK" else ""
    of_c = " AND c.V = a.V + b.V" if query in ("Q1", "Q1s") else ""
    return (
        f"WITH {events} SELECT a.ts AS a, b.ts AS b, c.ts AS c FROM a "
        f"JOIN b ON {near.format('b', 'a')}{of_b} JOIN c ON {near.format('c', 'b')}{of_c}"
    )
