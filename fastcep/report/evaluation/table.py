"""Table of an evaluation for the terminal (rich)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from fastcep.plan.explain.text_helpers import shown
from fastcep.report.evaluation.cells import Cell, Evaluation
from fastcep.report.evaluation.columns import columns
from fastcep.report.evaluation.number_text import clock_text, count, listed, target_text

__all__ = ["evaluation_table"]


#: Columns that a narrow table leaves out, the least important ones first.
_LEFT_OUT = ("overhead", "p99", "precision", "estimated", "speed")
_OTHERS = 36  #: characters of the first two columns, and of the recall


def evaluation_table(document: Mapping[str, Any], width: int | None = None) -> Table:
    """Return a table of an evaluation: a section for each target, a row for each strategy, means over the seeds.

    The winner has a star. References are last, and dim. Rows that do not count are red; the caption gives the reasons.

    Parameters
    ----------
    document
        Document of an evaluation.
    width
        Number of characters of a line; a narrow table has fewer columns. None: all columns.

    Raises
    ------
    ValidationError
        If the document has an unknown format.
    """
    evaluation = Evaluation(document)
    table_columns = columns(evaluation)
    for head in _LEFT_OUT:
        if width is not None and _OTHERS + 12 * (len(table_columns) - 1) > width:
            table_columns = [column for column in table_columns if column.head != head]
    table = Table(title=_title(evaluation), title_justify="left", caption=_caption(evaluation), caption_justify="left")
    table.add_column(evaluation.mode[:-1])
    table.add_column("strategy", no_wrap=True)
    for column in table_columns:
        table.add_column(column.head, justify="right", no_wrap=True)
    for target in evaluation.targets:
        _section(table, evaluation, target, [column.text for column in table_columns])
    return table


def _section(table: Table, evaluation: Evaluation, target: str, texts: list[Callable[[Cell], str]]) -> None:
    winner = evaluation.winner(target)
    heads = [shown(target), target_text(evaluation, target)]
    for number, cell in enumerate(evaluation.cells_of(target)):
        star = " ★" if winner is cell else ""
        style = "red" if not cell.counts else "dim" if cell.strategy.reference else "bold" if star else ""
        name = Text(f"{shown(cell.strategy.name)}{star}")
        head = Text(heads[number], style="not dim") if number < len(heads) else ""
        table.add_row(head, name, *(Text(text(cell)) for text in texts), style=style)
    table.add_section()


def _title(evaluation: Evaluation) -> Text:
    stream, seeds = evaluation.document["stream"], evaluation.setting["seeds"]
    names = ", ".join(map(shown, evaluation.document["query"]["names"]))
    source = f" of {shown(stream['source'])}" if stream["source"] else ""
    means = f"; means over {len(seeds)} seeds" if len(seeds) > 1 else ""
    return Text(
        f"{names}: {count(stream['events'])} events{source}, {count(evaluation.truth['matches'])} matches without "
        f"shedding; {clock_text(evaluation)}{means}"
    )


def _caption(evaluation: Evaluation) -> Text:
    """Return the reasons why rows do not count, and the meaning of the star."""
    lines = []
    for target, cells, reasons in evaluation.failures:
        names = listed([shown(cell.strategy.name) for cell in cells])
        verb = "does" if len(cells) == 1 else "do"
        lines.append((f"{shown(target)}: {names} {verb} not count: {shown('; '.join(reasons))}", "red"))
    if any(name is not None for name in evaluation.document["wins"].values()):
        lines.append(("★ best recall of the strategies that count, without references", ""))
    return Text("\n").join(Text(line, style=style) for line, style in lines)
