"""Tables show every column that is not entirely null."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from fastcep.report import format_value, matches_table, paths_table


def text(table: Table) -> str:
    console = Console(width=120, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_values() -> None:
    assert format_value(None) == "-"
    assert format_value([1, None, 3]) == "[1, -, 3]"
    assert format_value(list(range(10))) == "[0, 1, 2, 3, 4, 5, 6, 7, … 2 more]"
    assert format_value(0.1 + 0.2) == "0.3"
    assert format_value("[red]x") == "[red]x"
    assert format_value(datetime(2014, 1, 1, 8, 14)) == "2014-01-01 08:14:00"


def test_matches() -> None:
    table = pa.table(
        {
            "query": ["q", "q"],
            "window_id": pa.array([None, None], pa.int64()),
            "detected_at": pa.array([1_388_534_400_000_000_000, 1_500_000_000], pa.int64()),
            "a": [[1, 2], [3]],
            "names": [["red", "bold"], ["/red"]],
        }
    )
    output = text(matches_table(table, "first matches"))
    assert "window_id" not in output
    assert "first matches" in output
    assert "2014-01-01 00:00:00" in output
    assert "1970-01-01 00:00:01.5 " in output
    assert "[1, 2]" in output
    assert "[red, bold]" in output
    assert "[/red]" in output


def test_paths() -> None:
    output = text(paths_table([(1200, ["Market at 4th", "Ferry"])], "hot"))
    assert "1,200" in output
    assert "Market at 4th → Ferry" in output
