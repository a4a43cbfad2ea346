"""The matches of the papers' queries, computed from their words by loops over the windows, without the engine.

Events are rows of a table; the number of a row is its place. A match is the place that opened its window, and the
places of its events, ascending. All queries but `overtaking` skip till the next event that fits: each event that fits
the first step starts a run, and the next event that fits the next step continues it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

#: Symbols 1 to 10 of the patterns with repetition have the numbers 5 to 14.
ROW = tuple(range(5, 25))
REPEATED = tuple(number + 4 for number in (1, 1, 2, 3, 2, 4, 2, 5, 6, 7, 2, 8, 9, 10))

Places = tuple[int, ...]
Match = tuple[int, Places]


class Window(NamedTuple):
    """The places from ``start`` on and before ``stop``."""

    start: int
    stop: int


# -------------------------------------------------------------------- windows


def of_events(opening: Iterable[int], size: int, total: int) -> list[Window]:
    return [Window(place, min(place + size, total)) for place in opening]


def of_time(opening: Iterable[int], span: int, times: Sequence[int]) -> list[Window]:
    """Return windows of the events up to ``span`` after the opening one, inclusive."""
    return [Window(place, bisect_right(times, times[place] + span)) for place in opening]


def leading(table: pa.Table, leaders: int) -> list[int]:
    """Return the places of the rising and falling quotes of the leading symbols."""
    quotes = zip(table["type"].to_pylist(), table["number"].to_pylist(), strict=True)
    return [place for place, (kind, number) in enumerate(quotes) if kind != "QE" and number < leaders]


def selected(window: Window, found: Iterable[Places], select: str, limit: int | None) -> list[Match]:
    """Select among the matches that end in one event; then take the first ones of the window."""
    by_end = defaultdict(list)
    for match in found:
        by_end[match[-1]].append(match)
    chosen: list[Places] = []
    for end in sorted(by_end):
        group = by_end[end]
        if select == "first":
            group = [min(group)]
        elif select == "last":
            group = [max(group, key=lambda match: match[::-1])]
        chosen += group
    return [(window.start, match) for match in chosen[:limit]]


# -------------------------------------------------- sequences of moves of symbols


def sequences(table: pa.Table, windows: list[Window], numbers: Places, select: str, limit: int | None) -> list[Match]:
    """Find windows in which all symbols rise in this order, or all fall."""
    places: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for place, move in enumerate(zip(table["type"].to_pylist(), table["number"].to_pylist(), strict=True)):
        places[move].append(place)

    def run(kind: str, first: int) -> Places | None:
        taken = [first]
        for number in numbers[1:]:
            fitting = places[kind, number]
            after = bisect_right(fitting, taken[-1])
            if after == len(fitting):
                return None
            taken.append(fitting[after])
        return tuple(taken)

    # A run is the same in every window that it lies in, so it is computed once.
    runs = {kind: {first: run(kind, first) for first in places[kind, numbers[0]]} for kind in ("RE", "FE")}
    found = []
    for window in windows:
        inside = []
        for kind in ("RE", "FE"):
            firsts = places[kind, numbers[0]]
            for first in firsts[bisect_right(firsts, window.start - 1) : bisect_right(firsts, window.stop - 1)]:
                whole = runs[kind][first]
                if whole is not None and whole[-1] < window.stop:
                    inside.append(whole)
        found += selected(window, inside, select, limit)
    return found


def espice_q3(table: pa.Table, size: int, select: str = "first") -> list[Match]:
    return sequences(table, of_events(leading(table, 5), size, len(table)), ROW, select, 1)


def espice_q4(table: pa.Table, size: int, slide: int = 100, select: str = "first") -> list[Match]:
    return sequences(table, of_events(range(0, len(table), slide), size, len(table)), REPEATED, select, 1)


def pspice_q1(table: pa.Table, size: int) -> list[Match]:
    return sequences(table, of_events(leading(table, 4), size, len(table)), ROW[:10], "each", None)


def pspice_q2(table: pa.Table, size: int) -> list[Match]:
    return sequences(table, of_events(leading(table, 4), size, len(table)), REPEATED, "each", None)


# --------------------------------------------- any n of something, all different


def runs(
    window: Window, begins: Sequence[object], fits: Sequence[object], differ: Sequence[object], n: int
) -> Iterator[Places]:
    """Find runs that start at a place whose ``begins`` is not None, and take ``n`` later places with the same ``fits``.

    No two of these have the same ``differ``.
    """
    live: list[tuple[object, list[int]]] = []
    for place in range(window.start, window.stop):
        for group, taken in live:
            if fits[place] == group and all(differ[place] != differ[other] for other in taken[1:]):
                taken.append(place)
        for _, taken in live:
            if len(taken) == n + 1:
                yield tuple(taken)
        live = [(group, taken) for group, taken in live if len(taken) <= n]
        if begins[place] is not None:
            live.append((begins[place], [place]))


def first_end(found: Iterator[Places]) -> list[Places]:
    """Return the runs that end in the event in which the first one ends."""
    group: list[Places] = []
    for match in found:
        if group and match[-1] != group[0][-1]:
            break
        group.append(match)
    return group


def defended(table: pa.Table, n: int, span: int) -> Iterator[tuple[Window, Iterator[Places]]]:
    """Return the runs of each window: a striker has the ball, then n players defend against him."""
    kinds, players = table["type"].to_pylist(), table["player"].to_pylist()
    strikers = table["striker"].to_pylist()
    begins = [player if kind == "STR" else None for kind, player in zip(kinds, players, strict=True)]
    fits = [striker if kind == "DF" else None for kind, striker in zip(kinds, strikers, strict=True)]
    opening = [place for place, kind in enumerate(kinds) if kind == "STR"]
    for window in of_time(opening, span, table["ts"].to_pylist()):
        yield window, runs(window, begins, fits, players, n)


def espice_q1(table: pa.Table, n: int, span: int = 15_000, select: str = "first") -> list[Match]:
    found = []
    for window, matches in defended(table, n, span):
        found += selected(window, first_end(matches), select, 1)
    return found


def pspice_q3(table: pa.Table, n: int, span: int = 15_000) -> list[Match]:
    found = []
    for window, matches in defended(table, n, span):
        found += selected(window, matches, "each", None)
    return found


def espice_q2(table: pa.Table, n: int, span: int = 240_000, select: str = "first") -> list[Match]:
    kinds, numbers = table["type"].to_pylist(), table["number"].to_pylist()
    opening = leading(table, 5)
    leads = set(opening)
    found = []
    for window in of_time(opening, span, table["ts"].to_pylist()):
        ends: list[Places] = []
        for kind in ("RE", "FE"):
            begins = [kind if place in leads else None for place in range(window.start, window.stop)]
            near = Window(0, window.stop - window.start)
            part = slice(window.start, window.stop)
            for match in first_end(runs(near, begins, kinds[part], numbers[part], n)):
                ends.append(tuple(place + window.start for place in match))
        found += selected(window, ends, select, 1)
    return found


def pspice_q4(table: pa.Table, n: int, size: int = 8_000, slide: int = 500) -> list[Match]:
    """Find runs for each report of a delayed bus at a stop: n buses that are delayed at the same stop."""
    reports = zip(table["type"].to_pylist(), table["stop"].to_pylist(), strict=True)
    stops = [stop if kind == "DE" else None for kind, stop in reports]
    buses = table["vehicle"].to_pylist()
    found = []
    for window in of_events(range(0, len(table), slide), size, len(table)):
        at: defaultdict[object, list[int]] = defaultdict(list)
        for place in range(window.start, window.stop):
            if stops[place] is not None:
                at[stops[place]].append(place)
        matches = []
        for places in at.values():
            for number, first in enumerate(places):
                taken = [first]
                for place in places[number + 1 :]:
                    if len(taken) < n and buses[place] not in {buses[other] for other in taken}:
                        taken.append(place)
                if len(taken) == n:
                    matches.append(tuple(taken))
        found += selected(window, matches, "each", None)
    return found


# ------------------------------------------------------------ the no-passing zone


def overtaking(table: pa.Table) -> list[Match]:
    """Find for each vehicle a the other vehicles that pass Pos1 and then Pos2 in the window of a's way through."""
    kinds, vehicles = table["type"].to_pylist(), table["vehicle"].to_pylist()
    seconds: defaultdict[int, list[int]] = defaultdict(list)
    for place, (kind, vehicle) in enumerate(zip(kinds, vehicles, strict=True)):
        if kind == "Pos2":
            seconds[vehicle].append(place)

    def later(vehicle: int, place: int) -> list[int]:
        return seconds[vehicle][bisect_right(seconds[vehicle], place) :]

    found = []
    for opening, kind in enumerate(kinds):
        if kind == "Pos1":
            closing = later(vehicles[opening], opening)
            stop = closing[0] + 1 if closing else len(table)
            for b in range(opening + 1, stop):
                if kinds[b] == "Pos1" and vehicles[b] != vehicles[opening]:
                    found += [(opening, (opening, b, c)) for c in later(vehicles[b], b) if c < stop]
    return found
