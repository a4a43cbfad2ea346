"""Documents of evaluations: one of real runs with an invented reference, and others derived from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NASTY = '<script>alert("x")</script>'


def bounds() -> dict[str, Any]:
    """Q1 on DS1 with 50,000 events: at 200 % some shedders never act, at 10 % ``si`` does not keep the bound."""
    path = Path(__file__).parents[2] / "report" / "evaluation" / "bounds.json"
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def rates() -> dict[str, Any]:
    document = bounds()
    document["setting"] |= {"mode": "rates", "latency_bound": 11494, "maximum_rate": 1.74e8}
    _retarget(document, {"200%": "90%", "50%": "120%", "10%": "200%"})
    for row in document["rows"]:
        row["rate"] = 1.74e8 * float(row["target"].rstrip("%")) / 100
        row["bound"] = 11494
    return document


def demands() -> dict[str, Any]:
    document = bounds()
    document["setting"]["mode"] = "demands"
    _retarget(document, {"200%": "10%", "50%": "50%", "10%": "90%"})
    for row in document["rows"]:
        row |= {"bound": None, "demand": float(row["target"].rstrip("%")) / 100, "held": None}
        row |= {"fired": True, "counts": True, "why": ""}
    for series in document["series"]:
        series["bound"] = None
    return document


def wall() -> dict[str, Any]:
    document = bounds()
    document["setting"] |= {"clock": "wall", "repeats": 3}
    del document["setting"]["cost_table"]
    document["machine"] = {"cpu": "Some <CPU>", "cores": 2, "python": "3.11.2"}
    for number, row in enumerate(document["rows"]):
        row["repeat"] = number % 3
        row["spread"] = {"recall": [row["recall"] * 0.9, row["recall"]], "p99_latency": [1_000.0, 2_500.0]}
    return document


def small() -> dict[str, Any]:
    """Few true matches: no ratios."""
    document = bounds()
    document["truth"]["matches"] = 312
    document["wins"] = dict.fromkeys(document["wins"])
    for row in document["rows"]:
        row["recall"] = row["precision"] = row["estimated_recall"] = None
    return document


def nasty() -> dict[str, Any]:
    """User-defined names that contain HTML, formulas and control characters of terminals."""
    document = bounds()
    text = f"QUERY {NASTY}\n-- \x1b[31m & </script>\n"
    document["query"] = {"names": [NASTY, "$x_1$"], "text": text, "monotonic": False}
    document["stream"]["source"] = f"{NASTY}.csv"
    name, target = f"{NASTY}$\\frac{{1}}$", "<b>50%</b>"
    for each in [*document["rows"], *document["series"], *document["shed_by"]]:
        each["shedder"] = name if each["shedder"] == "rs" else each["shedder"]
        each["target"] = target if each["target"] == "50%" else each["target"]
    for shed in document["shed_by"]:
        shed["queries"] = {NASTY: shed["queries"]["q1"], "two": shed["queries"]["q1"]}
        shed["queries"][NASTY] = {
            "events": {"<A>": {"seen": 10, "dropped": 5}},
            "partial_matches": {"<v>": {"born": [1] * 20, "refused": [1] * 20, "dropped": [0] * 20}},
        }
    for strategy in document["setting"]["strategies"]:
        if strategy["name"] == "rs":
            strategy |= {"name": name, "label": "_<i>label</i>"}
    document["setting"]["targets"][1] = target
    document["rows"][-1]["why"] = f"bound not held: {NASTY}"
    document["rows"][-1] |= {"held": False, "counts": False}
    document["wins"] = {"200%": None, target: name, "10%": name}
    return document


def _retarget(document: dict[str, Any], names: dict[str, str]) -> None:
    for each in [*document["rows"], *document["series"], *document["shed_by"]]:
        each["target"] = names[each["target"]]
    document["wins"] = {names[target]: name for target, name in document["wins"].items()}
    document["setting"]["targets"] = [names[target] for target in document["setting"]["targets"]]
