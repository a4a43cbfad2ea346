"""DuckDB: a self-join. Its newest wheels do not have MATCH_RECOGNIZE, which would not return all matches either."""

from __future__ import annotations

from importlib.util import find_spec

import pyarrow as pa

from bench.peers.protocol import ALL, Case, Result, timed
from bench.peers.sql import self_join
from bench.queries import QUERIES

#: All subsets of the B's between an A and a C, one for each bit mask; faster than a recursive query.
SUBSETS = """
    SELECT a, list_filter(b, lambda x, i: (mask >> (i - 1)) & 1 = 1) AS b, c
    FROM (SELECT *, unnest(range(1, 1 << len(b))) AS mask
          FROM (SELECT a, c, list(b ORDER BY b) AS b FROM ({pairs}) GROUP BY a, c))
"""


class DuckDB:
    """A self-join over buckets of time, on one thread."""

    name = "DuckDB self-join"
    clock = "a table of DuckDB in memory in, matches (times of their events) as an Arrow table out; planning inside"
    semantics = ALL
    cases = dict.fromkeys(QUERIES, Case())

    def available(self) -> str | None:
        return None if find_spec("duckdb") else "the package duckdb is not installed (extra `dev`)"

    def setup(self) -> None:
        pass

    def version(self) -> str:
        import duckdb

        return f"DuckDB {duckdb.__version__}, MATCH_RECOGNIZE: {'yes' if has_match_recognize() else 'no'}"

    def run(self, query: str, events: pa.Table) -> Result:
        import duckdb

        connection = duckdb.connect()
        connection.execute("SET threads = 1")
        connection.register("arrow_events", events)
        connection.execute("CREATE TABLE events AS SELECT * FROM arrow_events")
        text = self_join(query)
        if query == "QK":
            text = SUBSETS.format(pairs=text)
        return timed(lambda: connection.sql(text).to_arrow_table().num_rows, self.cases[query].runs)


def has_match_recognize() -> bool:
    """Return whether this version of DuckDB has the MATCH_RECOGNIZE clause."""
    import duckdb

    text = (
        "FROM (SELECT 1 AS x) MATCH_RECOGNIZE (ORDER BY x MEASURES first(x) AS y "
        "AFTER MATCH SKIP TO NEXT ROW PATTERN (a) DEFINE a AS x = 1)"
    )
    try:
        duckdb.connect().execute(text)
    except duckdb.Error:
        return False
    return True
