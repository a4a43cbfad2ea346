"""The table of docs/matrix.md: how often combinations were drawn, and which are rejected."""

from __future__ import annotations

from pathlib import Path

from matrix.clauses import CLAUSES
from matrix.runs import PATHS
from matrix.tally import Tally, all_pairs, alternatives

PAGE = Path(__file__).resolve().parents[2] / "docs/matrix.md"

_HEAD = """# Clauses and paths that are tested together

Every clause of the language and every way of running a query is drawn independently by one test strategy
(`tests/matrix`), and each run is compared with the reference matcher: matches, order, times, `RETURN`, late events,
partial matches that time out. The tables below say how often each pair was drawn together.

A cell is a number of queries, or a letter: the pair is rejected with an error, for the reason below the table.
A dot: a query has only one of the two. `python -m matrix --write` (with `PYTHONPATH=.:tests`) makes this page, and
`make check` fails if a cell is empty.

"""


def page(tally: Tally, run: str) -> str:
    """Return the text of the page; ``run`` is a sentence that describes the run."""
    reasons = list(dict.fromkeys(reason for (_, reason) in tally.refused if reason))
    letters = {reason: _letter(number) for number, reason in enumerate(reasons)}
    drawn = sum(bool(tally.together[pair]) for pair in all_pairs())
    refused = sum(not tally.together[pair] and tally.reason(pair) is not None for pair in all_pairs())
    text = _HEAD + (
        f"{run} Of {len(all_pairs()):,} cells, {drawn:,} were drawn and {refused:,} are rejected.\n\n"
    )
    text += "## Clause and path\n\n" + _table(tally, PATHS, letters)
    text += "\n## Clause and clause\n\n" + _table(tally, CLAUSES, letters)
    return text + "\n## Why pairs are rejected\n\n" + "".join(
        f"- **{letters[reason]}**: {reason}\n" for reason in reasons
    )


def _letter(number: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[number % 26] * (1 + number // 26)


def _table(tally: Tally, columns: tuple[str, ...], letters: dict[str, str]) -> str:
    head = "| | " + " | ".join(f"`{_escaped(name)}`" for name in columns) + " |\n" + "|---" * (len(columns) + 1) + "|\n"
    rows = []
    for one in CLAUSES:
        cells = [_cell(tally, one, other, letters) for other in columns]
        rows.append(f"| `{_escaped(one)}` | " + " | ".join(cells) + " |\n")
    return head + "".join(rows)


def _escaped(name: str) -> str:
    return name.replace("|", "\\|")


def _cell(tally: Tally, one: str, other: str, letters: dict[str, str]) -> str:
    if one == other or alternatives(one, other):
        return "·"
    pair = (one, other)
    if other in CLAUSES and CLAUSES.index(other) < CLAUSES.index(one):
        pair = (other, one)
    count = tally.together[pair]
    if count:
        return f"{count:,}"
    reason = tally.reason(pair)
    return "" if reason is None else letters[reason]
