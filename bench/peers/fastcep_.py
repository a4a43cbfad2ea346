"""fastcep, the reference for times and numbers of matches."""

from __future__ import annotations

from importlib.metadata import version

import pyarrow as pa

import fastcep as fc
from bench.peers.protocol import ALL, Case, Result, query_text, timed
from bench.queries import QUERIES, SCHEMA, run


class Fastcep:
    """fastcep's engine, with the semantics of a peer."""

    name = "fastcep"
    clock = "an Arrow table in, matches as an Arrow table out; the engine is created inside, its kernels before"

    def __init__(self, semantics: str = ALL) -> None:
        self.semantics = semantics
        self.cases = {query: Case(runs=10) for query in QUERIES}

    def available(self) -> str | None:
        return None

    def setup(self) -> None:
        pass

    def version(self) -> str:
        return version("fastcep")

    def run(self, query: str, events: pa.Table) -> Result:
        parsed = fc.parse(query_text(query, self.semantics), SCHEMA, name=query.lower())
        fc.Engine(parsed).compile("5min")
        return timed(lambda: run(parsed, events), self.cases[query].runs)
