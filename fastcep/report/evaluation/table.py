"""The table of an evaluation for the terminal (rich)."""

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


def evaluation_table(document: Mapping[str, Any]) -> Table:
    """Make a table of an evaluation: a section for every target, a row for every strategy, means over the seeds.

    The winner has a star; references stand apart below and are dim; what does not count is red, with the reason below
    it.

    Parameters
    ----------
    document
        Of an evaluation.

    Raises
    ------
    ValidationError
        If it is none of a known format.
    """
    evaluation = Evaluation(document)
    shown_columns = columns(evaluation)
    table = Table(title=_title(evaluation), title_justify="left", caption=_caption(evaluation), caption_justify="left")
    table.add_column(evaluation.mode[:-1])
    table.add_column("strategy", no_wrap=True)
    for column in shown_columns:
        table.add_column(column.short, justify="right", no_wrap=True)
    for target in evaluation.targets:
        _section(table, evaluation, target, [column.text for column in shown_columns])
    return table


def _section(table: Table, evaluation: Evaluation, target: str, texts: list[Callable[[Cell], str]]) -> None:
    winner = evaluation.winner(target)
    heads = [shown(target), target_text(evaluation, target)]
    for number, cell in enumerate(evaluation.of(target)):
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
    """Why rows do not count, and what the star means."""
    lines = []
    for target, cells, whys in evaluation.failures:
        names = listed([shown(cell.strategy.name) for cell in cells])
        told = f"{shown(target)}: {names} do{'es' if len(cells) == 1 else ''} not count: {shown('; '.join(whys))}"
        lines.append((told, "red"))
    if any(name is not None for name in evaluation.document["wins"].values()):
        lines.append(("★ best recall of those that count, references apart", ""))
    return Text("\n").join(Text(line, style=style) for line, style in lines)
