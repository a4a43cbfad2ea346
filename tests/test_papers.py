"""The papers' queries on explicit windows find the matches of loops over the windows (`paper_matches`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from reference import matcher as naive
from reference import paper_matches as pm
from reference.matcher import Event
from support.tables import SHARED

import fastcep as fc
from fastcep import datasets

ROOT = Path(__file__).resolve().parents[1]
PAPERS = ROOT / "examples" / "papers"
LEADING = ("AAPL", "MSFT", "GOOG", "FB", "INTC")  # technology blue chips
STRIKER = 10


def paper(name: str, *swaps: tuple[str, str]) -> fc.Query:
    """Return the shipped query with other sizes."""
    text = (PAPERS / f"{name}.cep").read_text(encoding="utf-8")
    for old, new in swaps:
        assert old in text
        text = text.replace(old, new)
    (query,) = fc.parse_document(text).queries
    return query


def found(query: fc.Query, table: pa.Table) -> list[pm.Match]:
    """Return the engine's matches, each with the places of all its events."""
    engine = fc.Engine(query)
    parts = [engine.process(part).to_arrow() for part in table.to_batches(max_chunksize=5_000)]
    rows = [row for part in [*parts, engine.flush().to_arrow()] for row in part.to_pylist()]
    rest = ("query", "window_id", "detected_at")
    return [(row["window_id"], places({key: row[key] for key in row if key not in rest})) for row in rows]


def places(bindings: Mapping[str, Any]) -> pm.Places:
    """Return the events of a match, whatever variables bind them."""
    bound = [value if isinstance(value, list) else [value] for value in bindings.values() if value is not None]
    return tuple(sorted(chain.from_iterable(bound)))


# ------------------------------------------- the counts that docs/datasets.md shows


@cache
def real(folder: str, name: str, derive: Callable[..., pa.Table], *options: Any) -> pa.Table:
    path = SHARED / folder / name
    if not path.exists():
        pytest.skip(f"no {name} in the folder that FASTCEP_SHARED names")
    return derive(path, *options)


def quotes() -> pa.Table:
    return real("stocks", "sp100_minute_bars_20181105_20181109.csv.gz", datasets.stock_events, LEADING)


def positions() -> pa.Table:
    return real("soccer", "tromso_anzhi_20131107_positions_20hz.csv.gz", datasets.soccer_events, STRIKER)


def buses() -> pa.Table:
    return real("dublinbus", "siri_20121130_0000_0040_10k.csv.gz", datasets.bus_events)


def passages() -> pa.Table:
    return real("tollgate", "trajectories_table_5_training_phase2.csv.gz", datasets.toll_events, "A-2")


@cache
def market() -> pa.Table:
    return datasets.market(100_000)


@cache
def soccer() -> pa.Table:
    return datasets.soccer(23 * 1_200)


@cache
def traffic() -> pa.Table:
    return datasets.traffic(5_000, rate=0.2)


Swaps = tuple[tuple[str, str], ...]


class Case(NamedTuple):
    """A query on a stream: changes of its text, the number of windows, and the matches."""

    query: str
    stream: Callable[[], pa.Table]
    swaps: Swaps
    opened: Callable[[pa.Table], int]
    compute: Callable[[pa.Table], list[pm.Match]]


def led(leaders: int) -> Callable[[pa.Table], int]:
    return lambda table: len(pm.leading(table, leaders))


def of_type(kind: str) -> Callable[[pa.Table], int]:
    return lambda table: table["type"].to_pylist().count(kind)


def every(slide: int) -> Callable[[pa.Table], int]:
    return lambda table: len(range(0, len(table), slide))


