"""The stored numbers of a figure: small files, and questions to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.queries import RESULTS, environment

__all__ = ["PLACE", "Stored", "condensed", "parts_of", "path_of", "read", "save", "swept"]

PLACE = RESULTS / "papers"

_OF_ROWS = (
    "shedder", "target", "seed", "recall", "precision", "estimated_recall", "mean_latency", "p95_latency",
    "p99_latency", "share_over_bound",
    "throughput", "shed_event_ratio", "shed_match_ratio", "overhead", "why",
)  # fmt: skip
_OF_SETTING = (
    "mode", "clock", "index", "statistic", "latency_bound", "maximum_rate", "skip", "seeds", "targets", "strategies",
)  # fmt: skip
_POINTS = 120  # of latency over time


@dataclass(frozen=True)
class Stored:
    """A part of a figure as it is stored; values of several seeds are means.

    Attributes
    ----------
    document
        What `condensed` gave.
    """

    document: Mapping[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows."""
        rows: list[dict[str, Any]] = self.document["rows"]
        return rows

    @property
    def targets(self) -> list[str]:
        """In the order of the runs."""
        targets: list[str] = self.document["setting"]["targets"]
        return targets

    @property
    def shedders(self) -> list[str]:
        """In the order of the runs, references last."""
        return [item["name"] for item in self.document["setting"]["strategies"]]

    def truth(self, target: str) -> Mapping[str, Any]:
        """What there is without shedding, at a target or a point."""
        truths: Mapping[str, Mapping[str, Any]] = self.document.get("truths", {})
        return truths.get(target, self.document["truth"])

    @property
    def references(self) -> list[str]:
        """Those that know more than a strategy can."""
        return [item["name"] for item in self.document["setting"]["strategies"] if item["reference"]]

    def groups(self) -> list[list[str]]:
        """The shedders, those together that did the same at all targets."""
        keys = ("recall", "shed_event_ratio", "shed_match_ratio", "mean_latency")
        found: dict[tuple[str, ...], list[str]] = {}
        for name in self.shedders:
            found.setdefault(tuple(repr(self.line(name, key)) for key in keys), []).append(name)
        return list(found.values())

    def of(self, shedder: str, target: str) -> list[dict[str, Any]]:
        """The rows, one per seed."""
        return [row for row in self.rows if row["shedder"] == shedder and row["target"] == target]

    def value(self, shedder: str, target: str, key: str) -> float | None:
        """The mean over seeds; None if nothing is known. ``speed`` is throughput relative to that without shedding."""
        values = [self._own(row, key) for row in self.of(shedder, target)]
        known = [value for value in values if value is not None]
        return fmean(known) if known else None

    def counts(self, shedder: str, target: str) -> bool:
        """Whether every seed says something."""
        return not any(row["why"] for row in self.of(shedder, target))

    def line(self, shedder: str, key: str) -> list[float]:
        """Values by target, nan where none is known."""
        values = [self.value(shedder, target, key) for target in self.targets]
        return [float("nan") if value is None else value for value in values]

    def _own(self, row: Mapping[str, Any], key: str) -> float | None:
        if key == "speed":
            return None if row["throughput"] is None else row["throughput"] / self.truth(row["target"])["throughput"]
        if key == "target":
            return float(row["target"].rstrip("%"))
        value = row[key]
        return None if value is None else float(value)


def condensed(document: Mapping[str, Any], series: Sequence[tuple[str, str]], check: str) -> dict[str, Any]:
    """What the page needs of the document of an evaluation.

    Parameters
    ----------
    document
        What `fastcep.evaluate` gives.
    series
        Shedders and targets whose latency over time is kept.
    check
        What ``Report.check`` says; empty if nothing.
    """
    setting = document["setting"]
    kept = [line for line in document["series"] if (line["shedder"], line["target"]) in series]
    return {
        "query": document["query"]["text"],
        "events": document["stream"]["events"], "span": document["stream"]["span"],
        "setting": {**{key: setting[key] for key in _OF_SETTING}, "cost_table": setting["cost_table"]["name"]},
        "truth": {key: _short(value) for key, value in document["truth"].items() if key != "series"},
        "rows": [{key: _short(row[key]) for key in _OF_ROWS if row[key] is not None} for row in document["rows"]],
        "series": [_thin(line) for line in kept],
        "check": check,
    }  # fmt: skip


def swept(points: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One part of what `condensed` gave for each of several points; their labels stand where targets do."""
    first = next(iter(points.values()))
    rows = [{**row, "target": label} for label, document in points.items() for row in document["rows"]]
    return {
        **first,
        "setting": {**first["setting"], "targets": list(points), "asked": first["setting"]["targets"][0]},
        "truths": {label: document["truth"] for label, document in points.items()},
        "rows": rows, "series": [],
    }  # fmt: skip


def save(figure: str, parts: Mapping[str, Any]) -> None:
    """Write ``results/papers/FIGURE.json``, a row a line."""
    PLACE.mkdir(parents=True, exist_ok=True)
    path_of(figure).write_text(_lines({"environment": environment(), "parts": parts}, 4) + "\n")


def read(figure: str) -> dict[str, Any]:
    """What is stored of a figure."""
    found: dict[str, Any] = json.loads(path_of(figure).read_text())
    return found


def parts_of(results: Mapping[str, Any]) -> dict[str, Stored]:
    """The parts of what is stored."""
    parts = results["parts"].items()
    return {name: Stored({**part, "rows": [_whole(row) for row in part["rows"]]}) for name, part in parts}


def path_of(figure: str) -> Path:
    """Where the results of a figure are."""
    return PLACE / f"{figure}.json"


def _whole(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**dict.fromkeys(_OF_ROWS), **row}


def _thin(line: Mapping[str, Any]) -> dict[str, Any]:
    """At most so many points, evenly spread."""
    step = max(1, -(-len(line["x"]) // _POINTS))
    thin = {key: line[key][::step] for key in ("x", "latency", "recall") if key in line}
    return {**line, **{key: [_short(value, 4) for value in values] for key, values in thin.items()}}


def _short(value: Any, digits: int = 6) -> Any:
    if not isinstance(value, float):
        return value
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def _lines(value: Any, depth: int, indent: str = "") -> str:
    """JSON with a line per item of what is less deep."""
    if not depth or not isinstance(value, dict | list) or not value:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    inner = indent + " "
    if isinstance(value, list):
        items = [inner + _lines(item, 0) for item in value]
        return "[\n" + ",\n".join(items) + f"\n{indent}]"
    items = [f"{inner}{json.dumps(key)}: {_lines(item, depth - 1, inner)}" for key, item in value.items()]
    return "{\n" + ",\n".join(items) + f"\n{indent}}}"
