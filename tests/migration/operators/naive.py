"""Slow, obvious twins of the operators, and streams for both."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

KEYS = st.sampled_from([None, "a", "b", "a longer key, of several words"]).map(lambda key: key or "")
REALS = st.none() | st.floats(-1e6, 1e6)
WHOLES = st.none() | st.integers(-(10**6), 10**6)
Row = dict[str, Any]

AGGREGATES = {
    "rows": "count", "known": ("count", "x"), "total": ("sum", "x"), "least": ("min", "y"), "most": ("max", "x"),
    "mean": ("mean", "y"), "sum_y": ("sum", "y"),
}  # fmt: skip
SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("g", pa.int32()), ("x", pa.float64()), ("y", pa.int16())])


@st.composite
def streams(draw: st.DrawFn, longest: int = 40) -> list[Row]:
    """Draw rows with ascending times."""
    rows = draw(st.lists(st.tuples(st.integers(0, 6), KEYS, st.integers(0, 1), REALS, WHOLES), max_size=longest))
    time, found = draw(st.integers(-20, 20)), []
    for gap, key, group, x, y in rows:
        time += gap
        found.append({"t": time, "k": key, "g": group, "x": x, "y": None if y is None else y % 1000})
    return found


def table(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


@dataclass
class NaiveAggregate:
    """Lists of rows by window and key."""

    window: int
    slide: int
    extents: dict[tuple[int, str, int], list[Row]] = field(default_factory=dict)
    incomplete: set[int] = field(default_factory=set)

    def process(self, rows: Iterable[Row]) -> list[Row]:
        found = []
        for row in rows:
            found += self.close(row["t"])
            start = row["t"] // self.slide * self.slide
            while start + self.window > row["t"]:
                key = (start, row["k"], row["g"])
                if key in self.extents or start not in self.incomplete:
                    self.extents.setdefault(key, []).append(row)
                start -= self.slide
        return found

    def close(self, time: float) -> list[Row]:
        ended = sorted(key for key in self.extents if key[0] + self.window <= time)
        return [self._output(key, self.extents.pop(key)) for key in ended]

    def keep(self, kept: Collection[tuple[int, str, int]]) -> None:
        """Lose all other extents."""
        lost = self.extents.keys() - set(kept)
        self.incomplete |= {key[0] for key in lost}
        for key in lost:
            del self.extents[key]

    def _output(self, key: tuple[int, str, int], rows: list[Row]) -> Row:
        x = [row["x"] for row in rows if row["x"] is not None]
        y = [row["y"] for row in rows if row["y"] is not None]
        total = 0.0
        for value in x:
            total += value  # the sum of Python 3.12 rounds in another way
        return {
            "k": key[1], "g": key[2], "window_start": key[0], "window_end": key[0] + self.window,
            "rows": len(rows), "known": len(x), "total": total if x else None, "least": min(y, default=None),
            "most": max(x, default=None), "mean": sum(y) / len(y) if y else None, "sum_y": sum(y) if y else None,
        }  # fmt: skip


@dataclass
class NaiveJoin:
    """Lists of rows; every row is compared with every other one."""

    window: int
    left: list[Row] = field(default_factory=list)
    right: list[Row] = field(default_factory=list)

    def process(self, side: str, rows: list[Row]) -> list[Row]:
        found = []
        for row in rows:
            for other in self.right if side == "left" else self.left:
                pair = (row, other) if side == "left" else (other, row)
                if pair[0]["k"] == pair[1]["k"] and abs(row["t"] - other["t"]) <= self.window:
                    found.append(
                        {f"left_{name}": pair[0][name] for name in ("t", "k", "x")}
                        | {f"right_{name}": pair[1][name] for name in ("t", "k", "y", "s")}
                    )
        (self.left if side == "left" else self.right).extend(rows)
        return found