CASES = (
    Case("espice_q1", positions, (), of_type("STR"), lambda table: pm.espice_q1(table, 2)),
    Case("espice_q2", quotes, (), led(5), lambda table: pm.espice_q2(table, 20)),
    Case("espice_q3", quotes, (), led(5), lambda table: pm.espice_q3(table, 600)),
    Case("espice_q4", quotes, (), every(100), lambda table: pm.espice_q4(table, 600)),
    Case("pspice_q1", quotes, (), led(4), lambda table: pm.pspice_q1(table, 350)),
    Case("pspice_q2", quotes, (), led(4), lambda table: pm.pspice_q2(table, 600)),
    Case("pspice_q3", positions, (), of_type("STR"), lambda table: pm.pspice_q3(table, 2)),
    Case("pspice_q4", buses, (), every(500), lambda table: pm.pspice_q4(table, 2)),
    Case("overtaking", passages, (), of_type("Pos1"), pm.overtaking),
    Case("espice_q1", soccer, (), of_type("STR"), lambda table: pm.espice_q1(table, 2)),
    Case("espice_q2", market, (), led(5), lambda table: pm.espice_q2(table, 20)),
    Case("espice_q3", market, (), led(5), lambda table: pm.espice_q3(table, 600)),
    Case("espice_q4", market, (("600", "6000"),), every(100), lambda table: pm.espice_q4(table, 6_000)),
    Case("pspice_q1", market, (("350", "3500"),), led(4), lambda table: pm.pspice_q1(table, 3_500)),
    Case("pspice_q2", market, (("600", "6000"),), led(4), lambda table: pm.pspice_q2(table, 6_000)),
    Case("pspice_q3", soccer, (), of_type("STR"), lambda table: pm.pspice_q3(table, 2)),
    Case("overtaking", traffic, (), of_type("Pos1"), pm.overtaking),
)
EVERY_CASE = [
    pytest.param(
        case,
        id=f"{case.query} on {case.stream.__name__}",
        marks=pytest.mark.slow if case.stream in (market, soccer, traffic) else pytest.mark.shared,
    )
    for case in CASES
]


def shown() -> dict[tuple[str, str], list[int]]:
    """Return the figures of the page, by query and stream: windows, windows with a match, matches."""
    page = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|.*?((?: \| [\d,]+){3}) \|$", page, flags=re.MULTILINE)
    return {
        (query, stream): [int(count) for count in re.findall(r"\d+", counts.replace(",", ""))]
        for query, stream, counts in rows
    }


@cache
def expected(case: Case) -> list[pm.Match]:
    return sorted(case.compute(case.stream()))


def test_the_page_shows_every_case() -> None:
    assert list(shown()) == [(case.query, case.stream.__name__) for case in CASES]


@pytest.mark.parametrize("case", EVERY_CASE)
def test_counts_of_the_page(case: Case) -> None:
    matches = expected(case)
    assert len(set(matches)) == len(matches)
    windows = len({window for window, _ in matches})
    assert shown()[case.query, case.stream.__name__] == [case.opened(case.stream()), windows, len(matches)]


@pytest.mark.parametrize("case", EVERY_CASE)
def test_matches(case: Case) -> None:
    assert sorted(found(paper(case.query, *case.swaps), case.stream())) == expected(case)


# ------------------------------------------------- small synthetic streams


def reports(rows: int) -> pa.Table:
    """Make reports of 8 buses at 5 stops; a third of them is delayed."""
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "type": np.where(rng.random(rows) < 0.33, "DE", "BE"),
            "vehicle": rng.integers(0, 8, rows),
            "stop": rng.integers(0, 5, rows),
            "ts": np.sort(rng.integers(0, 1_000_000, rows)),
        }
    )


def small_market(events: int) -> pa.Table:
    return datasets.market(events, 7, symbols=50)


SYNTHETIC: dict[str, tuple[str, Swaps, Callable[[], pa.Table], Callable[[pa.Table], list[pm.Match]]]] = {
    "espice_q1": ("espice_q1", (), lambda: datasets.soccer(23 * 150), lambda table: pm.espice_q1(table, 2)),
    "espice_q1 of 4": (
        "espice_q1",
        (("ANY(2,", "ANY(4,"),),
        lambda: datasets.soccer(23 * 150),
        lambda table: pm.espice_q1(table, 4),
    ),
    "espice_q2": (
        "espice_q2",
        (("ANY(20,", "ANY(30,"), ("240s", "60s")),
        lambda: small_market(2_000),
        lambda table: pm.espice_q2(table, 30, 60_000),
    ),
    "espice_q3": ("espice_q3", (("600", "200"),), lambda: small_market(3_000), lambda table: pm.espice_q3(table, 200)),
    "espice_q4": ("espice_q4", (("600", "700"),), lambda: small_market(4_000), lambda table: pm.espice_q4(table, 700)),
    "pspice_q1": ("pspice_q1", (("350", "150"),), lambda: small_market(2_000), lambda table: pm.pspice_q1(table, 150)),
    "pspice_q2": ("pspice_q2", (("600", "700"),), lambda: small_market(3_000), lambda table: pm.pspice_q2(table, 700)),
    "pspice_q3": ("pspice_q3", (), lambda: datasets.soccer(23 * 120), lambda table: pm.pspice_q3(table, 2)),
    "pspice_q4": (
        "pspice_q4",
        (("ANY(2,", "ANY(3,"), ("8000", "300"), ("500", "50")),
        lambda: reports(1_000),
        lambda table: pm.pspice_q4(table, 3, 300, 50),
    ),
    "overtaking": ("overtaking", (), lambda: datasets.traffic(1_000, rate=0.1), pm.overtaking),
}


