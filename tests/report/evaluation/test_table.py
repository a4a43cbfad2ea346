"""The table of an evaluation for the terminal."""

from __future__ import annotations

import subprocess
import sys

from rich.console import Console
from support.shedding import evaluation_documents as documents
from support.waiting import LIMIT

from fastcep.evaluation.report import Report
from fastcep.report.evaluation import evaluation_table


def text(document: dict[str, object], colour: bool = False) -> str:
    console = Console(width=200, force_terminal=colour, no_color=not colour)
    with console.capture() as capture:
        console.print(evaluation_table(document))
    return capture.get()


def test_rows_and_winners() -> None:
    lines = text(documents.bounds()).splitlines()
    assert "q1: 50,000 events of ds1.csv, 7,327 matches without shedding; virtual clock, cost table paper" in lines[0]
    (won,) = [line for line in lines if "44.0 %" in line]
    assert "rs ★" in won
    assert "0.987" in won
    assert sum("★" in line for line in lines) == 4  # three winners, and the caption
    names = [line.split("│")[2].strip() for line in lines if line.startswith("│")]
    assert names == ["ri", "si", "rs ★", "pm-bl", "oracle"] * 3


def test_rows_that_do_not_count_are_red_with_the_reason_in_the_caption() -> None:
    output = text(documents.bounds(), colour=True)
    (line,) = [line for line in output.splitlines() if "1.567" in line]
    assert "\x1b[31m" in line
    plain = text(documents.bounds())
    assert "200%: ri, si and oracle do not count: detector never fired: nothing was shed" in plain
    assert "10%: si does not count: seed 0: bound not held: mean latency 1.623 of the bound; seed 1: bound" in plain


def test_unknown_is_not_zero() -> None:
    output = text(documents.small())
    assert output.count("n/a") == 5 * 3 * 3
    assert "★" not in output


def test_modes() -> None:
    assert "over bound" in text(documents.rates())
    assert "209 M/s" in text(documents.rates())
    assert "5.77 ns" in text(documents.demands())
    assert "wall clock" in text(documents.wall())


def test_names_are_not_markup() -> None:
    output = text(documents.nasty())
    assert "<b>50%</b>" in output
    assert "\x1b" not in output


def test_the_table_needs_no_drawing_library() -> None:
    code = "import sys, fastcep.report.evaluation; print('matplotlib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT)
    assert run.stdout.strip() == "False"


def test_text_of_a_report() -> None:
    lines = str(Report(documents.bounds())).splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    (heads,) = [line for line in lines if "strategy" in line]
    assert all(head in heads for head in ("recall", "mean/bound", "events", "p. matches"))


def test_rows_in_pandas() -> None:
    report = Report(documents.bounds())
    assert report.to_pandas()["recall"].tolist() == [row["recall"] for row in report.rows]
