"""The limit queries as self-joins in SQL, as good as one writes them by hand; DuckDB and Spark both take them.

A join on a range of times looks at every pair of events, so time is cut into buckets as long as the window. An A is in
its own bucket, and every other event in its own and in the one before: whatever may match an A is in the A's bucket.
"""

from __future__ import annotations

from bench.peers.protocol import WINDOWS


def self_join(query: str) -> str:
    """Select the times of the events of every match of a query from the table ``events``; in QK without B's."""
    window = WINDOWS[query]
    only = " AND V = 10" if query == "QS" else ""
    own = f"SELECT ts, ID, V, ts - ts % {window} AS bucket FROM events WHERE type = "
    before = f"SELECT ts, ID, V, ts - ts % {window} - {window} AS bucket FROM events WHERE type = "
    events = ", ".join(
        [f"a AS ({own}'A'{only})"] + [f"{x.lower()} AS ({own}'{x}'{only} UNION ALL {before}'{x}'{only})" for x in "BC"]
    )
    near = "{0}.ID = a.ID AND {0}.bucket = a.bucket AND {0}.ts > {1}.ts AND {0}.ts <= a.ts + " + str(window)
    of_b = " AND b.V = a.V" if query == "QK" else ""
    of_c = " AND c.V = a.V + b.V" if query in ("Q1", "Q1s") else ""
    return (
        f"WITH {events} SELECT a.ts AS a, b.ts AS b, c.ts AS c FROM a "
        f"JOIN b ON {near.format('b', 'a')}{of_b} JOIN c ON {near.format('c', 'b')}{of_c}"
    )
