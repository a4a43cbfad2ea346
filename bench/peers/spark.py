"""PySpark: a self-join, in a separate virtual environment."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.peers import jvm
from bench.peers.protocol import ALL, FOLDER, Case, Result
from bench.peers.sql import self_join
from bench.queries import QUERIES

PACKAGE = "pyspark==4.3.0"
PYTHON = FOLDER / "spark" / "bin" / "python"
#: All subsets of the B's between an A and a C, one for each bit mask.
SUBSETS = """
    SELECT a, filter(b, (x, i) -> (shiftright(mask, i) & 1) = 1) AS b, c
    FROM (SELECT *, explode(sequence(1, shiftleft(1, size(b)) - 1)) AS mask
          FROM (SELECT a, c, sort_array(collect_list(b)) AS b FROM ({pairs}) GROUP BY a, c))
"""


class Spark:
    """A self-join over buckets of time, on one thread."""

    name = "PySpark self-join"
    clock = "a cached data frame in, matches (times of their events) into Spark's sink `noop`; planning inside"
    semantics = ALL
    cases = dict.fromkeys(QUERIES, Case(runs=4)) | {"Q1": Case(300_000, 3)}

    def available(self) -> str | None:
        if not Path("/proc/self/stat").exists():
            return "the CPU time of its Java process is read from /proc, which is missing"
        if jvm.tool("java") is None:
            return "no java (Debian: openjdk-17-jre-headless)"
        return None if PYTHON.exists() else f"{PACKAGE} is missing (--setup)"

    def setup(self) -> None:
        jvm.call([sys.executable, "-m", "venv", "--clear", str(PYTHON.parents[1])])
        jvm.call([str(PYTHON), "-m", "pip", "install", "--quiet", PACKAGE])

    def version(self) -> str:
        return f"Spark {PACKAGE.split('==')[1]}, {jvm.java_version()}"

    def run(self, query: str, events: pa.Table) -> Result:
        text = self_join(query)
        if query == "QK":
            text = SUBSETS.format(pairs=text)
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder, "events.parquet"))
            pq.write_table(events, file)
            job = str(Path(__file__).with_name("spark_job.py"))
            return jvm.result(jvm.call([str(PYTHON), job, file, str(self.cases[query].runs), text]))
