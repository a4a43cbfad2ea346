"""Text of plan expressions, in the syntax of the query language where possible."""

from __future__ import annotations

from functools import lru_cache

from fastcep.plan.ir import POSITION, PREVIOUS, Op
from fastcep.plan.text import TextCall
from fastcep.query import ast, expression_text
from fastcep.query.patterns import groups_of, pattern_variables
from fastcep.query.printer import name_text

__all__ = ["attribute_text", "describe"]

_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "^",
    "eq": "=", "ne": "!=", "lt": "<", "le": "<=", "and": "AND", "or": "OR", "guard": "IMPLIES",
}  # fmt: skip
#: Length beyond which further operations are omitted, and number of values of a set that are written.
MAX_LENGTH = 2000
MAX_VALUES = 3
_SUFFIXES = ("_i", "_f", "_s", "_b")
_PLACES = {POSITION: "position", PREVIOUS: "previous"}


def attribute_text(name: str) -> str:
    """Return the text of an attribute's name after a dot."""
    return name_text(name, anywhere=True)


def describe(expr: Op, query: ast.Query) -> str:
    """Return the text of a plan expression.

    Notation in addition to the language: ``SUM(x[..last-2].a)`` is the sum without the last two elements. ``offset(x,
    zone)`` is local time minus UTC at the time x, and ``local_offset(x, zone)`` at the local time x. ``g[last] binds
    a`` is true if the last round of the group binds its variable a. ``a IMPLIES b`` requires b only if a holds.
    ``partition.a`` is the partition's value of an attribute, and ``first.time`` the time of the match's first event.
    ``latest(x, y)`` is the position of the last event that x or y binds, ``latest(x, y).time`` its time,
    ``position(x)`` that of the event itself, and ``previous(x)`` that of the event right before it.
    """
    text, parenthesised = _writer(query.pattern).form(expr)
    return text[1:-1] if parenthesised else text


def _tests_null(node: Op) -> bool:
    while node.name == "not":
        node = node.args[0]
    return node.name.startswith("known_")


