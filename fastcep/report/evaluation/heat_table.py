"""Heat tables of the shares that were shed, by event type and by class of partial matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastcep.plan.explain.text_helpers import shown
from fastcep.report.evaluation.cells import Cell, Evaluation
from fastcep.report.evaluation.number_text import NONE, count, percent
from fastcep.report.evaluation.tags import safe, tag

__all__ = ["heat_tables"]

_MOST_WRITTEN = 6  #: with up to this many classes the shares are written; with more, only the tint is shown
_DEEP = 0.66  #: share from which light text is more legible than dark text, on a light page


def heat_tables(evaluation: Evaluation, target: str) -> str:
    """Return a table for each query, for the first seed: a row per strategy; event types and classes as columns."""
    shed = {entry["shedder"]: entry["queries"] for entry in evaluation.document["shed_by"] if entry["target"] == target}
    cells = [cell for cell in evaluation.cells_of(target) if cell.strategy.name in shed]
    if not cells:
        return ""
    names = list(dict.fromkeys(name for cell in cells for name in shed[cell.strategy.name]))
    tables = []
    for name in names:
        rows = [(cell, shed[cell.strategy.name][name]) for cell in cells if name in shed[cell.strategy.name]]
        tables.append(_table(rows, name if len(names) > 1 else None))
    return "".join(tables)


def _table(rows: Sequence[tuple[Cell, Mapping[str, Any]]], caption: str | None) -> str:
    types = list(dict.fromkeys(kind for _, shed in rows for kind in shed["events"]))
    variables: dict[str, int] = {}
    for _, shed in rows:
        for name, classes in shed["partial_matches"].items():
            variables[name] = max(variables.get(name, 0), len(classes["born"]))
    body = "".join(_row(cell, shed, types, variables) for cell, shed in rows)
    title = tag("caption", f"query {safe(caption)}") if caption is not None else ""
    return tag("div", tag("table", title + _head(types, variables) + tag("tbody", body), _class="heat"), _class="wide")


def _head(types: Sequence[str], variables: Mapping[str, int]) -> str:
    first_row = [tag("th", "", rowspan="2")]
    second_row = []
    if types:
        first_row.append(tag("th", "events, by type", colspan=str(len(types)), _class="group"))
        second_row += [tag("th", safe(kind)) for kind in types]
    for name, classes in variables.items():
        several = classes > 1
        first_row.append(tag("th", f"partial matches {safe(name)}", colspan="2" if several else "1", _class="group"))
        second_row.append(tag("th", "all" if several else ""))
        if several:
            second_row.append(tag("th", f"classes 0–{classes - 1}"))
    return tag("thead", tag("tr", "".join(first_row)) + tag("tr", "".join(second_row)))


def _row(cell: Cell, shed: Mapping[str, Any], types: Sequence[str], variables: Mapping[str, int]) -> str:
    parts = [tag("th", safe(cell.strategy.name), scope="row")]
    for kind in types:
        counts = shed["events"].get(kind)
        parts.append(_type_cell(kind, counts) if counts else tag("td", NONE))
    for name, class_count in variables.items():
        classes = shed["partial_matches"].get(name)
        if classes is None:
            parts += [tag("td", NONE)] * (2 if class_count > 1 else 1)
            continue
        parts.append(_total_cell(name, classes))
        if class_count > 1:
            parts.append(tag("td", _class_boxes(name, classes), _class="strip"))
    return tag("tr", "".join(parts), _class="" if cell.counts else "bad")


def _share(part: float, total: float) -> float | None:
    return part / total if total else None


def _tint(share: float | None) -> dict[str, str]:
    """Return the attributes of a cell: its share, which the page shows as a tint, and a class."""
    if share is None:
        return {"_class": "none"}
    limited = min(max(share, 0.0), 1.0)
    return {"style": f"--share:{100 * limited:.1f}%", "_class": "tint deep" if limited > _DEEP else "tint"}


def _cell(share: float | None, tooltip: str, note: str = "") -> str:
    return tag("td", _text(share) + note, title=tooltip, **_tint(share))


def _text(share: float | None) -> str:
    return "–" if share is None else percent(share) if share else "0"


def _type_cell(kind: str, counts: Mapping[str, int]) -> str:
    tooltip = f"{shown(kind)}: {count(counts['dropped'])} of {count(counts['seen'])} events dropped"
    return _cell(_share(counts["dropped"], counts["seen"]), tooltip)


def _total_cell(name: str, classes: Mapping[str, Sequence[int]]) -> str:
    """Return the cell for all classes of a variable, with the shares of refused and dropped if both occurred."""
    born, refused, dropped = (sum(classes[key]) for key in ("born", "refused", "dropped"))
    total = born + refused
    note = ""
    if refused and dropped:
        note = tag("small", f"{100 * refused / total:.1f} + {100 * dropped / total:.1f}")
    elif refused or dropped:
        note = tag("small", "refused" if refused else "dropped")
    tooltip = f"{shown(name)}: {count(born)} born, {count(refused)} refused, {count(dropped)} dropped"
    return _cell(_share(refused + dropped, total), tooltip, note)


def _class_boxes(name: str, classes: Mapping[str, Sequence[int]]) -> str:
    """Return a tinted box for each class."""
    boxes = []
    written = len(classes["born"]) <= _MOST_WRITTEN
    for number, (born, refused, dropped) in enumerate(
        zip(classes["born"], classes["refused"], classes["dropped"], strict=True)
    ):
        share = _share(refused + dropped, born + refused)
        counts = f"{count(born)} born, {count(refused)} refused, {count(dropped)} dropped"
        tooltip = f"{shown(name)}, class {number}: {counts}"
        boxes.append(tag("i", _text(share) if written else "", title=tooltip, **_tint(share)))
    return tag("div", "".join(boxes), _class="boxes written" if written else "boxes")
