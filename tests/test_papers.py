"""The papers' queries on explicit windows: the matches are those of loops over the windows (`paper_matches`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import paper_matches as pm
import pyarrow as pa
import pytest
from test_real_data import ROOT, SHARED

import fastcep as fc
from fastcep import datasets

PAPERS = ROOT / "examples" / "papers"
LEADING = ("AAPL", "MSFT", "GOOG", "FB", "INTC")  # technology blue chips
STRIKER = 10


def paper(name: str, *swaps: tuple[str, str]) -> fc.Query:
    """The query as it ships, with other sizes."""
    text = (PAPERS / f"{name}.cep").read_text(encoding="utf-8")
    for old, new in swaps:
        assert old in text
        text = text.replace(old, new)
    (query,) = fc.parse_document(text).queries
    return query


def found(query: fc.Query, table: pa.Table) -> list[pm.Match]:
    """The engine's matches, each with the places of all its events."""
    engine = fc.Engine(query)
    parts = [engine.process(part).to_arrow() for part in table.to_batches(max_chunksize=5_000)]
    rows = [row for part in [*parts, engine.flush().to_arrow()] for row in part.to_pylist()]
    matches = []
    for row in rows:
        bound: list[int] = []
        for name, value in row.items():
            if name not in ("query", "window_id", "detected_at") and value is not None:
                bound += value if isinstance(value, list) else [value]
        matches.append((row["window_id"], tuple(sorted(bound))))
    return matches


# ---------------------------------------------------------------- real streams


@cache
def real(folder: str, name: str, **options: Any) -> pa.Table:
    path = SHARED / "data" / folder / name
    if not path.exists():
        pytest.skip(f"no {name} in the folder that FASTCEP_SHARED names")
    derive = {
        "stocks": datasets.stock_events,
        "soccer": datasets.soccer_events,
        "dublinbus": datasets.bus_events,
        "tollgate": datasets.toll_events,
    }[folder]
    return derive(path, **options)  # type: ignore[operator]


def quotes() -> pa.Table:
    return real("stocks", "sp100_minute_bars_20181105_20181109.csv.gz", leading=LEADING)


def positions() -> pa.Table:
    return real("soccer", "tromso_anzhi_20131107_positions_20hz.csv.gz", striker=STRIKER)


def buses() -> pa.Table:
    return real("dublinbus", "siri_20121130_0000_0040_10k.csv.gz")


def tolls() -> pa.Table:
    return real("tollgate", "trajectories_table_5_training_phase2.csv.gz", route="A-2")


REAL: dict[str, tuple[Callable[[], pa.Table], Callable[[pa.Table], list[pm.Match]], int]] = {
    "espice_q1": (positions, lambda table: pm.espice_q1(table, 2), 94),
    "espice_q2": (quotes, lambda table: pm.espice_q2(table, 20), 9_277),
    "espice_q3": (quotes, lambda table: pm.espice_q3(table, 600), 4_127),
    "espice_q4": (quotes, lambda table: pm.espice_q4(table, 600), 303),
    "pspice_q1": (quotes, lambda table: pm.pspice_q1(table, 350), 12_184),
    "pspice_q2": (quotes, lambda table: pm.pspice_q2(table, 600), 3_312),
    "pspice_q3": (positions, lambda table: pm.pspice_q3(table, 2), 1_037),
    "pspice_q4": (buses, lambda table: pm.pspice_q4(table, 2), 519),
    "overtaking": (tolls, pm.overtaking, 540),
}


@cache
def wanted(name: str) -> list[pm.Match]:
    table, compute, _ = REAL[name]
    return sorted(compute(table()))


@pytest.mark.shared
@pytest.mark.parametrize("name", REAL)
def test_counts_of_real_streams(name: str) -> None:
    assert len(wanted(name)) == len(set(wanted(name))) == REAL[name][2]


@pytest.mark.shared
@pytest.mark.parametrize("name", REAL)
def test_real_streams(name: str) -> None:
    assert sorted(found(paper(name), REAL[name][0]())) == wanted(name)


def test_the_page_has_these_counts() -> None:
    page = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.* ([\d,]+) \|$", page, flags=re.MULTILINE)
    shown = {name: int(count.replace(",", "")) for name, count in rows if name in REAL}
    assert shown == {name: count for name, (_, _, count) in REAL.items()}


# ----------------------------------------------------------- synthetic streams


def reports(rows: int) -> pa.Table:
    """Reports of 8 buses at 5 stops; a third of them delayed."""
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "type": np.where(rng.random(rows) < 0.33, "DE", "BE"),
            "vehicle": rng.integers(0, 8, rows),
            "stop": rng.integers(0, 5, rows),
            "ts": np.sort(rng.integers(0, 1_000_000, rows)),
        }
    )


def market(events: int) -> pa.Table:
    return datasets.market(events, 7, symbols=50)


Swaps = list[tuple[str, str]]
SYNTHETIC: dict[str, tuple[str, Swaps, Callable[[], pa.Table], Callable[[pa.Table], list[pm.Match]]]] = {
    "espice_q1": ("espice_q1", [], lambda: datasets.soccer(23 * 150), lambda table: pm.espice_q1(table, 2)),
    "espice_q1 of 4": (
        "espice_q1",
        [("ANY(2,", "ANY(4,")],
        lambda: datasets.soccer(23 * 150),
        lambda table: pm.espice_q1(table, 4),
    ),
    "espice_q2": (
        "espice_q2",
        [("ANY(20,", "ANY(30,"), ("240s", "60s")],
        lambda: market(2_000),
        lambda table: pm.espice_q2(table, 30, 60_000),
    ),
    "espice_q3": ("espice_q3", [("600", "200")], lambda: market(3_000), lambda table: pm.espice_q3(table, 200)),
    "espice_q4": ("espice_q4", [("600", "700")], lambda: market(4_000), lambda table: pm.espice_q4(table, 700)),
    "pspice_q1": ("pspice_q1", [("350", "150")], lambda: market(2_000), lambda table: pm.pspice_q1(table, 150)),
    "pspice_q2": ("pspice_q2", [("600", "700")], lambda: market(3_000), lambda table: pm.pspice_q2(table, 700)),
    "pspice_q3": ("pspice_q3", [], lambda: datasets.soccer(23 * 120), lambda table: pm.pspice_q3(table, 2)),
    "pspice_q4": (
        "pspice_q4",
        [("ANY(2,", "ANY(3,"), ("8000", "300"), ("500", "50")],
        lambda: reports(1_000),
        lambda table: pm.pspice_q4(table, 3, 300, 50),
    ),
    "overtaking": ("overtaking", [], lambda: datasets.traffic(1_000, rate=0.1), pm.overtaking),
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
    """One match a window, from the same event; made of the newest events."""
    stream, swaps, compute = {
        "espice_q1": (datasets.soccer(23 * 150), [], lambda table: pm.espice_q1(table, 2, select="last")),
        "espice_q2": (market(1_000), [], lambda table: pm.espice_q2(table, 20, select="last")),
        "espice_q3": (market(3_000), [("600", "200")], lambda table: pm.espice_q3(table, 200, "last")),
        "espice_q4": (market(4_000), [("600", "700")], lambda table: pm.espice_q4(table, 700, 100, "last")),
    }[name]
    last = sorted(found(paper(name, *swaps, ("SELECT first", "SELECT last")), stream))
    assert last == sorted(compute(stream))
    first = found(paper(name, *swaps), stream)
    assert [(window, match[-1]) for window, match in last] == sorted((window, match[-1]) for window, match in first)


def test_who_has_overtaken_whom() -> None:
    """As known from the passages themselves."""
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
