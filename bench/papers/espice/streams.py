"""Queries and streams of the eSPICE paper.

As in the paper, the event type is the symbol of a quote, or the player of a position. The queries are those in
``examples/papers/``, where the type is the move of the quote, or the role of the player.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import fastcep as fc
from bench.papers import real_streams
from bench.papers.data import SEED
from bench.papers.real_streams import STRIKER
from fastcep.datasets import market, soccer

__all__ = [
    "Q3_SYMBOLS", "Q4_SYMBOLS", "REAL_SYMBOLS", "SYMBOLS", "by_player", "by_symbol", "positions", "q1", "q2", "q3",
    "q4", "quotes", "real_positions", "real_q1", "real_quotes",
]  # fmt: skip

#: Numbers of generated symbols: 500 in Q2, as in the paper; 100 in Q3. A match of Q4 has four quotes of one symbol, one
#: a minute, and others between them, so with 500 symbols hardly any would fit into a window of 2,000 events.
SYMBOLS, Q3_SYMBOLS, Q4_SYMBOLS = 500, 100, 25
#: Number of symbols of the real quotes.
REAL_SYMBOLS = 50
#: Numbers of the symbols of Q3, and of Q4 with repetitions.
_ROW = tuple(range(5, 25))
_REPEATED = tuple(number + 4 for number in (1, 1, 2, 3, 2, 4, 2, 5, 6, 7, 2, 8, 9, 10))
_LEADERS = tuple(range(5))
#: Players of the generated match, and its strikers.
_PLAYERS, _STRIKERS = tuple(range(1, 23)), (11, 22)
#: Players in the real positions.
_REAL_PLAYERS = (1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 15, 16)
#: Distance in metres within which a player defends: at most four opponents run at the player with the ball, so shorter
#: distances have hardly any match of n = 6.
_REACH = 20.0
_ROLES = ("PO", "DF", "STR")


def q1(
    n: int, select: str = "first", seconds: float = 15, *, players: Sequence[int] = _PLAYERS,
    strikers: Sequence[int] = _STRIKERS,
) -> fc.Query:  # fmt: skip
    """Return Q1: any n players defend against a striker after he has the ball."""
    return _q1(n, select, seconds, tuple(players), tuple(strikers))


def real_q1(n: int, select: str = "first") -> fc.Query:
    """Return Q1 for the real positions."""
    return q1(n, select, players=_REAL_PLAYERS, strikers=(STRIKER,))


@cache
def _q1(n: int, select: str, seconds: float, players: tuple[int, ...], strikers: tuple[int, ...]) -> fc.Query:
    all_players, with_ball = _any(_player, players), _any(_player, strikers)
    return _query(
        "espice_q1",
        (_player(number) for number in sorted({*players, *strikers, 0})),
        "role int64, player int64, striker int64",
        f"SEQ({with_ball} s, ANY({n}, {all_players} d[] DISTINCT player))",
        "s.role = 2 AND d[i].role = 1 AND d[i].striker = s.player",
        f"OPEN ON {with_ball} o WHERE o.role = 2 CLOSE AFTER {_seconds(seconds)}",
        select,
    )


@cache
def q2(n: int, select: str = "first", seconds: float = 240, symbols: int = SYMBOLS) -> fc.Query:
    """Return Q2: any n symbols rise, or any n fall, after a move of a leading symbol."""
    every, leading = _any(_symbol, range(symbols)), _any(_symbol, _LEADERS)
    alternatives = (f"SEQ({leading} m{move}, ANY({n}, {every} {move}[] DISTINCT number))" for move in "rf")
    return _query(
        "espice_q2",
        map(_symbol, range(symbols)),
        "move int64, number int64",
        f"OR({', '.join(alternatives)})",
        "mr.move != 0 AND r[i].move = 1 AND mf.move != 0 AND f[i].move = -1",
        f"{_on_leading_move()} CLOSE AFTER {_seconds(seconds)}",
        select,
    )


@cache
def q3(window: int, select: str = "first", symbols: int = Q3_SYMBOLS) -> fc.Query:
    """Return Q3: 20 symbols rise, or fall, one after another, in windows of a number of events."""
    return _sequence("espice_q3", _ROW, f"{_on_leading_move()} CLOSE AFTER {window} EVENTS", select, symbols)


@cache
def q4(window: int, select: str = "first", symbols: int = Q4_SYMBOLS) -> fc.Query:
    """Return Q4: 10 symbols rise, or fall, in an order with repetitions, in windows of a number of events."""
    return _sequence(
        "espice_q4", _REPEATED, f"OPEN EVERY 100 EVENTS CLOSE AFTER {window} EVENTS", select, symbols
    )  # fmt: skip


def quotes(events: int, seed: int = SEED, symbols: int = SYMBOLS) -> pa.Table:
    """Generate quotes whose type is the symbol."""
    return by_symbol(market(events, seed, symbols=symbols))


def positions(events: int, seed: int = SEED) -> pa.Table:
    """Generate positions of two teams whose type is the player."""
    return by_player(soccer(events, seed, reach=_REACH))


def real_quotes(events: int, *, history: bool = False) -> pa.Table:
    """Return real quotes whose type is the symbol."""
    return by_symbol(real_streams.real_quotes(events, history=history))


def real_positions(events: int, *, history: bool = False) -> pa.Table:
    """Return real positions whose type is the player."""
    return by_player(real_streams.real_positions(events, history=history))


def by_symbol(table: pa.Table) -> pa.Table:
    """Return quotes with the symbol as type, and the move (-1, 0 or 1) as an attribute."""
    kinds = table["type"].to_numpy(zero_copy_only=False)
    return pa.table(
        {
            "type": _names(_symbol, table["number"]),
            "move": np.where(kinds == "RE", 1, np.where(kinds == "FE", -1, 0)),
            "number": table["number"],
            "ts": table["ts"],
        }
    )


def by_player(table: pa.Table) -> pa.Table:
    """Return positions with the player as type, and the role (0 none, 1 defender, 2 striker) as an attribute."""
    return pa.table(
        {
            "type": _names(_player, table["player"]),
            "role": pc.index_in(table["type"], value_set=pa.array(_ROLES)).cast(pa.int64()),
            "player": table["player"],
            "striker": pc.fill_null(table["striker"], 0),
            "ts": table["ts"],
        }
    )


def _sequence(name: str, numbers: Sequence[int], window: str, select: str, symbols: int) -> fc.Query:
    """Return a query for symbols that all rise, or all fall, in an order."""
    alternatives = (
        f"SEQ({', '.join(f'{_symbol(number)} {move}{step}' for step, number in enumerate(numbers))})" for move in "rf"
    )
    conditions = (
        f"{move}{step}.move = {value}" for move, value in (("r", 1), ("f", -1)) for step in range(len(numbers))
    )
    return _query(
        name, map(_symbol, range(symbols)), "move int64, number int64", f"OR({', '.join(alternatives)})",
        " AND ".join(conditions), window, select,
    )  # fmt: skip


def _query(
    name: str, types: Iterable[str], attributes: str, pattern: str, where: str, window: str, select: str
) -> fc.Query:
    """Return a query with one match per window."""
    events = "\n".join(f"EVENT {kind} ({attributes})" for kind in types)
    text = (
        f"STREAM TIME 'ts' UNIT ms TYPE 'type'\n{events}\nQUERY {name}\nPATTERN {pattern}\nWHERE {where}\n"
        f"WINDOW {window}\nSTRATEGY skip_till_next\nSELECT {select}\nLIMIT 1 PER WINDOW\n"
    )
    (query,) = fc.parse_document(text).queries
    return query


def _on_leading_move() -> str:
    return f"OPEN ON {_any(_symbol, _LEADERS)} o WHERE o.move != 0"


def _seconds(seconds: float) -> str:
    return f"{round(1_000 * seconds)}ms"


def _any(name: Callable[[int], str], numbers: Iterable[int]) -> str:
    return f"({'|'.join(map(name, numbers))})"


def _symbol(number: int) -> str:
    return f"S{number:03}"


def _player(number: int) -> str:
    return f"P{number}"


def _names(name: Callable[[int], str], numbers: pa.ChunkedArray) -> pa.Array:
    distinct, places = np.unique(numbers.to_numpy(), return_inverse=True)
    return pa.array(list(map(name, distinct.tolist()))).take(pa.array(places))
