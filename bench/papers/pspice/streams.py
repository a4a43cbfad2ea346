"""Queries and streams of the pSPICE paper: generated ones, and real ones that do not ship with the package."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

import fastcep as fc
from bench.papers.data import EXAMPLES, SEED, SHARED
from bench.papers.real_streams import repeated
from fastcep.datasets import bus_events, market, soccer
from fastcep.datasets.derived import BUSES, names_of

__all__ = [
    "BUS_REPORTS", "SYMBOLS", "buses", "changing_quotes", "positions", "q1", "q1_and_q2", "q2", "q3", "q4", "quotes",
    "real_buses",
]  # fmt: skip

BUS_REPORTS = SHARED / "dublinbus" / "siri_20121130_0000_0040_10k.csv.gz"
_EARLIER_BUS_REPORTS = SHARED / "dublinbus" / "siri_20130131_0000_0603_10k.csv.gz"
#: Number of symbols of the generated quotes, as in the real ones; the paper has 500, and windows ten times as long.
SYMBOLS = 50
#: Probability that a symbol follows its leader; with the default of 0.8, too many sequences of Q1 complete.
_INFLUENCE = 0.65
#: Distance in metres within which a player defends.
_REACH = 6.0
#: Delay in s from which a real bus counts as delayed: at night few buses are a minute late.
_DELAY = 0


@cache
def _query(name: str, old: str, new: str) -> fc.Query:
    """Return a shipped query with another size."""
    text = (EXAMPLES / f"pspice_{name}.cep").read_text(encoding="utf-8")
    assert text.count(old) == 1
    return fc.parse_document(text.replace(old, new)).queries[0]


def q1(window: int) -> fc.Query:
    """Return Q1, a sequence of 10 rising or of 10 falling symbols, in windows of a number of events."""
    return _query("q1", "CLOSE AFTER 350 EVENTS", f"CLOSE AFTER {window} EVENTS")


def q2(window: int) -> fc.Query:
    """Return Q2, a sequence with repetitions, in windows of a number of events."""
    return _query("q2", "CLOSE AFTER 600 EVENTS", f"CLOSE AFTER {window} EVENTS")


def q3(n: int) -> fc.Query:
    """Return Q3, any n defenders against a striker."""
    return _query("q3", "ANY(2,", f"ANY({n},")


def q4(n: int) -> fc.Query:
    """Return Q4, any n buses that are delayed at one stop."""
    return _query("q4", "ANY(2,", f"ANY({n},")


@cache
def q1_and_q2(compared: int, window: int) -> tuple[fc.Query, fc.Query]:
    """Return Q1 and Q2 such that a partial match of Q1 takes longer.

    In Q2 a partial match is compared with the quotes of the next symbol only. In Q1 it is compared with those of
    several symbols, of which the last condition accepts the next symbol.

    Parameters
    ----------
    compared
        Number of symbols whose quotes a partial match of Q1 is compared with.
    window
        Number of events in a window of both queries.
    """
    text = (EXAMPLES / "pspice_q1.cep").read_text(encoding="utf-8")
    for variable in "rf":
        for step in range(2, 11):
            name, before, symbol = f"{variable}{step}", f"{variable}{step - 1}", step + 4
            text = text.replace(
                f"{name}.number = {symbol}",
                f"{name}.number >= {symbol} AND {name}.number < {symbol + compared} AND "
                f"{name}.number - {before}.number = 1",
            )
    (first,) = fc.parse_document(text.replace("350 EVENTS", f"{window} EVENTS")).queries
    return first, q2(window)


def quotes(events: int, seed: int = SEED, symbols: int = SYMBOLS) -> pa.Table:
    """Generate quotes."""
    return market(events, seed, symbols=symbols, influence=_INFLUENCE)


def changing_quotes(events: int, seed: int = SEED) -> pa.Table:
    """Generate quotes of which many that fall count as unchanged, and after two fifths many of those that rise."""
    change = 2 * events // 5
    table = quotes(events, seed)
    before, after = (_thinned(table, kind, seed) for kind in ("FE", "RE"))
    return pa.concat_tables([before.slice(0, change), after.slice(change)]).combine_chunks()


def rising_quotes(events: int, seed: int = SEED) -> pa.Table:
    """Generate quotes as before the change of `changing_quotes`."""
    return _thinned(quotes(events, seed), "FE", seed)


def positions(events: int, seed: int = SEED) -> pa.Table:
    """Generate positions of two teams."""
    return soccer(events, seed, reach=_REACH)


def buses(
    events: int, seed: int = SEED, *, vehicles: int = 400, stops: int = 200, begins: float = 0.01, ends: float = 0.04
) -> pa.Table:
    """Generate reports of buses, one of each bus in every 20 s, on one circular line with stops that are congested.

    A bus drives to the next stop with probability 0.25 in each report. At a congested stop it is delayed with
    probability 0.8, elsewhere with 0.05.

    Parameters
    ----------
    events, seed
        Number of reports, and seed of the generator.
    vehicles, stops
        Numbers of buses and stops.
    begins, ends
        Probability in each 20 s that a stop becomes congested, and that its congestion ends.
    """
    random = np.random.default_rng(seed)
    rounds = -(-events // vehicles)
    place, congested = random.integers(0, stops, vehicles), random.random(stops) < begins / (begins + ends)
    stop, late = np.empty((rounds, vehicles), np.int64), np.empty((rounds, vehicles), np.bool_)
    for number in range(rounds):
        congested = np.where(congested, random.random(stops) >= ends, random.random(stops) < begins)
        place = (place + (random.random(vehicles) < 0.25)) % stops
        stop[number], late[number] = place, random.random(vehicles) < np.where(congested[place], 0.8, 0.05)
    report, is_late = np.arange(events), late.ravel()[:events]
    columns = [
        names_of(["BE", "DE"], is_late.astype(np.int64)), report % vehicles, stop.ravel()[:events],
        pa.array(np.ones(events, np.bool_)), np.where(is_late, 120, 0), report * 20_000 // vehicles,
    ]  # fmt: skip
    return pa.table(columns, schema=BUSES)


def real_buses(events: int, *, history: bool = False) -> pa.Table:
    """Return real reports of buses again and again or, as history, those of another day."""
    table = bus_events(_EARLIER_BUS_REPORTS if history else BUS_REPORTS, _DELAY)
    return table.slice(0, events) if history else repeated(table, events)


def _thinned(table: pa.Table, kind: str, seed: int) -> pa.Table:
    """Return quotes of which three tenths of one type become unchanged."""
    kinds = table["type"].to_numpy(zero_copy_only=False)
    chosen = (kinds == kind) & (np.random.default_rng(seed).random(len(table)) < 0.3)
    names = pa.array(np.where(chosen, "QE", kinds).astype(object), pa.string())
    return table.set_column(0, "type", names)
