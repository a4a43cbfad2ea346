"""Stored results: ``bench/results/unseen.json``, by part, seed and case."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from bench.queries import RESULTS, environment
from bench.unseen.cells import COLUMNS, COSTS

__all__ = ["read", "rows_of", "save_case"]

Results = dict[str, Any]


def read(name: str = "unseen") -> Results:
    """Read the stored results; empty if there are none."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else {"parts": {}}


def save_case(part: str, seed: int, case: str, result: Results, name: str = "unseen") -> None:
    """Add the result of a case to the stored results; older runs of the same shedders and costs are replaced.

    Date and revision are stored by part, and of real and random streams also by costs.

    Raises
    ------
    ValueError
        If older runs with other shedders or costs, which are kept, are on another stream.
    """
    results = read(name)
    cases = results["parts"].setdefault(part, {}).setdefault(str(seed), {})
    columns = list(COLUMNS) if part in ("real", "random", "kinds") else list(result["rows"][0])
    rows = [[row[column] for column in columns] for row in result["rows"]]
    if part in ("real", "random", "kinds") and case in cases:
        older, of_shedder, of_costs = cases[case], columns.index("shedder"), columns.index("costs")
        again = {(row[of_shedder], row[of_costs]) for row in rows}
        kept = [row for row in older["rows"] if (row[of_shedder], row[of_costs]) not in again]
        same = ["query", "events", "matches"]
        if "plays" in result and any(COSTS[row[of_costs]].decision for row in kept):
            same.append("plays")
        if kept and any(older.get(key) != result.get(key) for key in same):
            raise ValueError(
                f"{part} {case}: stored runs with other shedders or costs are on another stream: run all of them"
            )
        rows += kept
        result = {**older, **result, "fit_seconds": older.get("fit_seconds", {}) | result.get("fit_seconds", {})}
    cases[case] = {**result, "columns": columns, "rows": rows}
    RESULTS.mkdir(exist_ok=True)
    present = environment()
    costs = {row["costs"] for row in result["rows"]} if part in ("real", "random") else {""}
    now = {"date": present["date"], "commit": present["commit"]}
    measured = results.get("measured", {}) | {" ".join(filter(None, (part, one))): now for one in sorted(costs)}
    stored = {"environment": present, "measured": measured, "parts": results["parts"]}
    (RESULTS / f"{name}.json").write_text(_lines(stored) + "\n")


def rows_of(results: Results, part: str) -> Iterator[dict[str, Any]]:
    """Yield all rows of a part as dicts, each with the name of its case."""
    for cases in results["parts"].get(part, {}).values():
        for case, result in cases.items():
            for row in result["rows"]:
                yield {"case": case, **dict(zip(result["columns"], row, strict=True))}


def _lines(value: Any, depth: int = 6, indent: int = 0) -> str:
    """Return JSON with one line for each value below a depth."""
    if depth == 0 or not isinstance(value, dict | list) or not value:
        return json.dumps(value, separators=(",", ":"))
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_lines(item, depth - 1, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner + item for item in items) + "\n" + " " * indent + "}"
    items = [json.dumps(item, separators=(",", ":")) for item in value]
    return "[\n" + ",\n".join(inner + item for item in items) + "\n" + " " * indent + "]"
