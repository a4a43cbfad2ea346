"""Sections of the page, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastcep.report.evaluation.cells import Cell, Evaluation
from fastcep.report.evaluation.charts import charts, swatch
from fastcep.report.evaluation.colours import adaptable
from fastcep.report.evaluation.columns import Column, columns
from fastcep.report.evaluation.facts import setting_facts
from fastcep.report.evaluation.heat_table import heat_tables
from fastcep.report.evaluation.latency_chart import LatencyChart, latency_charts
from fastcep.report.evaluation.number_text import (
    NONE,
    STATISTICS,
    count,
    duration,
    headline,
    is_close,
    listed,
    percent,
    rate,
    spread,
    target_text,
)
from fastcep.report.evaluation.strategy_style import looks
from fastcep.report.evaluation.tags import glued, safe, safe_lines, tag

__all__ = ["failures", "head", "over_time", "pictures", "rows", "shed", "summary", "winners"]


def head(evaluation: Evaluation, title: str) -> str:
    """Return the title, the findings in one or two sentences, the query and the setting."""
    facts = "".join(tag("dt", safe(name)) + tag("dd", glued(text)) for name, text in setting_facts(evaluation))
    query = tag("pre", safe_lines(evaluation.document["query"]["text"]), _class="query")
    return "\n".join(
        [
            tag("h1", safe(title)),
            tag("p", glued(headline(evaluation)), _class="headline"),
            tag("div", query + tag("dl", facts), _class="setting"),
        ]
    )


def winners(evaluation: Evaluation) -> str:
    """Return the table of the winner, the next strategy and the references at each target; empty for demands."""
    if evaluation.mode == "demands":
        return ""
    heads = [
        {"bounds": "bound", "rates": "rate"}[evaluation.mode], "value", "best strategy", "recall", "next", "ahead by",
        "references",
    ]  # fmt: skip
    lines = "".join(tag("tr", _winner(evaluation, target)) for target in evaluation.targets)
    table = tag("table", tag("thead", tag("tr", "".join(tag("th", text) for text in heads))) + tag("tbody", lines))
    note = "Best mean recall over the seeds, among the strategies whose rows all count. A reference never wins."
    return tag("section", tag("h2", "Winners") + tag("p", note) + tag("div", table, _class="wide"), id="winners")


def _winner(evaluation: Evaluation, target: str) -> str:
    cells = [tag("th", safe(target), scope="row")]
    if evaluation.mode != "demands":
        cells.append(tag("td", safe(target_text(evaluation, target))))
    best = evaluation.winner(target)
    has_recall = any(cell.mean("recall") is not None for cell in evaluation.cells_of(target))
    references = [
        f"{cell.strategy.name} {percent(cell.mean('recall'))}" for cell in evaluation.best(target, reference=True)
    ]
    last = tag("td", safe(", ".join(references) or "–"))
    if best is None:
        cells.append(tag("td", "none" if has_recall else NONE, _class="bad" if has_recall else "", colspan="4"))
        return "".join(cells) + last
    cells.append(tag("td", f"★ {_name(evaluation, best)}"))
    cells.append(tag("td", safe(f"{percent(best.mean('recall'))} {spread(best, 'recall')}"), _class="number"))
    others = [cell for cell in evaluation.best(target, reference=False) if cell is not best]
    if not others:
        return "".join(cells) + tag("td", "–") * 2 + last
    cells.append(tag("td", f"{_name(evaluation, others[0])} {percent(others[0].mean('recall'))}"))
    points = 100 * ((best.mean("recall") or 0.0) - (others[0].mean("recall") or 0.0))
    close = tag("small", "within the spread of the seeds") if is_close(evaluation, target) else ""
    cells.append(tag("td", f"{points:.1f} points{close}"))
    return "".join(cells) + last


def failures(evaluation: Evaluation) -> str:
    """Return a prominent list of the rows that do not count, with the reasons; empty if all count."""
    if not evaluation.failures:
        return ""
    lines = []
    for target, cells, reasons in evaluation.failures:
        names = " ".join(_name(evaluation, cell) for cell in cells)
        reason_lines = "<br>".join(map(safe, reasons))
        lines.append(tag("tr", tag("th", safe(target)) + tag("td", names) + tag("td", reason_lines)))
    number = sum(not row["counts"] for row in evaluation.document["rows"])
    note = (
        "Their figures are not results: a row that did not hold its bound shed too little, and a row that shed nothing "
        "did not test its strategy. These rows never win, and they are marked everywhere."
    )
    title = f"{number} of {len(evaluation.document['rows'])} rows do not count"
    table = tag("div", tag("table", tag("tbody", "".join(lines))), _class="wide")
    return tag("section", tag("h2", title) + tag("p", note) + table, _class="alarm", id="failures", role="alert")


# ----------------------------------------------------------------------------------------------------------- pictures


def pictures(evaluation: Evaluation) -> str:
    """Return the charts over all targets, with one legend."""
    figures = []
    for chart in charts(evaluation):
        caption = tag("figcaption", tag("h3", safe(chart.title)) + safe(chart.caption))
        figures.append(tag("figure", caption + chart.svg, _class=chart.width))
    note = (
        "Bands and bars show the range over the seeds. A hollow marker does not count. Dashed curves are references. "
        "Lines in the background are wider, so that all of several coinciding curves are visible."
    )
    for names in evaluation.identical:
        note += f" {listed(names)} shed and found exactly the same."
    body = tag("h2", "From loose to tight") + tag("p", safe(note)) + _legend(evaluation)
    return tag("section", body + tag("div", "".join(figures), _class="charts"), id="pictures")


def _legend(evaluation: Evaluation) -> str:
    look_of = looks(evaluation.strategies)
    entries = []
    for number, strategy in enumerate(sorted(evaluation.strategies, key=lambda strategy: strategy.reference)):
        label = tag("span", safe(strategy.label if strategy.label != strategy.name else ""))
        line = swatch(look_of[strategy.name], f"l{number}-")
        entries.append(tag("li", line + tag("b", safe(strategy.name)) + label))
    return tag("ul", "".join(entries), _class="legend")


def over_time(evaluation: Evaluation) -> str:
    """Return the charts of latency over time: three targets expanded, the others collapsed."""
    groups = {}
    for number, target in enumerate(evaluation.ordered):
        panels = latency_charts(evaluation, target, f"t{number}-")
        if panels:
            figures = "".join(_panel(evaluation, chart) for chart in panels)
            groups[target] = tag("div", figures, _class="panels", style=_panel_columns(len(panels)))
    if not groups:
        return ""
    if evaluation.mode == "rates":
        measure = "the longest event latency, time in the queue included"
    else:
        measure = f"the {STATISTICS[evaluation.setting['statistic']]} of the processing latency"
    note = (
        f"For groups of consecutive events: {measure}, over the number of the event. "
        f"{'The dashed line is the bound. ' if evaluation.mode != 'demands' else ''}"
        f"{'Grey is the run without shedding, if it fits the scale. ' if evaluation.mode != 'rates' else ''}"
        "The shaded warm-up is not judged, and clipped where it exceeds the scale. First seed."
    )
    return _by_target(evaluation, "Latency over time", note, groups, "time")


def _panel_columns(count: int) -> str:
    """Return the numbers of columns on wide and narrow pages, so that the last row has few gaps."""
    wide, narrow = (
        min(range(min(2, count), min(most, count) + 1), key=lambda columns: (-count % columns, -columns))
        for most in (5, 3)
    )
    return f"--wide:{wide};--narrow:{narrow}"


def _panel(evaluation: Evaluation, chart: LatencyChart) -> str:
    reason = "" if chart.cell.counts else tag("p", safe(chart.cell.reason), _class="why")
    return tag("figure", tag("figcaption", _name(evaluation, chart.cell)) + chart.svg + reason)


def shed(evaluation: Evaluation) -> str:
    """Return the heat tables of what was shed, by event type and by class."""
    groups = {target: table for target in evaluation.ordered if (table := heat_tables(evaluation, target))}
    note = (
        "Share of each that was shed; darker is more, a dash means that there were none. Below it, how much of it was "
        "refused and how much was dropped later. First seed."
    )
    return _by_target(evaluation, "What was shed", note, groups, "shed") if groups else ""


def _by_target(evaluation: Evaluation, title: str, note: str, groups: Mapping[str, str], name: str) -> str:
    """Return a section of some targets expanded and the others collapsed."""
    expanded, collapsed = [], []
    for target, group in groups.items():
        value = target_text(evaluation, target)
        label = tag("b", safe(target)) + (f" {safe(value)}" if value else "")
        if target in evaluation.expanded:
            expanded.append(tag("div", tag("h3", label) + group))
        else:
            collapsed.append(tag("details", tag("summary", label) + group))
    body = tag("h2", title) + tag("p", note) + tag("div", "".join(expanded), _class="shown") + "".join(collapsed)
    return tag("section", body, id=name)


# ------------------------------------------------------------------------------------------------------------- tables


def summary(evaluation: Evaluation) -> str:
    """Return the table by target and strategy, with means over the seeds."""
    table_columns = columns(evaluation)
    heads = [tag("th", safe(column.head), title=column.description, _class="number") for column in table_columns]
    top = tag("tr", "".join([tag("th", ""), tag("th", "strategy"), *heads, tag("th", "")]))
    bodies = "".join(_section(evaluation, target, table_columns) for target in evaluation.targets)
    table = tag("div", tag("table", tag("thead", top) + bodies, _class="summary"), _class="wide")
    note = (
        "Means over the seeds; ± is half the range over the seeds. Red rows do not count; grey rows are references. "
        "Estimated: the recall as the shedder estimates it. Speed: events per second of busy time, relative to the run "
        "without shedding. Events, p(artial) matches: share that was shed. Overhead: share of the busy time that "
        "decisions took."
    )
    return tag("section", tag("h2", "All strategies") + tag("p", note) + table, id="summary")


def _section(evaluation: Evaluation, target: str, table_columns: list[Column]) -> str:
    cells = list(evaluation.cells_of(target))
    lines = []
    for number, cell in enumerate(cells):
        won = evaluation.winner(target) is cell
        parts = []
        if number == 0:
            value = tag("small", safe(target_text(evaluation, target)))
            parts.append(tag("th", safe(target) + value, scope="rowgroup", rowspan=str(len(cells))))
        parts.append(tag("td", _name(evaluation, cell) + (" ★" if won else "")))
        for column in table_columns:
            parts.append(_number(column, cell))
        parts.append(tag("td", safe(cell.reason), _class="why"))
        lines.append(tag("tr", "".join(parts), _class=_row_class(cell, won)))
    return tag("tbody", "".join(lines))


def _row_class(cell: Cell, won: bool) -> str:
    if not cell.counts:
        return "bad"
    return "reference" if cell.strategy.reference else "won" if won else ""


def _number(column: Column, cell: Cell) -> str:
    share = column.bar(cell) if column.bar is not None else None
    style = f"--share:{100 * share:.1f}%" if share is not None else ""
    return tag("td", safe(column.text(cell)), _class="number bar" if style else "number", style=style)


def _name(evaluation: Evaluation, cell: Cell) -> str:
    """Return the name of a strategy, with its colour."""
    colour = looks(evaluation.strategies)[cell.strategy.name].colour
    return tag("span", tag("i", "", style=adaptable(f"background:{colour}")) + safe(cell.strategy.name), _class="name")


_ROW = {
    "recall": percent, "precision": percent, "estimated_recall": percent, "mean_latency": duration,
    "p95_latency": duration, "p99_latency": duration, "share_over_bound": percent, "throughput": rate,
    "shed_events": count, "shed_matches": count, "shed_event_ratio": percent, "shed_match_ratio": percent,
    "overhead": percent,
}  # fmt: skip


def rows(evaluation: Evaluation) -> str:
    """Return the table of all rows, collapsed."""
    numbers = [tag("th", key.replace("_", " "), _class="number") for key in ("seed", *_ROW)]
    heads = [tag("th", "target"), tag("th", "strategy"), *numbers, tag("th", "reason not to count")]
    top = tag("thead", tag("tr", "".join(heads)))
    body = tag("tbody", "".join(_row(evaluation, row) for row in evaluation.document["rows"]))
    table = tag("div", tag("table", top + body, _class="sorted"), _class="wide")
    number = len(evaluation.document["rows"])
    note = "Click a column head to sort. The page contains the document that it was made from, as JSON."
    details = tag("details", tag("summary", f"All {number} rows, seed by seed") + table)
    return tag("section", tag("h2", "Rows") + tag("p", note) + details, id="rows")


def _row(evaluation: Evaluation, row: Mapping[str, Any]) -> str:
    cells = [tag("td", safe(row["target"])), tag("td", safe(row["shedder"]))]
    cells.append(tag("td", safe(str(row["seed"])), _class="number"))
    for key, text in _ROW.items():
        value = row.get(key)
        limits = row.get("spread", {}).get(key)
        spread_text = tag("small", safe(f"{text(limits[0])} – {text(limits[1])}")) if limits else ""
        exact = "" if value is None else f"{value:.9g}"
        cells.append(tag("td", safe(text(value)) + spread_text, _class="number", data_value=exact))
    cells.append(tag("td", safe(row["why"]), _class="why"))
    return tag("tr", "".join(cells), _class="" if row["counts"] else "bad")
