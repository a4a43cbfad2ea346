"""The queries Qpm1 to Qpm3 of the paper: their matches and states against counts of pairs of events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fastcep as fc
from bench.migration.real import DATA, SOURCES, key_states
from fastcep import datasets

PAPERS = Path(__file__).resolve().parents[2] / "examples" / "papers"
DAY, HOUR = 86_400_000, 3_600_000


def query(name: str, *swaps: tuple[str, str]) -> fc.Query:
    text = (PAPERS / f"{name}.cep").read_text(encoding="utf-8")
    for old, new in swaps:
        assert old in text
        text = text.replace(old, new)
    return fc.parse_document(text).queries[0]


def counted(table: pa.Table, key: str, ends: pa.Array, window: int, cut: int) -> tuple[int, dict[int, int]]:
    """Return the number of matches, and by key the number of those that a cut divides.

    A match is an event and a later one of the same key within the window, which ends it; the events of the key between
    them belong to it.
    """
    total, divided = 0, {}
    codes = table[key].combine_chunks().dictionary_encode().indices.to_numpy()
    times, is_end = table["ts"].to_numpy(), np.asarray(ends)
    for value in np.unique(codes):
        rows = np.flatnonzero(codes == value)
        last = rows[is_end[rows]]
        first = np.searchsorted(times[rows], times[last] - window, side="left")
        place = np.searchsorted(rows, last)
        total += int((place - first).sum())
        if rows[0] < cut:
            before = int(np.searchsorted(rows, cut))
            later = last >= cut
            divided[int(value)] = int(np.clip(before - first[later], 0, None).sum())
    return total, divided


def check(name: str, found: fc.Query, table: pa.Table, ends: pa.Array, window: int) -> int:
    """Compare matches, states and later matches with those counted; return the number of matches."""
    key, cut = SOURCES[name].key, table.num_rows // 2
    total, divided = counted(table, key, ends, window, cut)
    engine = fc.Engine(found)
    assert sum(len(engine.process(part)) for part in table.to_batches(max_chunksize=500)) == total
    states = key_states(found, table, key, cut)
    codes = table[key].combine_chunks().dictionary_encode().indices.to_numpy()[:cut]
    recent = table["ts"].to_numpy()[:cut] >= table["ts"][cut - 1].as_py() - window
    keys, events = np.unique(codes[recent], return_counts=True)
    assert sorted(zip(states.events.tolist(), states.matches.tolist(), strict=True)) == sorted(
        zip(events.tolist(), [divided[int(value)] for value in keys], strict=True)
    )
    assert (states.size > 24 * states.events).all()
    return total


def test_qpm1_on_trips_of_the_bay_area() -> None:
    trips = pq.read_table(datasets.path("bayarea_2014")).slice(100_000, 20_000)
    columns = [trips[name].cast(pa.int64()) for name in ("bike_id", "start_terminal", "end_terminal", "start_date")]
    table = pa.table(columns, names=["bike", "start", "end", "ts"])
    found = check("Qpm1", query("migration_q1", ("3186", "70")), table, pc.equal(table["end"], 70), DAY)
    assert found > 1_000


@pytest.mark.parametrize(("name", "key"), [("Qpm2", "operator"), ("Qpm3", "vehicle")])
def test_qpm2_and_qpm3_on_drawn_reports(name: str, key: str) -> None:
    random = np.random.default_rng(5)
    table = pa.table({
        "vehicle": random.integers(0, 40, 2_000), "operator": random.choice(["PO", "HN", "RD"], 2_000),
        "block": random.choice([67002, 1, 2], 2_000, p=[0.01, 0.5, 0.49]), "ts": np.arange(2_000) * 20_000,
    })  # fmt: skip
    assert check(name, query(f"migration_q{name[-1]}"), table, pc.equal(table["block"], 67002), HOUR) > 50


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "matches", "states"), [("Qpm1", 15_391, 361), ("Qpm2", 151_244, 8), ("Qpm3", 8_778, 172)]
)
def test_the_queries_on_real_data(name: str, matches: int, states: int) -> None:
    source = SOURCES[name]
    if not (DATA / source.file).exists():
        pytest.skip(f"no {source.file} in the folder that FASTCEP_SHARED names")
    table = source.table()
    ends = pc.equal(table["end"], 3186) if name == "Qpm1" else pc.equal(table["block"], 67002)
    assert check(name, query(source.query), table, ends, DAY if name == "Qpm1" else HOUR) == matches
    cut = key_states(query(source.query), table, source.key, table.num_rows // 2)
    assert len(cut.size) == states