@pytest.mark.parametrize("case", SYNTHETIC)
def test_synthetic_streams(case: str) -> None:
    name, swaps, table, compute = SYNTHETIC[case]
    stream = table()
    matches = found(paper(name, *swaps), stream)
    assert len(matches) > 10
    assert sorted(matches) == sorted(compute(stream))


@pytest.mark.parametrize("name", ["espice_q1", "espice_q2", "espice_q3", "espice_q4"])
def test_the_last_match_instead_of_the_first(name: str) -> None:
    """One match per window, with the same first event, made of the newest events."""
    stream, swaps, compute = {
        "espice_q1": (datasets.soccer(23 * 150), (), lambda table: pm.espice_q1(table, 2, select="last")),
        "espice_q2": (small_market(1_000), (), lambda table: pm.espice_q2(table, 20, select="last")),
        "espice_q3": (small_market(3_000), (("600", "200"),), lambda table: pm.espice_q3(table, 200, "last")),
        "espice_q4": (small_market(4_000), (("600", "700"),), lambda table: pm.espice_q4(table, 700, 100, "last")),
    }[name]
    last = sorted(found(paper(name, *swaps, ("SELECT first", "SELECT last")), stream))
    assert last == sorted(compute(stream))
    first = found(paper(name, *swaps), stream)
    assert [(window, match[-1]) for window, match in last] == sorted((window, match[-1]) for window, match in first)


TINY: dict[str, tuple[Callable[[], pa.Table], Swaps, Callable[[pa.Table], list[pm.Match]]]] = {
    "espice_q1": (lambda: datasets.soccer(23 * 60), (), lambda table: pm.espice_q1(table, 2)),
    "espice_q2": (
        lambda: datasets.market(150, 7, symbols=20),
        (("ANY(20,", "ANY(4,"), ("240s", "30s")),
        lambda table: pm.espice_q2(table, 4, 30_000),
    ),
    "espice_q3": (
        lambda: datasets.market(100, 7, symbols=25, leaders=1, influence=0.95, persistence=0.95),
        (("600", "60"),),
        lambda table: pm.espice_q3(table, 60),
    ),
    "espice_q4": (
        lambda: datasets.market(150, 7, symbols=16, leaders=1, influence=0.95, persistence=0.95),
        (("600", "110"), ("100", "10")),
        lambda table: pm.espice_q4(table, 110, 10),
    ),
    "pspice_q1": (
        lambda: datasets.market(150, 7, symbols=16),
        (("350", "60"),),
        lambda table: pm.pspice_q1(table, 60),
    ),
    "pspice_q3": (lambda: datasets.soccer(23 * 60), (), lambda table: pm.pspice_q3(table, 2)),
    "pspice_q4": (
        lambda: reports(200),
        (("ANY(2,", "ANY(3,"), ("8000", "60"), ("500", "25")),
        lambda table: pm.pspice_q4(table, 3, 60, 25),
    ),
    "overtaking": (lambda: datasets.traffic(60, rate=0.05, length=5.0, fast=0.4), (), pm.overtaking),
}


@pytest.mark.sample("espice_q1", "espice_q2", "pspice_q3", "overtaking")
@pytest.mark.parametrize("name", TINY)
def test_the_loops_find_what_the_reference_matcher_finds(name: str) -> None:
    stream, swaps, compute = TINY[name]
    query, table = paper(name, *swaps), stream()
    events = []
    for row in table.to_pylist():
        values = {attribute: row[attribute] for attribute in query.schema.attributes(row["type"])}
        events.append(Event(row["type"], row["ts"] * 1_000_000, len(events), values))
    matches = [(match.window_id, places(match.bindings)) for match in naive.find_matches(query, events)]
    assert len(matches) >= 3
    assert sorted(matches) == sorted(compute(table))


def test_who_has_overtaken_whom() -> None:
    """Computed from the passages themselves."""
    stream = datasets.traffic(1_000, rate=0.1)
    seen: dict[str, dict[int, int]] = {"Pos1": {}, "Pos2": {}}
    for place, row in enumerate(stream.to_pylist()):
        seen[row["type"]][row["vehicle"]] = place
    entered, left = seen["Pos1"], seen["Pos2"]
    end = len(stream)
    pairs = {
        (entered[a], entered[b], left[b])
        for a in entered
        for b in left
        if entered[a] < entered[b] and left[b] < left.get(a, end)
    }
    assert {match for _, match in pm.overtaking(stream)} == pairs
