"""The parts of the page, in the order in which they stand there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastcep.report.evaluation.cells import Cell, Evaluation
from fastcep.report.evaluation.charts import charts, swatch
from fastcep.report.evaluation.columns import Column, columns
from fastcep.report.evaluation.facts import setting_facts
from fastcep.report.evaluation.heat_table import heat_tables
from fastcep.report.evaluation.latency_chart import LatencyChart, courses
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
    """The title, what was found in a sentence, the query and the setting."""
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
    """Who won at each target, who came next, and how far the references are; nothing with demands."""
    if evaluation.mode == "demands":
        return ""
    heads = [
        {"bounds": "bound", "rates": "rate"}[evaluation.mode], "that is", "best strategy", "recall", "next", "ahead by",
        "references",
    ]  # fmt: skip
    lines = "".join(tag("tr", _winner(evaluation, target)) for target in evaluation.targets)
    table = tag("table", tag("thead", tag("tr", "".join(tag("th", text) for text in heads))) + tag("tbody", lines))
    note = "Best mean recall over the seeds, of the strategies all of whose rows count. A reference never wins."
    return tag("section", tag("h2", "Who won") + tag("p", note) + tag("div", table, _class="wide"), id="winners")


def _winner(evaluation: Evaluation, target: str) -> str:
    told = [tag("th", safe(target), scope="row")]
    if evaluation.mode != "demands":
        told.append(tag("td", safe(target_text(evaluation, target))))
    best = evaluation.winner(target)
    known = any(cell.mean("recall") is not None for cell in evaluation.of(target))
    references = [
        f"{cell.strategy.name} {percent(cell.mean('recall'))}" for cell in evaluation.best(target, reference=True)
    ]
    last = tag("td", safe(", ".join(references) or "–"))
    if best is None:
        told.append(tag("td", "nobody" if known else NONE, _class="bad" if known else "", colspan="4"))
        return "".join(told) + last
    told.append(tag("td", f"★ {_name(evaluation, best)}"))
    told.append(tag("td", safe(f"{percent(best.mean('recall'))} {spread(best, 'recall')}"), _class="number"))
    others = [cell for cell in evaluation.best(target, reference=False) if cell is not best]
    if not others:
        return "".join(told) + tag("td", "–") * 2 + last
    told.append(tag("td", f"{_name(evaluation, others[0])} {percent(others[0].mean('recall'))}"))
    points = 100 * ((best.mean("recall") or 0.0) - (others[0].mean("recall") or 0.0))
    close = tag("small", "less than the seeds differ by") if is_close(evaluation, target) else ""
    told.append(tag("td", f"{points:.1f} points{close}"))
    return "".join(told) + last


def failures(evaluation: Evaluation) -> str:
    """The rows that do not count, and why: nobody must overlook them."""
    if not evaluation.failures:
        return ""
    lines = []
    for target, cells, whys in evaluation.failures:
        names = " ".join(_name(evaluation, cell) for cell in cells)
        told = "<br>".join(map(safe, whys))
        lines.append(tag("tr", tag("th", safe(target)) + tag("td", names) + tag("td", told)))
    number = sum(not row["counts"] for row in evaluation.document["rows"])
    note = (
        "Their figures are no results: what does not hold its bound has shed less than it had to, and where nothing "
        "was shed the strategy was not put to the test. They never win and are marked everywhere."
    )
    title = f"{number} of {len(evaluation.document['rows'])} rows do not count"
    table = tag("div", tag("table", tag("tbody", "".join(lines))), _class="wide")
    return tag("section", tag("h2", title) + tag("p", note) + table, _class="alarm", id="failures", role="alert")


# ----------------------------------------------------------------------------------------------------------- pictures


def pictures(evaluation: Evaluation) -> str:
    """The curves over all targets, with one legend."""
    figures = []
    for chart in charts(evaluation):
        caption = tag("figcaption", tag("h3", safe(chart.title)) + safe(chart.told))
        figures.append(tag("figure", caption + chart.svg))
    note = (
        "Bands and bars are the least and the most over the seeds. A hollow marker does not count. Dashed curves are "
        "references. Wider lines lie behind narrower ones, so that curves that coincide are all seen."
    )
    for names in evaluation.same:
        note += f" {listed(names)} shed and found exactly the same."
    body = tag("h2", "From loose to tight") + tag("p", safe(note)) + _legend(evaluation)
    return tag("section", body + tag("div", "".join(figures), _class="charts"), id="pictures")


def _legend(evaluation: Evaluation) -> str:
    found = looks(evaluation.strategies)
    entries = []
    for number, strategy in enumerate(sorted(evaluation.strategies, key=lambda strategy: strategy.reference)):
        label = tag("span", safe(strategy.label if strategy.label != strategy.name else ""))
        line = swatch(found[strategy.name], f"l{number}-")
        entries.append(tag("li", line + tag("b", safe(strategy.name)) + label))
    return tag("ul", "".join(entries), _class="legend")


def over_time(evaluation: Evaluation) -> str:
    """Latency over time: three targets at length, the others folded."""
    groups = {}
    for number, target in enumerate(evaluation.ordered):
        made = courses(evaluation, target, f"t{number}-")
        if made:
            groups[target] = tag("div", "".join(_panel(evaluation, each) for each in made), _class="panels")
    if not groups:
        return ""
    if evaluation.mode == "rates":
        what = "the longest event latency, time in the queue included"
    else:
        what = f"the {STATISTICS[evaluation.setting['statistic']]} of the processing latency"
    note = (
        f"For groups of neighbouring events {what}; across: the number of the event. "
        f"{'The dashed line is the bound. ' if evaluation.mode != 'demands' else ''}"
        f"{'Grey is the run without shedding, where it fits in. ' if evaluation.mode != 'rates' else ''}"
        "What is shaded is not judged, and cut off where it is higher. First seed."
    )
    return _by_target(evaluation, "Latency over time", note, groups, "time")


def _panel(evaluation: Evaluation, course: LatencyChart) -> str:
    more = "" if course.cell.counts else tag("p", safe(course.cell.why), _class="why")
    return tag("figure", tag("figcaption", _name(evaluation, course.cell)) + course.svg + more)


def shed(evaluation: Evaluation) -> str:
    """What was shed, by type and by class."""
    groups = {target: table for target in evaluation.ordered if (table := heat_tables(evaluation, target))}
    note = (
        "The share of each that was shed: darker is more; a dash: there were none. Below it what of it was refused, "
        "and what dropped later. First seed."
    )
    return _by_target(evaluation, "What was shed", note, groups, "shed") if groups else ""


def _by_target(evaluation: Evaluation, title: str, note: str, groups: Mapping[str, str], name: str) -> str:
    """Some targets at length, the others folded."""
    open_, folded = [], []
    for target, group in groups.items():
        more = target_text(evaluation, target)
        label = tag("b", safe(target)) + (f" {safe(more)}" if more else "")
        if target in evaluation.shown:
            open_.append(tag("div", tag("h3", label) + group))
        else:
            folded.append(tag("details", tag("summary", label) + group))
    body = tag("h2", title) + tag("p", note) + tag("div", "".join(open_), _class="shown") + "".join(folded)
    return tag("section", body, id=name)


# ------------------------------------------------------------------------------------------------------------- tables


def summary(evaluation: Evaluation) -> str:
    """The table by target and strategy: means over the seeds."""
    own = columns(evaluation)
    heads = [tag("th", safe(column.short), title=column.told, _class="number") for column in own]
    top = tag("tr", "".join([tag("th", ""), tag("th", "strategy"), *heads, tag("th", "")]))
    bodies = "".join(_section(evaluation, target, own) for target in evaluation.targets)
    table = tag("div", tag("table", tag("thead", top) + bodies, _class="summary"), _class="wide")
    note = (
        "Means over the seeds; ± is half of what the seeds differ by. Red does not count; grey is a reference. "
        "Estimated: the recall as the shedder sees it. Speed: events per second of busy time, relative to the run "
        "without shedding. Events, p(artial) matches: the share that was shed. Overhead: the share of the busy time "
        "that decisions took."
    )
    return tag("section", tag("h2", "All strategies") + tag("p", note) + table, id="summary")


def _section(evaluation: Evaluation, target: str, own: list[Column]) -> str:
    cells = list(evaluation.of(target))
    lines = []
    for number, cell in enumerate(cells):
        star = evaluation.winner(target) is cell
        told = []
        if number == 0:
            more = tag("small", safe(target_text(evaluation, target)))
            told.append(tag("th", safe(target) + more, scope="rowgroup", rowspan=str(len(cells))))
        told.append(tag("td", _name(evaluation, cell) + (" ★" if star else "")))
        for column in own:
            told.append(_number(column, cell))
        told.append(tag("td", safe(cell.why), _class="why"))
        lines.append(tag("tr", "".join(told), _class=_kind(cell, star)))
    return tag("tbody", "".join(lines))


def _kind(cell: Cell, star: bool) -> str:
    if not cell.counts:
        return "bad"
    return "reference" if cell.strategy.reference else "won" if star else ""


def _number(column: Column, cell: Cell) -> str:
    share = column.bar(cell) if column.bar is not None else None
    style = f"--share:{100 * share:.1f}%" if share is not None else ""
    return tag("td", safe(column.text(cell)), _class="number bar" if style else "number", style=style)


def _name(evaluation: Evaluation, cell: Cell) -> str:
    """A strategy's name in its colour."""
    colour = looks(evaluation.strategies)[cell.strategy.name].colour
    return tag("span", tag("i", "", style=f"background:{colour}") + safe(cell.strategy.name), _class="name")


