"""pandas by hand: merges over buckets of time, see ``bench.peers.sql``."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.peers.protocol import ALL, WINDOWS, Case, Result, timed
from bench.queries import QUERIES

if TYPE_CHECKING:
    import pandas as pd


class Pandas:
    """Merges of data frames."""

    name = "pandas"
    clock = "a data frame in, matches (times of their events) as a data frame out"
    semantics = ALL
    cases = dict.fromkeys(QUERIES, Case())

    def available(self) -> str | None:
        return None if find_spec("pandas") else "the package pandas is not installed (extra `dev`)"

    def setup(self) -> None:
        pass

    def version(self) -> str:
        return f"pandas {version('pandas')}"

    def run(self, query: str, events: pa.Table) -> Result:
        frame = events.to_pandas()
        return timed(lambda: len(find(query, frame)), self.cases[query].runs)


def find(query: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each match with the times ``a``, ``b``, ``c``; in QK also ``b2``, ``b3``, …, or null."""
    window = WINDOWS[query]
    if query == "QS":
        frame = frame[frame["V"] == 10]
    a = _bucketed(frame, "A", window)
    b, c = (_two_buckets(_bucketed(frame, x, window), window) for x in "BC")
    key = ["ID", "bucket"]
    if query == "QK":
        return _subsets(_pairs(a, b, [*key, "V"], window), c, window)
    if query in ("Q1", "Q1s"):
        a, b = a.rename(columns={"V": "av"}), b.rename(columns={"V": "bv"})
        pairs = _pairs(a, b, key, window)
        pairs["V"] = pairs.pop("av") + pairs.pop("bv")
        key.append("V")
    else:
        pairs = _pairs(a, b.drop(columns="V"), key, window)
        c = c.drop(columns="V")
    return _completed(pairs, c, key, window)


def _bucketed(frame: pd.DataFrame, name: str, window: int) -> pd.DataFrame:
    of_type = frame.loc[frame["type"] == name, ["ts", "ID", "V"]].rename(columns={"ts": name.lower()})
    return of_type.assign(bucket=of_type[name.lower()] // window)


def _two_buckets(frame: pd.DataFrame, window: int) -> pd.DataFrame:
    """Repeat every event in the bucket before its own."""
    import pandas as pd

    return pd.concat([frame, frame.assign(bucket=frame["bucket"] - 1)])


def _pairs(a: pd.DataFrame, b: pd.DataFrame, key: list[str], window: int) -> pd.DataFrame:
    pairs = a.merge(b, on=key)
    return pairs[(pairs["b"] > pairs["a"]) & (pairs["b"] <= pairs["a"] + window)]


def _completed(pairs: pd.DataFrame, c: pd.DataFrame, key: list[str], window: int, last: str = "b") -> pd.DataFrame:
    matches = pairs.merge(c, on=key)
    return matches[(matches["c"] > matches[last]) & (matches["c"] <= matches["a"] + window)]


def _subsets(pairs: pd.DataFrame, c: pd.DataFrame, window: int) -> pd.DataFrame:
    """Extend runs of B's by one in every round, and complete each run with every later C."""
    import pandas as pd

    c = c.drop(columns="V")
    runs, extensions, last, matches = pairs, pairs[["a", "b"]], "b", []
    while len(runs):
        matches.append(_completed(runs, c, ["ID", "bucket"], window, last))
        longer = f"b{len(matches) + 1}"
        runs = runs.merge(extensions.rename(columns={"b": longer}), on="a")
        runs, last = runs[runs[longer] > runs[last]], longer
    return pd.concat(matches)
