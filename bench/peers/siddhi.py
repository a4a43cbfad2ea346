"""Siddhi, with the jars of the wheel ``PySiddhi``: by patterns, and by joins of windows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from bench.peers import jvm
from bench.peers.protocol import ALL, FOLDER, WINDOWS, Case, Result

PACKAGE = "PySiddhi==5.1.0"
STREAMS = " ".join(f"define stream {name} (ID long, V long, ts long);" for name in "ABCD")
BY_ID = "partition with (ID of A, ID of B, ID of C) begin {} end;"
#: Longest run of B's in patterns. Siddhi's patterns have no subsets, so there is one pattern for each length.
LONGEST = 8


class Siddhi:
    """A Java program that sends every event to the stream of its type."""

    clock = "from the first to the last event sent from an array in memory; a callback counts the matches"
    semantics = ALL

    def __init__(self, name: str, app: Callable[[str], str], cases: dict[str, Case]) -> None:
        self.name = name
        self.app = app
        self.cases = cases

    def available(self) -> str | None:
        absent = not any((FOLDER / "siddhi").glob("siddhi-core-*.jar"))
        return jvm.missing() or (f"the jars of {PACKAGE} are missing (--setup)" if absent else None)

    def setup(self) -> None:
        jvm.fetch_jars(PACKAGE, r"__PySiddhiProxy/target/lib/.*\.jar", "siddhi")

    def version(self) -> str:
        core = next((FOLDER / "siddhi").glob("siddhi-core-*.jar")).stem.removeprefix("siddhi-core-")
        return f"Siddhi {core}, {jvm.java_version()}"

    def run(self, query: str, events: pa.Table) -> Result:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "events")
            jvm.write_events(events, file)
            arguments = [str(file), str(self.cases[query].runs), f"{STREAMS} {self.app(query)}"]
            return jvm.run_java("siddhi", "SiddhiQueries", ["Stream"], arguments)


def pattern(query: str) -> str:
    """Return a query as patterns; ``every`` before each element gives skip till any match.

    ``within`` alone does not exclude all longer matches, so the conditions also state the window. The output stream has
    one schema, so only the first B of a longer run is returned.
    """
    window = WINDOWS[query]
    near = f"ts - a.ts <= {window}"
    ten = "V == 10 and " if query == "QS" else ""
    of_b = "V == a.V and " if query == "QK" else ""
    of_c = "V == a.V + b1.V and " if query in ("Q1", "Q1s") else ""
    texts = []
    for length in range(1, LONGEST + 1 if query == "QK" else 2):
        elements = [f"every a=A{'[V == 10]' if ten else ''}"]
        elements += [f"every b{i}=B[{ten}{of_b}{near}]" for i in range(1, length + 1)]
        elements += [f"every c=C[{ten}{of_c}{near}] within {window} milliseconds"]
        texts.append(f"from {' -> '.join(elements)} select a.ts as a, b1.ts as b, c.ts as c insert into Matches;")
    return BY_ID.format(" ".join(texts))


def joins(query: str) -> str:
    """Return a query as joins: B joins the A's of the window, C the pairs; in QK, B also joins the existing runs.

    A run of QK is stored as its first and last event. Partitions by ID are faster only for the long window.
    """
    window, ten, by_id = WINDOWS[query], query == "QS", query == "Q1"
    a, b, c = (f"{x}10" for x in "ABC") if ten else "ABC"
    runs = "#Runs" if by_id else "Runs"
    buffer = f"#window.externalTime(ts, {window + 1})"
    value = "b.V" if query == "QK" else "a.V + b.V"
    of_b = " and a.V == b.V" if query == "QK" else ""
    of_c = " and r.V == c.V" if query in ("Q1", "Q1s") else ""
    texts = [f"from {x}[V == 10] select * insert into {x}10;" for x in "ABC"] if ten else []
    texts.append(
        f"from {b} as b unidirectional join {a}{buffer} as a on a.ID == b.ID and b.ts - a.ts <= {window}{of_b} "
        f"select b.ID as ID, {value} as V, a.ts as first, b.ts as ts insert into {runs};"
    )
    if query == "QK":
        texts.append(
            f"from {b} as b unidirectional join {runs}{buffer} as r on r.ID == b.ID and r.V == b.V and b.ts > r.ts and "
            f"b.ts - r.first <= {window} select b.ID as ID, b.V as V, r.first as first, b.ts as ts insert into {runs};"
        )
    texts.append(
        f"from {c} as c unidirectional join {runs}{buffer} as r on r.ID == c.ID and c.ts - r.first <= {window}{of_c} "
        "select r.first as a, r.ts as b, c.ts as c insert into Matches;"
    )
    return BY_ID.format(" ".join(texts)) if by_id else " ".join(texts)


PATTERNS = Siddhi(
    "Siddhi patterns",
    pattern,
    {"Q1": Case(100_000, 4), "Q1s": Case(300_000, 4), "QS": Case(300_000, 4), "QK": Case(50_000, 4)},
)
JOINS = Siddhi("Siddhi joins", joins, {"Q1": Case(300_000, 4), "Q1s": Case(runs=4), "QS": Case(), "QK": Case(runs=4)})
