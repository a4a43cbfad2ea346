"""What was shed by type and by class: tables whose cells are tinted by the share that was shed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastcep.plan.explain.text_helpers import shown
from fastcep.report.evaluation.cells import Cell, Evaluation
from fastcep.report.evaluation.number_text import NONE, count, percent
from fastcep.report.evaluation.tags import safe, tag

__all__ = ["heat_tables"]

_MOST_WRITTEN = 6  #: classes whose shares are written; of more only the tint is shown
_DARKEST = (8, 69, 148)
_LIGHT = 0.225  #: from this luminance on dark text is read better than white


def heat_tables(evaluation: Evaluation, target: str) -> str:
    """A table for every query: strategies as rows, then types of events and classes of partial matches. First seed."""
    shed = {each["shedder"]: each["queries"] for each in evaluation.document["shed_by"] if each["target"] == target}
    cells = [cell for cell in evaluation.of(target) if cell.strategy.name in shed]
    if not cells:
        return ""
    names = list(dict.fromkeys(name for cell in cells for name in shed[cell.strategy.name]))
    tables = []
    for name in names:
        own = [(cell, shed[cell.strategy.name][name]) for cell in cells if name in shed[cell.strategy.name]]
        tables.append(_table(own, name if len(names) > 1 else None))
    return "".join(tables)


def _table(own: Sequence[tuple[Cell, Mapping[str, Any]]], caption: str | None) -> str:
    types = list(dict.fromkeys(kind for _, shed in own for kind in shed["events"]))
    variables: dict[str, int] = {}
    for _, shed in own:
        for name, classes in shed["partial_matches"].items():
            variables[name] = max(variables.get(name, 0), len(classes["born"]))
    body = "".join(_row(cell, shed, types, variables) for cell, shed in own)
    title = tag("caption", f"query {safe(caption)}") if caption is not None else ""
    return tag("div", tag("table", title + _head(types, variables) + tag("tbody", body), _class="heat"), _class="wide")


def _head(types: Sequence[str], variables: Mapping[str, int]) -> str:
    above = [tag("th", "", rowspan="2")]
    below = []
    if types:
        above.append(tag("th", "events, by type", colspan=str(len(types)), _class="group"))
        below += [tag("th", safe(kind)) for kind in types]
    for name, classes in variables.items():
        several = classes > 1
        above.append(tag("th", f"partial matches {safe(name)}", colspan="2" if several else "1", _class="group"))
        below.append(tag("th", "all" if several else ""))
        if several:
            below.append(tag("th", f"classes 0–{classes - 1}"))
    return tag("thead", tag("tr", "".join(above)) + tag("tr", "".join(below)))


def _row(cell: Cell, shed: Mapping[str, Any], types: Sequence[str], variables: Mapping[str, int]) -> str:
    parts = [tag("th", safe(cell.strategy.name), scope="row")]
    for kind in types:
        found = shed["events"].get(kind)
        parts.append(_of_type(kind, found) if found else tag("td", NONE))
    for name, most in variables.items():
        classes = shed["partial_matches"].get(name)
        if classes is None:
            parts += [tag("td", NONE)] * (2 if most > 1 else 1)
            continue
        parts.append(_all(name, classes))
        if most > 1:
            parts.append(tag("td", _strip(name, classes), _class="strip"))
    return tag("tr", "".join(parts), _class="" if cell.counts else "bad")


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _tint(share: float | None) -> dict[str, str]:
    """A background between white and a dark blue, and text that is read on it."""
    if share is None:
        return {"style": "background:#f3f4f6;color:#6b7280"}
    mixed = [round(255 + (end - 255) * min(max(share, 0.0), 1.0)) for end in _DARKEST]
    luminance = sum(weight * (part / 255) ** 2.2 for weight, part in zip((0.21, 0.72, 0.07), mixed, strict=True))
    ink = ";color:#fff" if luminance < _LIGHT else ""
    return {"style": "background:#{:02x}{:02x}{:02x}".format(*mixed) + ink}


def _cell(share: float | None, told: str, more: str = "") -> str:
    return tag("td", _text(share) + more, title=told, **_tint(share))


def _text(share: float | None) -> str:
    return "–" if share is None else percent(share) if share else "0"


def _of_type(kind: str, found: Mapping[str, int]) -> str:
    told = f"{shown(kind)}: {count(found['dropped'])} of {count(found['seen'])} events dropped"
    return _cell(_share(found["dropped"], found["seen"]), told)


def _all(name: str, classes: Mapping[str, Sequence[int]]) -> str:
    """All classes of a variable together; which part was refused, and which dropped, is written if both were."""
    born, refused, dropped = (sum(classes[key]) for key in ("born", "refused", "dropped"))
    whole = born + refused
    more = ""
    if refused and dropped:
        more = tag("small", f"{100 * refused / whole:.1f} + {100 * dropped / whole:.1f}")
    elif refused or dropped:
        more = tag("small", "refused" if refused else "dropped")
    told = f"{shown(name)}: {count(born)} born, {count(refused)} refused, {count(dropped)} dropped"
    return _cell(_share(refused + dropped, whole), told, more)


def _strip(name: str, classes: Mapping[str, Sequence[int]]) -> str:
    """A tinted box for every class."""
    boxes = []
    written = len(classes["born"]) <= _MOST_WRITTEN
    for number, (born, refused, dropped) in enumerate(
        zip(classes["born"], classes["refused"], classes["dropped"], strict=True)
    ):
        share = _share(refused + dropped, born + refused)
        told = f"class {number}: {count(born)} born, {count(refused)} refused, {count(dropped)} dropped"
        boxes.append(tag("i", _text(share) if written else "", title=f"{shown(name)}, {told}", **_tint(share)))
    return tag("div", "".join(boxes), _class="boxes written" if written else "boxes")
