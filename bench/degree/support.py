"""Table I of paper 5 for fastcep: which operators can be divided, by time and by key, from the plans of queries."""

from __future__ import annotations

import fastcep as fc
from bench.degree import page
from bench.section import Section
from fastcep.plan import make_plan
from fastcep.plan.slicing import Context, slicing_of

__all__ = ["QUERIES", "SECTION", "table"]

SECTION = Section(page.SECTION.page, "<!-- results of bench.degree.support -->", "<!-- end of the support -->")

_SCHEMA = fc.Schema({kind: {"k": "int64"} for kind in "ABC"}, time="ts", type="type")

#: Operator: a query without a key.
QUERIES = {
    "time window": "SEQ(A a, B b) WINDOW EVERY 1s CLOSE AFTER 10s",
    "window of events": "SEQ(A a, B b) WINDOW EVERY 10 EVENTS CLOSE AFTER 100 EVENTS",
    "disjunction": "OR(A a, B b) WITHIN 10s",
    "sequence": "SEQ(A a, B b) WITHIN 10s",
    "conjunction": "AND(A a, B b) WITHIN 10s",
    "aperiodic": "APERIODIC(A a, B b, C c) WITHIN 10s",
    "periodic": "PERIODIC(A a, 2s, C c) WITHIN 10s",
    "window that events open and close": "SEQ(A a, B b) WINDOW OPEN ON A o CLOSE ON C x",
}


def table() -> str:
    """Return the table as Markdown."""
    lines = ["| operator | by time | by key, of a query with a key |", "|---|---|---|"]
    for name, text in QUERIES.items():
        longest = 10**10 if "CLOSE ON" in text else None  # with longest_window="10s"
        plain = slicing_of(make_plan(fc.parse(f"PATTERN {text}", _SCHEMA)), longest).time
        pattern, keyword, rest = text.partition(" WITHIN") if " WITHIN" in text else text.partition(" WINDOW")
        keyed = slicing_of(make_plan(fc.parse(f"PATTERN {pattern} WHERE [k]{keyword}{rest}", _SCHEMA)), None).key
        by_time = ("yes, with `longest_window`" if longest else "yes") if isinstance(plain, Context) else f"no: {plain}"
        by_key = "yes" if not isinstance(keyed, str) else f"no: {keyed}"
        lines.append(f"| {name}: `{text.replace('|', '')}` | {by_time} | {by_key} |")
    return "\n".join(lines)


if __name__ == "__main__":
    SECTION.write(table())
