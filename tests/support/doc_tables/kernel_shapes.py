"""A fixed list of shapes on which both tiers and the reference must agree: conditions and values as users write them.

Attributes of ``a`` and ``b``: int64 i j, float64 x y, bool p q, string s t. A shape is called in one of the ways in
which the engine calls a program (``WAYS``); the list uses them in turn.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

#: Ways of calling: role of the program, and the kind of input that holds the attributes of ``a`` and of ``b``.
WAYS = {
    "bucket": ("predicate", "row", "event"),
    "elements": ("predicate", "elem", "out"),
    "registers": ("outputs", "row", "event"),
    "events": ("column", "event", "event"),
    "returned": ("whole", "event", "event"),
}
_FILTERING, _STORING = ("bucket", "elements", "events"), ("registers", "events", "returned")


@dataclass(frozen=True)
class Shape:
    """Conditions of a filter (``WHERE`` conjuncts), or one value to store."""

    texts: tuple[str, ...]
    filters: bool
    way: str

    def __str__(self) -> str:
        return f"{self.way}: {' AND '.join(self.texts)}"


COMPARE = ("=", "!=", "<", "<=", ">", ">=")
COMPARISONS = [
    text.format(op=op)
    for op in COMPARE
    for text in ("a.i {op} b.i", "b.x {op} a.y", "a.i {op} b.x", "a.i {op} 3", "a.x {op} 2.5")
]
STRINGS_AND_BOOLS = [
    "a.s = b.s", "a.s != b.t", "a.s = 'u'", "a.s IN {'u', 'v', 'w'}", "b.s NOT IN {'u', 'v'}",
    "a.p = b.q", "a.p != a.q", "a.p AND b.q", "a.p OR b.q", "NOT a.p", "NOT (a.p AND b.q) OR a.q",
    "a.p = TRUE", "(a.p OR b.p) AND (a.q OR NOT b.q)", "NOT (a.p OR b.q)", "a.p AND NOT b.p AND a.q OR b.q",
    "a.s = 'nowhere'", "b.p", "b.s = 'v' OR a.s = 'u'",
]  # fmt: skip
RANGES = [
    "a.i IN {1, 2, -3}", "a.i NOT IN {0, 7}", "a.i + b.i IN {0, 1}", "a.x IN {1.5, 0.0}", "a.x BETWEEN b.x AND 3.0",
    "a.i BETWEEN -2 AND b.j", "NOT (a.i BETWEEN 0 AND 2)", "a.i * 2 BETWEEN b.i AND b.i + 3", "b.y BETWEEN a.x AND a.y",
    "a.i BETWEEN a.x AND b.x", "a.i IN {1, 2, 4, 6, 8, 10, 12, 14, 16}",
    "NOT (a.x + b.x IN {0, 2, 4, 6, 8, 9, 1.5, 2.5, 3.0})",
    "a.x NOT IN {-0.0, 1.5, 4, 5, 6, 7, 8, 9, 10.0}", "a.i IN {1, 2.0, 3, 4.5, 5, 6, 7, 8, 9, NULL}",
    "b.s IN {'u', 'n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7', 'n8'}",
]  # fmt: skip
LOGIC = [
    "a.i < b.i OR a.x < b.x", "NOT (a.i < b.i) OR a.j = 3", "a.i = b.i OR a.i + 1 = b.i OR a.i - 1 = b.i",
    "NOT (a.i = b.i AND NOT a.x < b.x)", "(a.i < b.i AND a.p) OR (a.j > b.j AND NOT a.p)",
    "a.i // b.i = 1 OR b.i = 0", "NOT (a.i * b.i > 10 OR a.p)", "a.x != a.x OR a.i = 1",
    "(a.i + b.i < 9 OR a.j - b.j > 0) AND a.i != 5", "a.i % 2 = 0 AND b.i % 2 = 0 OR a.p",
]  # fmt: skip
INTEGERS = [
    text.format(op=op)
    for op in ("+", "-", "*", "//", "%")
    for text in ("a.i {op} b.i", "b.i {op} a.i", "a.i {op} 3", "7 {op} a.j", "(a.i {op} b.j) {op} a.j")
]
FLOATS = [
    text.format(op=op)
    for op in ("+", "-", "*", "/", "//", "%", "^")
    for text in ("a.x {op} b.x", "b.y {op} a.x", "a.x {op} 0.5", "a.i {op} b.x")
]
FUNCTIONS = [
    "sqrt(a.x)", "exp(a.x)", "log(a.x)", "floor(a.x)", "abs(a.x)", "abs(a.i)", "floor(b.y)", "sqrt(b.i)", "log(a.i)",
    "exp(b.x - a.y)", "min(a.i, b.i)", "max(a.i, b.i, 3)", "min(a.x, b.x)", "max(a.x, b.y, a.y)", "min(a.i, b.x)",
    "max(b.i, a.x)", "avg(a.i, b.i)", "avg(a.x, b.x, a.i)", "-a.i", "-b.x", "-(a.i + b.i)", "abs(a.i - b.i)",
    "floor(a.x / b.x)", "sqrt(a.x * a.x + b.y * b.y)", "-a.i * b.i + a.j", "min(abs(a.i), abs(b.i)) * 2",
    "a.x * b.x + a.y * b.y", "(a.i + b.i) * (a.i - b.i)", "a.i * 1.5 - b.i / 3", "2 ^ a.i", "a.time - b.time",
    "a.seq + 1",
]  # fmt: skip
SEVERAL = [
    ("a.i < b.i", "a.j > 3", "a.i + a.j < b.j"),
    ("a.x < b.x", "a.y > 0.5", "a.x + a.y < b.y"),
    ("a.i < b.i", "a.i // b.i = 0", "a.j < b.j"),
    ("a.i // a.j < 5", "a.i % b.i = 1", "a.i * b.i > 0"),
    ("a.p", "a.i + b.i > 0", "a.i - b.i < 0"),
    ("a.s = b.s", "a.x ^ 2.0 < b.x", "exp(a.y) > 1.0"),
    ("a.i * a.i < 100", "a.i * a.j < 100", "a.i * b.j < 100"),
    ("b.i > 0", "a.i > b.i"),
    ("a.x * a.x + a.y * a.y < b.x", "a.i != b.i"),
    ("a.p OR b.p", "a.i + 1 = b.i", "NOT a.q"),
    ("a.i + b.i = a.j", "-a.i < b.i", "abs(a.i) < 9"),
    ("a.x // b.x > 0.0", "a.x % b.x > 0.0"),
    ("a.i < 5", "b.i > 1", "a.x < 3.0", "a.y > -3.0", "a.p", "a.s != 'w'"),
    ("min(a.i, b.i) > 0", "max(a.x, b.x) < 100.0"),
    ("a.i IN {1, 2, 3}", "a.j NOT IN {4, 5}", "a.x BETWEEN 0.0 AND 9.0"),
    ("log(a.x) < b.y", "sqrt(a.y) < 2.0"),
]


def generated(number: int, seed: int = 20) -> list[tuple[str, bool]]:
    """Generate random conditions and values, the same ones for a seed."""
    draw = random.Random(seed)

    def value(depth: int) -> str:
        if depth == 0 or draw.random() < 0.2:
            return draw.choice([*(f"{v}.{n}" for v in "ab" for n in "ijxy"), "2", "-1", "0.5"])
        one, other = value(depth - 1), value(depth - 1)
        return draw.choice([
            f"({one} + {other})", f"({one} - {other})", f"({one} * {other})", f"({one} // {other})",
            f"({one} % {other})", f"({one} / {other})", f"min({one}, {other})", f"max({one}, {other})",
            f"abs({one})", f"-({one})",
        ])  # fmt: skip

    def truth(depth: int) -> str:
        if depth == 0 or draw.random() < 0.3:
            return draw.choice(["a.p", "b.q", f"{value(1)} {draw.choice(COMPARE)} {value(2)}"])
        one, other = truth(depth - 1), truth(depth - 1)
        return draw.choice([f"({one} AND {other})", f"({one} OR {other})", f"(NOT {one})"])

    return [(truth(3), True) if n % 2 else (value(3), False) for n in range(number)]


def _in_turn() -> list[Shape]:
    conditions = [*COMPARISONS, *STRINGS_AND_BOOLS, *RANGES, *LOGIC]
    values = [*INTEGERS, *FLOATS, *FUNCTIONS]
    parts: list[tuple[tuple[str, ...], bool]] = [((text,), True) for text in conditions]
    parts += [((text,), False) for text in values]
    parts += [(texts, True) for texts in SEVERAL for _ in range(2)]
    parts += [((text,), filters) for text, filters in generated(24)]
    shapes = []
    for number, (texts, filters) in enumerate(parts):
        ways = _FILTERING if filters else _STORING
        shapes.append(Shape(texts, filters, ways[number % len(ways)]))
    return shapes


SHAPES = _in_turn()
