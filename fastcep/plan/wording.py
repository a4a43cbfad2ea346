"""Plan expressions as text: in the language's words where it has them."""

from __future__ import annotations

from fastcep.plan.ir import Op
from fastcep.query import ast, expression_text
from fastcep.query.patterns import groups_of, leaves_of
from fastcep.query.printer import name_text

__all__ = ["attribute_text", "describe"]

_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "^",
    "eq": "=", "ne": "!=", "lt": "<", "le": "<=", "and": "AND", "or": "OR", "guard": "IMPLIES",
}  # fmt: skip
_SUFFIXES = ("_i", "_f", "_s", "_b")


def attribute_text(name: str) -> str:
    """An attribute's name as it stands behind a dot."""
    return name_text(name, anywhere=True)


def describe(expr: Op, query: ast.Query) -> str:
    """Text of a plan expression.

    Beyond the language: ``x[last-1].a`` is the element before the last, ``known(x)`` says that x is not null,
    ``a IMPLIES b`` that b need only hold if a does, ``partition.a`` is the partition's value of an attribute.
    """
    text, whole = _form(expr, query)
    return text[1:-1] if whole else text


def _form(node: Op, query: ast.Query) -> tuple[str, bool]:
    """The text, and whether it is one pair of parentheses."""

    def show(part: Op) -> str:
        return _form(part, query)[0]

    data = node.data
    if node.name == "const":
        return expression_text(ast.Literal(data[0])), False
    if node.name in ("event", "neg"):
        return f"{_variable(data[0], query)}.{attribute_text(data[1])}", False
    if node.name == "elem":
        offset = f"{data[1]:+d}" if data[1] else ""
        return f"{_variable(data[0], query)}[i{offset}].{attribute_text(data[2])}", False
    if node.name == "q":
        return _quantity(query, *data), False
    base = node.name[:-2] if node.name.endswith(_SUFFIXES) else node.name
    args = [show(arg) for arg in node.args]
    if base in ("i2f", "key"):
        return _form(node.args[0], query)
    if base in _SYMBOLS and len(args) == 2:
        return f"({args[0]} {_SYMBOLS[base]} {args[1]})", True
    if base == "partition":
        return f"({args[0]} = {args[1]})", True
    if base == "call":
        return f"{data[0].name}({', '.join(args)})", False
    if base in ("neg", "not"):
        return f"{'-' if base == 'neg' else 'NOT '}{args[0]}", False
    return f"{base}({', '.join(args)})", False


def _variable(member: int, query: ast.Query) -> str:
    leaves = leaves_of(query.pattern)
    if member >= len(leaves):
        groups = [group for group in groups_of(query.pattern) if group.repeated]
        return name_text(groups[member - len(leaves)].variable)
    leaf = leaves[member]
    own = name_text(leaf.member.variable)
    return own if leaf.group is None else f"{name_text(leaf.group.variable)}.{own}"


def _quantity(query: ast.Query, kind: str, member: int, extra: int | str, attribute: str) -> str:
    name = attribute_text(attribute) if attribute else ""
    if kind == "part":
        return f"partition.{name}"
    variable = _variable(member, query)
    leaves = leaves_of(query.pattern)
    if member < len(leaves) and not leaves[member].repeated:
        return f"{variable}.{name}" if kind == "first" else f"count({variable})"
    if kind.startswith("has_"):
        place = str(extra) if kind == "has_at" else kind.removeprefix("has_")
        return f"bound({variable}[{place}])"
    if kind == "count":
        return f"COUNT({variable}[])"
    if kind == "first":
        return f"{variable}[first].{name}"
    if kind == "last":
        return f"{variable}[last{f'-{extra}' if extra else ''}].{name}"
    if kind == "at":
        return f"{variable}[{extra}].{name}"
    return f"{'COUNT' if kind == 'known' else kind.upper()}({variable}[].{name})"
