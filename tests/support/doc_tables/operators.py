"""Valid combinations of operators.

``PYTHONPATH=.:tests python -m support.doc_tables.operators`` writes the table of them into docs/language.md.
"""

from __future__ import annotations

from pathlib import Path

from strategies import patterns as names
from strategies.patterns import INNER, OUTER, refusal

from support.pages import with_table

PAGE = Path(__file__).resolve().parents[3] / "docs/language.md"
START, END = "<!-- operators: made by tests/support/doc_tables/operators.py -->\n", "<!-- end of operators -->\n"

# A pattern with a gap for the part, and parts. No variable is in two of them.
OUTSIDE = {
    names.SEQ: "SEQ({}, B y)",
    names.AND: "AND({}, B y)",
    names.OR: "OR({}, B y)",
    names.ANY: "ANY(1, {}, B y)",
    names.GROUP: "SEQ(({})+ g[], B y)",
    names.OPTIONAL_GROUP: "SEQ(({})? g, B y)",
    names.APERIODIC: "APERIODIC({}, B y, C z)",
    names.PERIODIC: "PERIODIC({}, 2ns, C z)",
}
INSIDE = {
    names.SEQ: "SEQ(A a, B b)",
    names.AND: "AND(A a, B b)",
    names.OR: "OR(A a, B b)",
    names.ANY: "ANY(1, A a, B b)",
    names.NEG: "NEG A a",
    names.OPTIONAL: "A? a",
    names.KLEENE: "A+ a[]",
    names.BOUNDS: "A{1,2} a[]",
    names.GROUP: "(SEQ(A a, B b))+ h[]",
    names.OPTIONAL_GROUP: "(SEQ(A a, B b))? h",
    names.APERIODIC: "APERIODIC(A a, B b, C c)",
    names.PERIODIC: "PERIODIC(A a, 2ns, C c)",
}
# The error has one of these words.
ERRORS = {
    names.NEG_IN_SEQ: ["NEG"],
    names.ANY_OF_TYPES: ["ANY", "expected"],
    names.NO_LOOP_IN_GROUP: ["group"],
    names.EMPTY_ROUND: ["empty", "bind"],
    names.EMPTY_PART: ["empty", "bind"],
    names.PERIODIC_IS_ALL: ["PERIODIC"],
}
NOTES = [
    "At the beginning or the end of a `SEQ` (everything on one side of it may be left out) only if that `SEQ` is the "
    "whole pattern and the window is `WITHIN t` or `WINDOW`.",
    "Not `T* x[]`, `T{0,n} x[]` and groups that may be left out: see the reason of `T? x`.",
]


def example(outer: str, inner: str) -> str:
    """Return the text of a query in which ``inner`` is a direct part of ``outer``."""
    part = INSIDE[inner]
    if outer in (names.GROUP, names.OPTIONAL_GROUP) and inner not in names.WHOLE:
        part = f"SEQ({part})"
    return f"PATTERN {OUTSIDE[outer].format(part)} WITHIN 10ns"


def notes_of(outer: str, inner: str) -> list[str]:
    """Return the reason why a pair is invalid, or the limits of a valid one."""
    why = refusal(outer, inner)
    if why is not None:
        return [why]
    if inner == names.NEG:
        return [NOTES[0]]
    starts_empty = outer in (names.APERIODIC, names.PERIODIC) and inner in (names.KLEENE, names.BOUNDS, names.GROUP)
    return [NOTES[1]] if starts_empty else []


def markdown() -> str:
    """Return the table: a row for each operator, a column for each direct part; numbers refer to notes below."""
    found = [note for outer in OUTER for inner in INNER for note in notes_of(outer, inner)]
    numbers = {note: number for number, note in enumerate(dict.fromkeys(found), 1)}
    lines = ["| | " + " | ".join(f"`{inner}`" for inner in INNER) + " |", "|---" * (len(INNER) + 1) + "|"]
    for outer in OUTER:
        cells = []
        for inner in INNER:
            notes = ", ".join(str(numbers[note]) for note in notes_of(outer, inner))
            answer = "yes" if refusal(outer, inner) is None else "no"
            cells.append(f"{answer} ({notes})" if notes else answer)
        lines.append(f"| `{outer}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n\n" + "".join(f"{number}. {note}.\n" for note, number in plain(numbers).items())


def plain(numbers: dict[str, int]) -> dict[str, int]:
    """Return notes without the final stop, starting with a capital letter."""
    return {note[:1].upper() + note[1:].rstrip("."): number for note, number in numbers.items()}


def page() -> str:
    """Return the page with the current table."""
    return with_table(PAGE, START, markdown(), END)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
