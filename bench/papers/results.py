"""Stored results of a figure: write and read the files, and look up values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.queries import RESULTS, environment

__all__ = [
    "FOLDER", "PartResult", "condense", "measured_part", "merge_points", "part_results", "read", "results_path", "save",
]  # fmt: skip

FOLDER = RESULTS / "papers"

_ROW_KEYS = (
    "shedder", "target", "seed", "recall", "precision", "estimated_recall", "mean_latency", "p95_latency",
    "p99_latency", "mean_latency_while_shedding", "share_over_bound", "throughput", "shed_event_ratio",
    "shed_match_ratio", "overhead", "seconds", "dropped", "why",
)  # fmt: skip
#: Keys of the rows by those of values that are relative to the latency bound.
_LATENCIES = {"used": "mean_latency", "used_while_shedding": "mean_latency_while_shedding"}
_SETTING_KEYS = (
    "mode", "clock", "index", "statistic", "latency_bound", "maximum_rate", "skip", "seeds", "targets", "strategies",
)  # fmt: skip
_MAX_POINTS = 120  # of a series over time


@dataclass(frozen=True)
class PartResult:
    """Stored results of a part of a figure; values are means over seeds.

    Attributes
    ----------
    document
        Document that `condense` or `merge_points` returned.
    """

    document: Mapping[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows: one for each shedder, target and seed."""
        rows: list[dict[str, Any]] = self.document["rows"]
        return rows

    @property
    def targets(self) -> list[str]:
        """Targets, in the order of the runs."""
        targets: list[str] = self.document["setting"]["targets"]
        return targets

    @property
    def shedders(self) -> list[str]:
        """Shedders in the order of the runs, references last."""
        return [item["name"] for item in self.document["setting"]["strategies"]]

    def truth(self, target: str) -> Mapping[str, Any]:
        """Results without shedding, at a target or a point."""
        truths: Mapping[str, Mapping[str, Any]] = self.document.get("truths", {})
        return truths.get(target, self.document["truth"])

    @property
    def references(self) -> list[str]:
        """Shedders that know more than a strategy can."""
        return [item["name"] for item in self.document["setting"]["strategies"] if item["reference"]]

    def groups(self) -> list[list[str]]:
        """Group the shedders with equal results at all targets."""
        keys = ("recall", "shed_event_ratio", "shed_match_ratio", "mean_latency")
        groups: dict[tuple[str, ...], list[str]] = {}
        for name in self.shedders:
            groups.setdefault(tuple(repr(self.values(name, key)) for key in keys), []).append(name)
        return list(groups.values())

    def rows_of(self, shedder: str, target: str) -> list[dict[str, Any]]:
        """Return the rows of a shedder at a target, one for each seed."""
        return [row for row in self.rows if row["shedder"] == shedder and row["target"] == target]

    def value(self, shedder: str, target: str, key: str) -> float | None:
        """Return the mean over seeds, or None if there is no value.

        Keys besides those of the rows are ``speed`` (throughput relative to that without shedding), ``target`` (the
        number in its label), ``false_negatives`` (share of the matches that are missing, whatever events the others
        bind), ``missed`` (share of the matches that are not found with the same events), ``false_positives`` (matches
        with other events, per true match), ``used`` and ``used_while_shedding`` (mean latency, of all judged events and
        between decisions that shed load, relative to the latency bound) and ``match_probability``.
        """
        values = [self._row_value(row, key) for row in self.rows_of(shedder, target)]
        present = [value for value in values if value is not None]
        return fmean(present) if present else None

    def is_valid(self, shedder: str, target: str) -> bool:
        """Return whether the run of every seed shed something and held its bound."""
        return not any(row["why"] for row in self.rows_of(shedder, target))

    def values(self, shedder: str, key: str) -> list[float]:
        """Return a value for each target, NaN where there is none."""
        values = [self.value(shedder, target, key) for target in self.targets]
        return [float("nan") if value is None else value for value in values]

    def _row_value(self, row: Mapping[str, Any], key: str) -> float | None:
        if key == "speed":
            return None if row["throughput"] is None else row["throughput"] / self.truth(row["target"])["throughput"]
        if key == "target":
            return float(row["target"].rstrip("%"))
        if key == "match_probability":
            return float(self.truth(row["target"])[key])
        if key in _OF_RECALL:
            return _OF_RECALL[key](row)
        if key in _LATENCIES:
            mean = row[_LATENCIES[key]]
            return None if mean is None else mean / self.document["setting"]["latency_bound"]
        value = row[key]
        return None if value is None else float(value)


def condense(document: Mapping[str, Any], series: Sequence[tuple[str, str]], check: str) -> dict[str, Any]:
    """Return the content of an evaluation's document that the page needs.

    Parameters
    ----------
    document
        Document of the report of `fastcep.evaluate`.
    series
        Pairs of a shedder and a target whose latency over time is kept.
    check
        Message of ``Report.check``; empty if all rows are valid.
    """
    setting = document["setting"]
    kept = [line for line in document["series"] if (line["shedder"], line["target"]) in series]
    return {
        "query": document["query"]["text"],
        "events": document["stream"]["events"], "span": document["stream"]["span"],
        "setting": {**{key: setting[key] for key in _SETTING_KEYS}, "cost_table": setting["cost_table"]["name"]},
        "truth": {key: _short(value) for key, value in document["truth"].items() if key != "series"},
        "rows": [
            {key: _short(row[key]) for key in _ROW_KEYS if row.get(key) is not None} for row in document["rows"]
        ],
        "series": [_thin(line) for line in kept],
        "check": check,
    }  # fmt: skip


