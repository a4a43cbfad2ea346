"""Write the tables of ``results/shedding.json`` into docs/shedding.md, behind "## Measured"; nothing is measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.queries import RESULTS

PAGE = Path(__file__).parent.parent / "docs" / "shedding.md"
HEADING = "## Measured\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def by_shedder(rows: Sequence[dict[str, Any]], key: str, cell: Callable[[dict[str, Any]], str]) -> str:
    """A table with a row per shedder and a column per value of ``key``."""
    values = list(dict.fromkeys(row[key] for row in rows))
    names = list(dict.fromkeys(row["shedder"] for row in rows))
    cells = {(row["shedder"], row[key]): cell(row) for row in rows}
    header = ["shedder", *(f"{value:.0%}" for value in values)]
    return table(header, [[name, *(cells[name, value] for value in values)] for name in names])


def kept(rows: Sequence[dict[str, Any]]) -> str:
    """How many runs kept the bound, and which did not."""
    missed = [f"{row['shedder']} at {row['rate']:.0%}" for row in rows if row["within"] < 0.999]
    if not missed:
        return f"All {len(rows)} runs kept 99.9 % within the bound."
    return f"Of {len(rows)} runs {len(rows) - len(missed)} kept 99.9 % within the bound, not {', '.join(missed)}."


def page(results: dict[str, Any]) -> str:
    """All tables, with what they show."""
    where, parts = results["environment"], results["parts"]
    text = [
        f"Q1 over DS1, a million events, a window of 8 ms (about 800 events), seed 1; {where['machine']}, Python "
        f"{where['python']}, {where['date']}, commit {where['commit']}. `python -m bench.shedding` measures again, and "
        "`python -m bench.shedding_page` writes this section.\n",
        "**Bounds on the mean latency** (virtual clock, table `paper`, `index=\"key\"`): mean latency behind the first "
        "2 % as a share of the bound, then recall and, in brackets, its estimate. Columns are bounds as shares of the "
        "mean without shedding.\n",
        by_shedder(
            parts["bounds"]["key"]["rows"], "bound",
            lambda row: f"{row['mean']:.3f}, {row['recall']:.2f} ({row['estimated_recall']:.2f})",
        ),
        "![Recall over the bound, by shedder](images/shedding_bounds.svg)\n",
    ]  # fmt: skip
    for costs in ("paper", "measured"):
        text += [
            f"**More arrives than can be taken** (virtual clock, table `{costs}`, bound = the time of 2,000 events, "
            "`QueueLength()`): the longest event latency as a share of the bound, then recall. Columns are rates as "
            "shares of what is possible."
            + ("" if costs == "paper" else " A decision takes 30 us here and the bound is 0.3 ms, so decisions "
               "are few: from 150 % on the first episode begins too late, and PM-BL, which drops only at decisions, "
               "cannot hold it at 200 % at all.") + "\n",
            by_shedder(
                parts["rates"][costs]["rows"], "rate", lambda row: f"{row['longest']:.2f}, {row['recall']:.2f}"
            ),
        ]  # fmt: skip
    bursts = parts["bursts"]["rows"]
    text += [
        "**Bursts** (a microsecond per operation; 25 % of what is possible, ten times as much for 2 s of every 20 s): "
        "episodes, the longest event latency as a share of the bound, looks between bursts at which load was shed, "
        "bytes held.\n",
        table(
            ["shedder", "bursts", "episodes", "longest", "shed between", "bytes"],
            [[row["shedder"], f"{row['bursts']:.1f}", str(row["episodes"]), f"{row['longest']:.2f}",
              str(row["shed_between"]), f"{row['memory_bytes'][0]:,} to {row['memory_bytes'][1]:,}"] for row in bursts],
        ),
        f"**For real** (wall clock, window of 64 ms, {parts['wall']['maximum'] / 1e6:.2f} M events/s at most, bound "
        "100 ms, `QueueLength(f=0.7)`, 10 s a run, events made by a second thread): share of the events within the "
        "bound behind the first 10 %, the longest event latency in ms, the share of the time that shedding took, "
        "recall and, in brackets, its estimate, how often the thread that replays stalled. Hybrid has a model of "
        "150,000 other events.\n",
        by_shedder(
            parts["wall"]["rows"], "rate",
            lambda row: f"{row['within']:.3%}, {row['longest_ms']:.0f}, {row['overhead']:.1%}, "
            f"{row['recall']:.3f} ({row['estimated_recall']:.3f}), {row['stalls']}",
        ),
        f"{kept(parts['wall']['rows'])} PM-BL drops only at decisions; with a window of 16 ms, which passes in 0.7 ms "
        "here, there are two or three of them, and it holds nothing back.\n",
    ]  # fmt: skip
    text += [
        "**Dropping buys time.** Classes are the values of `a.V + b.V`; those in a random order (seed "
        f"{parts['buys']['key']['seed']}) that hold 60 % of Q1's pairs are refused.\n",
        table(
            ["index", "pairs refused", "operations", "events per CPU second"],
            [[f"`{index}`", f"{own['share_refused']:.1%}", f"{own['fewer_operations']:.2f}x fewer",
              f"{own['faster']:.2f}x"] for index, own in parts["buys"].items()],
        ),
    ]  # fmt: skip
    seconds = parts["ready"]["cpu_seconds"]
    text += [
        "**To be ready** for shedding and not to shed costs CPU time, in ratios to an engine without: "
        f"{seconds['measured'] / seconds['plain']:.2f} with latencies measured, "
        f"{seconds['ready'] / seconds['plain']:.2f} with a shedder, {seconds['classes'] / seconds['plain']:.2f} with "
        "classes.\n",
    ]
    return "\n".join(text)


def main() -> None:
    """Write the section."""
    results = json.loads((RESULTS / "shedding.json").read_text())
    before = PAGE.read_text(encoding="utf-8").partition(HEADING)[0]
    PAGE.write_text(f"{before}{HEADING}\n{page(results)}", encoding="utf-8")


if __name__ == "__main__":
    main()
