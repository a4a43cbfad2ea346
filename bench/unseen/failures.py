"""Failures that a review found before this benchmark existed, beside what is stored for similar cases now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bench.shedding_page import table
from bench.unseen.results import rows_of

__all__ = ["failures"]

Row = dict[str, Any]


def failures(results: dict[str, Any]) -> list[str]:
    """Return a section with a row for each failure whose case is stored; none if there is none."""
    rows = [*_wall(results), *_pauses(results), *_virtual(results)]
    if not rows:
        return []
    return [
        "## Reported failures\n",
        "Figures of a review before this benchmark existed, which cannot be measured again, and those of this page for "
        "the same kind of query and bound. The cases are not exactly the same. Estimates have their interval in "
        "parentheses.\n",
        table(("case", "before", "now"), rows),
    ]  # fmt: skip


def _wall(results: dict[str, Any]) -> Iterator[Sequence[str]]:
    """Bikes in Jersey City, on the wall clock."""
    found = [
        row for row in rows_of(results, "wall")
        if (row["case"], row["bound"], row["shedder"]) == ("jersey_triangle", "50ms", "hybrid")
    ]  # fmt: skip
    if found:
        yield (
            "jersey_triangle, 50 ms on the wall clock at 120, 150 and 200 %: events within the bound; recall",
            "44, 2 and 2 %; .13, .07 and .03",
            "; ".join((
                _joined([format(row["within"], ".1%") for row in found]),
                _joined([_short(row["recall"]) for row in found]),
            )),
        )


def _pauses(results: dict[str, Any]) -> Iterator[Sequence[str]]:
    """A consumer that pauses."""
    recall = {(row["shedder"], row["pause"]): row["recall"] for row in rows_of(results, "pauses")}
    if recall:
        yield (
            "one pause of 200 and 500 ms at 60 % load: recall of `rs`", ".67 and .46",
            _joined([_short(recall["rs", pause]) for pause in (0.2, 0.5)]),
        )  # fmt: skip
        yield "the same: recall of `hybrid` after 200 ms", ".63", _short(recall["hybrid", 0.2])


def _virtual(results: dict[str, Any]) -> Iterator[Sequence[str]]:
    """Identifiers as features, rare decisions, a change of the stream, and estimates of baselines."""
    rows = {
        (row["case"], row["costs"], row["statistic"], row["bound"], row["shedder"]): row
        for row in rows_of(results, "real") if row["recall"] is not None
    }  # fmt: skip

    def of(case: str, bound: str, shedder: str = "hybrid", costs: str = "free") -> Row | None:
        return rows.get((case, costs, "mean", bound, shedder))

    if row := of("google_evicted", "50%"):
        yield "google_evicted, mean 50 %: recall; estimate", ".18; 1.00", _estimated(row)
    if row := of("google_evicted", "50%", costs="measured"):
        yield (
            "the same, played several times, decisions cost 30 us: mean latency as a share of the bound; decisions",
            "1.95; 9", f"{row['mean']:.2f}; {row['decisions']}",
        )  # fmt: skip
    if row := of("ds1_reversed", "50%"):
        yield "ds1_reversed, mean 50 %: recall; estimate", ".53; .85", _estimated(row)
    if row := of("ds1_reversed", "50%", costs="measured"):
        played = f"played several times, decisions cost 30 us ({row['decisions']} decisions)"
        yield f"ds1_reversed, {played}", ".53; .85", _estimated(row)
    if row := of("bars_dip", "25%", "rs"):
        yield "bars_dip (Kleene), mean 25 %, `rs`: recall; estimate", ".10; .33", _estimated(row)


def _estimated(row: Row) -> str:
    return f"{_short(row['recall'])}; {_short(row['estimated'])} ({_short(row['low'])} to {_short(row['high'])})"


def _short(share: float | None) -> str:
    return "n/a" if share is None else f"{share:.2f}".removeprefix("0")


def _joined(texts: Sequence[str]) -> str:
    return f"{', '.join(texts[:-1])} and {texts[-1]}"