def measured_part(
    rows: Sequence[Mapping[str, Any]], events: int, matches: int, *, mode: str = "time", cost_table: str = "measured"
) -> dict[str, Any]:
    """Return the document of a part whose rows a figure measures itself, for one shedder.

    Parameters
    ----------
    rows
        Values of each run, with ``shedder``, ``target``, ``seed`` and ``why``.
    events, matches
        Number of events of a run, and of its matches.
    mode, cost_table
        Kind of the targets, and name of the cost table.
    """
    shedder = rows[0]["shedder"]
    targets, seeds = (list(dict.fromkeys(row[key] for row in rows)) for key in ("target", "seed"))
    strategies = [{"name": shedder, "label": shedder, "reference": False}]
    setting = {"mode": mode, "targets": targets, "strategies": strategies, "seeds": seeds, "cost_table": cost_table}
    return {
        "events": events, "truth": {"matches": matches}, "rows": list(rows), "series": [], "check": "",
        "setting": setting,
    }  # fmt: skip


def merge_points(points: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the condensed documents of several points into one, whose targets are the labels of the points."""
    first = next(iter(points.values()))
    rows = [{**row, "target": label} for label, document in points.items() for row in document["rows"]]
    return {
        **first,
        "setting": {**first["setting"], "targets": list(points), "asked": first["setting"]["targets"][0]},
        "truths": {label: document["truth"] for label, document in points.items()},
        "rows": rows, "series": [],
    }  # fmt: skip


def save(figure: str, parts: Mapping[str, Any], *, keep_environment: bool = False) -> None:
    """Write ``results/papers/FIGURE.json``, one row per line.

    Parameters
    ----------
    figure
        Stem of the file.
    parts
        Results by part.
    keep_environment
        Whether only the references ran: the environment of the stored strategies stays, and ``references`` is the
        environment of the references.
    """
    now = environment()
    about = (
        {"environment": read(figure)["environment"], "references": now} if keep_environment else {"environment": now}
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    results_path(figure).write_text(_lines({**about, "parts": parts}, 4) + "\n")


def read(figure: str) -> dict[str, Any]:
    """Read the stored results of a figure."""
    results: dict[str, Any] = json.loads(results_path(figure).read_text())
    return results


def part_results(results: Mapping[str, Any]) -> dict[str, PartResult]:
    """Return the result of each part of a figure."""
    parts = results["parts"].items()
    return {name: PartResult({**part, "rows": [_with_all_keys(row) for row in part["rows"]]}) for name, part in parts}


def results_path(figure: str) -> Path:
    """Return the path of the results of a figure."""
    return FOLDER / f"{figure}.json"


def _false_negatives(row: Mapping[str, Any]) -> float | None:
    """Return the share of the matches that are missing: 1 minus the matches found per true match."""
    if row["recall"] is None:
        return None
    return 1 - row["recall"] / row["precision"] if row["precision"] else 1.0


def _missed(row: Mapping[str, Any]) -> float | None:
    return None if row["recall"] is None else 1 - row["recall"]


def _false_positives(row: Mapping[str, Any]) -> float | None:
    """Return the number of matches that are not true, per true match; None if unknown because none is true."""
    if row["recall"] is None or row["precision"] == 0:
        return None
    return row["recall"] / row["precision"] - row["recall"] if row["precision"] else 0.0


_OF_RECALL: Mapping[str, Callable[[Mapping[str, Any]], float | None]] = {
    "false_negatives": _false_negatives, "missed": _missed, "false_positives": _false_positives,
}  # fmt: skip


def _with_all_keys(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**dict.fromkeys(_ROW_KEYS), **row}


def _thin(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a series with at most `_MAX_POINTS` points, evenly spread, and the largest latency of all points."""
    step = max(1, -(-len(line["x"]) // _MAX_POINTS))
    thin = {key: line[key][::step] for key in ("x", "latency", "recall") if key in line}
    largest = {"largest": _short(max(line["latency"]), 8)} if line.get("latency") else {}
    return {**line, **{key: [_short(value, 4) for value in values] for key, values in thin.items()}, **largest}


def _short(value: Any, digits: int = 6) -> Any:
    if not isinstance(value, float):
        return value
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def _lines(value: Any, depth: int, indent: str = "") -> str:
    """Return JSON with one line for each item of the outer ``depth`` levels."""
    if not depth or not isinstance(value, dict | list) or not value:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    inner = indent + " "
    if isinstance(value, list):
        items = [inner + _lines(item, 0) for item in value]
        return "[\n" + ",\n".join(items) + f"\n{indent}]"
    items = [f"{inner}{json.dumps(key)}: {_lines(item, depth - 1, inner)}" for key, item in value.items()]
    return "{\n" + ",\n".join(items) + f"\n{indent}}}"
