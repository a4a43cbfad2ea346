"""Flink CEP, with the jars of the wheel ``apache-flink-libraries``, which the wheel ``apache-flink`` uses."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa

from bench.peers import jvm
from bench.peers.protocol import ALL, FIRST, FOLDER, Case, Result

PACKAGE = "apache-flink-libraries==2.3.0"


class Flink:
    """A Java program; parallelism 1, objects reused, event time."""

    clock = "from the first event that the source (an array in memory) emits to the end of the job; start-up outside"

    def __init__(self, name: str, program: str, semantics: str, cases: dict[str, Case]) -> None:
        self.name = name
        self.program = program
        self.semantics = semantics
        self.cases = cases

    def available(self) -> str | None:
        absent = not any((FOLDER / "flink").glob("flink-cep-*.jar"))
        return jvm.missing() or (f"the jars of {PACKAGE} are missing (--setup)" if absent else None)

    def setup(self) -> None:
        jvm.fetch_jars(PACKAGE, r"pyflink/lib/.*\.jar", "flink")

    def version(self) -> str:
        return f"Flink {PACKAGE.split('==')[1]}, {jvm.java_version()}"

    def run(self, query: str, events: pa.Table) -> Result:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "events")
            jvm.write_events(events, file)
            arguments = [str(file), query, str(self.cases[query].runs)]
            return jvm.run_java("flink", self.program, ["Stream", "Flink"], arguments)


API = Flink(
    "Flink CEP, Java",
    "FlinkCep",
    ALL,
    {"Q1": Case(10_000, 3), "Q1s": Case(100_000, 4), "QS": Case(), "QK": Case(100_000, 4)},
)
SQL = Flink(
    "Flink SQL",
    "FlinkSql",
    FIRST,
    {"Q1": Case(2_000, 4), "Q1s": Case(20_000, 4), "QS": Case(200_000), "QK": Case(20_000, 4)},
)