_ROW = {
    "recall": percent, "precision": percent, "estimated_recall": percent, "mean_latency": duration,
    "p95_latency": duration, "p99_latency": duration, "share_over_bound": percent, "throughput": rate,
    "shed_events": count, "shed_matches": count, "shed_event_ratio": percent, "shed_match_ratio": percent,
    "overhead": percent,
}  # fmt: skip


def rows(evaluation: Evaluation) -> str:
    """Every row, folded."""
    numbers = [tag("th", key.replace("_", " "), _class="number") for key in ("seed", *_ROW)]
    heads = [tag("th", "target"), tag("th", "strategy"), *numbers, tag("th", "why it does not count")]
    top = tag("thead", tag("tr", "".join(heads)))
    body = tag("tbody", "".join(_row(evaluation, row) for row in evaluation.document["rows"]))
    table = tag("div", tag("table", top + body, _class="sorted"), _class="wide")
    number = len(evaluation.document["rows"])
    note = "A click on a head sorts by it. The document that this page was made from is in it, as JSON."
    inner = tag("details", tag("summary", f"All {number} rows, seed by seed") + table)
    return tag("section", tag("h2", "Rows") + tag("p", note) + inner, id="rows")


def _row(evaluation: Evaluation, row: Mapping[str, Any]) -> str:
    told = [tag("td", safe(row["target"])), tag("td", safe(row["shedder"]))]
    told.append(tag("td", safe(str(row["seed"])), _class="number"))
    for key, text in _ROW.items():
        value = row.get(key)
        span = row.get("spread", {}).get(key)
        more = tag("small", safe(f"{text(span[0])} – {text(span[1])}")) if span else ""
        exact = "" if value is None else f"{value:.9g}"
        told.append(tag("td", safe(text(value)) + more, _class="number", data_value=exact))
    told.append(tag("td", safe(row["why"]), _class="why"))
    return tag("tr", "".join(told), _class="" if row["counts"] else "bad")
