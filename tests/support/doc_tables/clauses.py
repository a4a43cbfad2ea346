"""Valid combinations of clauses with patterns and windows.

``PYTHONPATH=.:tests python -m support.doc_tables.clauses`` writes the table of them into docs/language.md.
"""

from __future__ import annotations

from pathlib import Path

from fastcep.errors import ParseError
from fastcep.events import Schema
from fastcep.query import parse
from support.pages import with_table

PAGE = Path(__file__).resolve().parents[3] / "docs/language.md"
START, END = "<!-- clauses: made by tests/support/doc_tables/clauses.py -->\n", "<!-- end of clauses -->\n"
SCHEMA = Schema({name: {"v": "int64"} for name in "ABN"}, type="kind")

SPANS = ["WITHIN 1h", "WITHIN 5 EVENTS", "WITHIN UNBOUNDED"]
EXPLICIT = [
    "WINDOW EVERY 1min CLOSE AFTER 5min",
    "WINDOW OPEN ON A o CLOSE AFTER 9 EVENTS",
    "WINDOW EVERY 5s CLOSE ON B c",
]
BOTH = [SPANS[0], *EXPLICIT]
TWO = "SEQ(A a, B b)"
LIMIT = "LIMIT 3 PER WINDOW"

ROWS = {
    "`STRATEGY skip_till_next`, `strict_contiguity`": ["STRATEGY skip_till_next", "STRATEGY strict_contiguity"],
    "`STRATEGY partition_contiguity`": ["STRATEGY partition_contiguity"],
    "`SELECT first`, `last`": ["SELECT first", "SELECT last"],
    "`SELECT cumulative`": ["SELECT cumulative"],
    "`SELECT longest`": ["STRATEGY skip_till_next SELECT longest", "STRATEGY strict_contiguity SELECT longest"],
    "`CONSUME consumed`": ["CONSUME consumed"],
    "`LIMIT k PER WINDOW`": [LIMIT],
    "`AFTER MATCH SKIP …`": [
        "AFTER MATCH SKIP TO NEXT",
        "AFTER MATCH SKIP PAST LAST",
        "AFTER MATCH SKIP TO LAST b",
    ],
    "`WEIGHT w`": ["WEIGHT 2"],
}
# A pattern, the windows that it is combined with, PARTITION BY and RETURN.
COLUMNS = {
    "`WITHIN`": (TWO, SPANS, "PARTITION BY v", ""),
    "`WINDOW`": (TWO, EXPLICIT, "PARTITION BY v", ""),
    "no `PARTITION BY`": (TWO, BOTH, "", ""),
    "leading `NEG`": ("SEQ(NEG N n, A a, B b)", BOTH, "PARTITION BY v", ""),
    "trailing `NEG`": ("SEQ(A a, B b, NEG N n)", BOTH, "PARTITION BY v", ""),
    "`PERIODIC`": ("PERIODIC(A a, 1s, B b)", SPANS[:1], "PARTITION BY v", ""),
    "`RETURN`": (TWO, BOTH, "PARTITION BY v", "RETURN a.v"),
}
# Part of the error message -> the reason in the table.
REASONS = {
    "needs PARTITION BY": "It requires adjacent events of a partition; `[a]` in `WHERE` does not define partitions.",
    "LIMIT needs": "It counts the matches of explicit windows.",
    "is decided only when": "Such a match is decided only when the window ends, which is later than its last event.",
    "is decided only after": "A tick is decided only after its time has passed.",
    "RETURN describes": "`RETURN` describes a single match.",
}


def refusal(row: str, column: str) -> str | None:
    """Return the reason why a clause cannot be combined, which must be the same for all queries; None if it can."""
    pattern, windows, partition, output = COLUMNS[column]
    found: set[str | None] = set()
    for clause in ROWS[row]:
        # The column of WITHIN shows where LIMIT is never possible.
        for window in EXPLICIT if clause == LIMIT and windows is BOTH else windows:
            try:
                parse(f"PATTERN {pattern} {window} {partition} {clause} {output}", SCHEMA)
                found.add(None)
            except ParseError as error:
                found.update(reason for words, reason in REASONS.items() if words in error.message)
    (one,) = found
    return one


def markdown() -> str:
    """Return the table: a row for each clause; the numbers refer to the reasons below."""
    cells = {(row, column): refusal(row, column) for row in ROWS for column in COLUMNS}
    numbers = {reason: number for number, reason in enumerate(dict.fromkeys(filter(None, cells.values())), 1)}
    lines = ["| | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for row in ROWS:
        answers = [cells[row, column] for column in COLUMNS]
        shown = ["yes" if reason is None else f"no ({numbers[reason]})" for reason in answers]
        lines.append(f"| {row} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n\n" + "".join(f"{number}. {reason}\n" for reason, number in numbers.items())


def page() -> str:
    """Return the page with the current table."""
    return with_table(PAGE, START, markdown(), END)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