class _Writer:
    """Writer of expressions over the variables of one pattern."""

    def __init__(self, pattern: ast.Pattern) -> None:
        self.variables = pattern_variables(pattern)
        self.groups = [group for group in groups_of(pattern) if group.repeated]

    def form(self, node: Op) -> tuple[str, bool]:
        """Return the text, and whether one pair of parentheses encloses it."""
        node, chain = node.spine()
        text, parenthesised = self.leaf(node)
        for written, outer in enumerate(chain):
            if len(text) > MAX_LENGTH:
                return f"{text} … {len(chain) - written:,} more operations", False
            text, parenthesised = self.around(outer, text, parenthesised)
        return text, parenthesised

    def leaf(self, node: Op) -> tuple[str, bool]:
        """Return the text of an expression without operands."""
        data = node.data
        if node.name == "const":
            return expression_text(ast.Literal(data[0])), False
        if node.name == "event" and data[1] in _PLACES:
            return f"{_PLACES[data[1]]}({self.variable(data[0])})", False
        if node.name == "event":
            return f"{self.variable(data[0])}.{attribute_text(data[1])}", False
        if node.name == "neg":
            repeated = self.variables[data[0]].repeated
            return f"{self.variable(data[0], '[i]' if repeated else '')}.{attribute_text(data[1])}", False
        if node.name == "next":
            return f"{self.variable(data[0], '[i+1]')}.{attribute_text(data[1])}", False
        if node.name == "elem":
            index = f"[i{data[1]:+d}]" if data[1] else "[i]"
            return f"{self.variable(data[0], index)}.{attribute_text(data[2])}", False
        if node.name == "run":
            end = f"[..i{data[1]:+d}]" if data[1] else "[..i]"
            return self.aggregate(data[2], data[0], end, data[4]), False
        if node.name == "q" and data[0] == "before":
            return self.aggregate(data[3][0], data[1], f"[..last-{data[2]}]", data[3][2]), False
        if node.name == "q" and data[0] in ("latest", "latest_time"):
            return f"latest({', '.join(map(self.variable, data[3]))}){'.time' * (data[0] != 'latest')}", False
        if node.name == "q":
            return self.quantity(*data)
        assert node.name == "call", node.name
        return f"{data[0].name}()", False

    def around(self, node: Op, text: str, parenthesised: bool) -> tuple[str, bool]:
        """Return the text of an operation, given the text of its first operand."""
        data = node.data
        base = node.name[:-2] if node.name.endswith(_SUFFIXES) else node.name
        if base in ("i2f", "key"):
            return text, parenthesised
        args = [text, *(self.form(arg)[0] for arg in node.args[1:])]
        if base == "in":
            values = [expression_text(ast.Literal(value)) for value in data[0].values[:MAX_VALUES]]
            omitted = len(data[0].values) - len(values)
            return f"({text} IN {{{', '.join(values)}{f', … {omitted:,} omitted' if omitted else ''}}})", True
        if base in _SYMBOLS and len(args) == 2:
            return f"({args[0]} {_SYMBOLS[base]} {args[1]})", True
        if base == "partition":
            return f"({args[0]} = {args[1]})", True
        if base in ("call", "text") and isinstance(data[0], TextCall):
            return data[0].text(args), data[0].text(args).startswith("(")
        if base == "known":
            return f"({text} IS NOT NULL)", True
        if base == "not" and text.endswith((" IS NULL)", " IS NOT NULL)")) and _tests_null(node.args[0]):
            other = text.endswith(" IS NULL)") * "NOT "
            return f"{text.removesuffix('NULL)').removesuffix('NOT ')}{other}NULL)", True
        if base == "select":
            return f"CASE WHEN {args[0]} THEN {args[1]} ELSE {args[2]} END", False
        if base == "zone":
            return f"{'local_' * data[0].by_local_time}offset({args[0]}, '{data[0].name}')", False
        if base == "call":
            return f"{data[0].name}({', '.join(args)})", False
        if base in ("neg", "not"):
            return f"{'-' if base == 'neg' else 'NOT '}{args[0]}", False
        return f"{base}({', '.join(args)})", False

    def variable(self, number: int, index: str = "") -> str:
        """Return a variable or a repeated group with an index; in a group the index follows the group's name."""
        if number >= len(self.variables):
            return name_text(self.groups[number - len(self.variables)].name) + index
        variable = self.variables[number]
        if variable.group is None:
            return name_text(variable.declaration.name) + index
        return f"{name_text(variable.group.name)}{index}.{attribute_text(variable.declaration.name)}"

    def quantity(self, kind: str, number: int, extra: int | str, attribute: str) -> tuple[str, bool]:
        """Return the text of a quantity of a partial match (`fastcep.plan.rewrite`)."""
        name = f".{attribute_text(attribute)}" if attribute else ""
        if kind == "part" and attribute == "time":
            return "first.time", False
        if kind == "part":
            return f"partition{name}", False
        if number < len(self.variables) and not self.variables[number].repeated:
            return f"{self.variable(number)}{name}" if kind == "first" else f"count({self.variable(number)})", False
        place = kind.removeprefix("has_")
        if place in ("first", "last", "at"):
            index = f"[{extra}]" if place == "at" else f"[last-{extra}]" if place == "last" and extra else f"[{place}]"
            if place == kind:
                return f"{self.variable(number, index)}{name}", False
            group = self.variables[number].group
            assert group is not None, "has_… quantities exist only for variables in a group"
            name = name_text(self.variables[number].declaration.name)
            return f"({name_text(group.name)}{index} binds {name})", True
        return self.aggregate(kind, number, "[]", attribute), False

    def aggregate(self, kind: str, number: int, elements: str, attribute: str) -> str:
        """Return the text of an aggregate; ``elements`` is ``[]``, or the range of a running aggregate."""
        function = "COUNT" if kind in ("count", "known") else kind.upper()
        name = f".{attribute_text(attribute)}" if attribute else ""
        return f"{function}({self.variable(number, elements)}{name})"


# Cached, because a plan has hundreds of texts, and each needs the variables of the pattern.
_writer = lru_cache(maxsize=8)(_Writer)
