"""Canonical text of expressions, patterns and queries: parsing it gives the same nodes back."""

from __future__ import annotations

import re

from fastcep.errors import shortened
from fastcep.events.units import format_duration, iso_time
from fastcep.query import ast

__all__ = [
    "KEYWORDS", "bound_text", "bounds_text", "expression_text", "name_text", "one_line", "pattern_text",
    "short_text", "skip_text", "string_text", "to_text", "window_text",
]  # fmt: skip

# Keywords of the grammar; a name equal to one of them is written in double quotes, except after a dot.
KEYWORDS = frozenset(
    """
    after and any aperiodic as between by case close consecutive consume distinct else end escape event events
    every false first for format from header in is last like limit match neg next no not null on open or other
    partition past pattern per periodic query return select seq sequence skip strategy stream then time to true
    type types unbounded unit until weight when where window within zone
    """.split()  # noqa: SIM905  # a column of 67 words reads no better
)
_QUOTED_OR_SPACE = re.compile(r"""'[^']*'|"[^"]*"|\s+""")
_PLAIN = re.compile(r"[^\W\d]\w*")

# Precedence of each form; an operand with a lower precedence than its place requires gets parentheses.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _UNARY, _POWER, _ATOM = range(9)
_LEVELS = {
    "OR": _OR, "AND": _AND, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT,
    "^": _POWER,
}  # fmt: skip


def name_text(name: str, *, anywhere: bool = False) -> str:
    """Return a name for the grammar: in double quotes unless it is an identifier and not a keyword.

    Set ``anywhere`` where the grammar allows only a name (after a dot, QUERY and AS), so that keywords need no quotes.
    """
    if _PLAIN.fullmatch(name) and (anywhere or name.lower() not in KEYWORDS):
        return name
    return '"' + name.replace('"', '""') + '"'


def string_text(text: str) -> str:
    """Return a string constant in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def expression_text(node: ast.Expr) -> str:
    """Return the canonical text of an expression."""
    return _write(node, _OR)


def short_text(node: ast.Expr) -> str:
    """Return the text of an expression for a message, shortened if it is long."""
    return shortened(expression_text(node))


def _write(node: ast.Expr, place: int) -> str:
    text, level = _form(node)
    return f"({text})" if level < place else text


def _form(node: ast.Expr) -> tuple[str, int]:
    match node:
        case ast.Literal():
            return _literal(node.value)
        case ast.DurationLiteral():
            return format_duration(node.nanoseconds), _ATOM
        case ast.TimestampLiteral():
            return f"TIMESTAMP '{iso_time(node.nanoseconds)}'", _ATOM
        case ast.Attribute():
            text = f"{name_text(node.variable)}{index_text(node.index)}{_path(node)}"
            return previous_text(text, node.places), _ATOM
        case ast.AttributeList():
            return f"{name_text(node.variable)}[]{_path(node)}", _ATOM
        case ast.Aggregate():
            elements = index_text(node.index, so_far=True)
            return f"{node.function}({name_text(node.variable)}{elements}{_path(node)})", _ATOM
        case ast.Call():
            return _call(node)
        case ast.UserCall():
            return f"{node.signature.name}({', '.join(map(expression_text, node.arguments))})", _ATOM
        case ast.SameAttributes():
            return f"[{', '.join(map(name_text, node.names))}]", _ATOM
        case ast.Unary():
            return _unary(node)
        case ast.Binary():
            return _binary(node)
        case ast.Membership():
            values = ", ".join(map(expression_text, node.values))
            keyword = "NOT IN" if node.negated else "IN"
            return f"{_write(node.operand, _SUM)} {keyword} {{{values}}}", _COMPARISON
        case ast.Between():
            low, high = _write(node.low, _SUM), _write(node.high, _SUM)
            return f"{_write(node.operand, _SUM)} BETWEEN {low} AND {high}", _COMPARISON
    raise TypeError(f"no text for {type(node).__name__}")


def _call(node: ast.Call) -> tuple[str, int]:
    first, *others = node.arguments
    if node.function == "is null":
        return f"{_write(first, _SUM)} IS NULL", _COMPARISON
    if node.function == "like":
        pattern, *escape = (_write(other, _SUM) for other in others)
        return f"{_write(first, _SUM)} LIKE {pattern}{''.join(' ESCAPE ' + text for text in escape)}", _COMPARISON
    texts = list(map(expression_text, node.arguments))
    if node.function == "case":
        pairs = [f"WHEN {texts[number]} THEN {texts[number + 1]}" for number in range(0, len(texts) - 1, 2)]
        return f"CASE {' '.join(pairs)}{f' ELSE {texts[-1]}' if len(texts) % 2 else ''} END", _ATOM
    return f"{node.function}({', '.join(texts)})", _ATOM


def _literal(value: int | float | str | bool | None) -> tuple[str, int]:
    if value is None:
        return "NULL", _ATOM
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE", _ATOM
    if isinstance(value, str):
        return string_text(value), _ATOM
    # Python writes infinity as a word; the grammar reads it as a number that is too large.
    text = repr(value).replace("inf", "1e999")
    return text, _UNARY if text.startswith("-") else _ATOM


def _path(node: ast.Attribute | ast.Aggregate | ast.AttributeList) -> str:
    return "".join("." + name_text(name, anywhere=True) for name in (node.inner, node.name) if name is not None)


def previous_text(text: str, places: int) -> str:
    """Return the text of an attribute of an event (0) or, with ``prev``, of one that is some places before it."""
    return f"prev({text}{f', {places}' if places > 1 else ''})" if places else text


def index_text(index: ast.Index | None, so_far: bool = False) -> str:
    """Return the text of an index; ``so_far``: of the elements of an aggregate, ``[]``, ``[..i]`` or ``[..i-1]``."""
    if index is None:
        return "[]" if so_far else ""
    if index.kind == "relative":
        return f"[{'..' if so_far else ''}i{format(index.offset, '+d') if index.offset else ''}]"
    if index.kind == "last" and index.offset:
        return f"[last{index.offset}]"
    return f"[{index.offset if index.kind == 'position' else index.kind}]"


def _unary(node: ast.Unary) -> tuple[str, int]:
    if node.operator == "NOT":
        return f"NOT {_write(node.operand, _NOT)}", _NOT
    # `-5` is a constant and `--` starts a comment, so signed constants and repeated signs keep their parentheses.
    number = isinstance(node.operand, ast.Literal) and not isinstance(node.operand.value, str | bool | None)
    nested = isinstance(node.operand, ast.Unary)
    return f"-{_write(node.operand, _ATOM + 1 if number or nested else _UNARY)}", _UNARY


def _binary(node: ast.Binary) -> tuple[str, int]:
    first, chain = node.spine()
    text, level = _form(first)
    parts, opened = [text], 0
    for link in chain:
        inner, level = level, _LEVELS.get(link.operator, _COMPARISON)
        left, right = level, level + 1
        if level == _COMPARISON:
            left = right = _SUM
        elif level == _POWER:
            left, right = _ATOM, _UNARY
        if inner < left:
            opened += 1
            parts.append(")")
        parts.append(f" {link.operator} {_write(link.right, right)}")
    return "(" * opened + "".join(parts), level


# ------------------------------------------------------------------------------ query


def to_text(query: ast.Query) -> str:
    """Return the canonical text of a query.

    Parameters
    ----------
    query
        A query, parsed or built.

    Returns
    -------
    str
        Lines ``QUERY …``, ``PATTERN …`` and so on; ``parse(to_text(query), query.schema) == query``.
    """
    lines = [
        f"QUERY {name_text(query.name, anywhere=True)}",
        f"PATTERN {pattern_text(query.pattern)}",
    ]
    if query.where is not None:
        lines.append("WHERE " + "\n  AND ".join(_left_conjuncts(query.where)))
    lines.append(window_text(query.window))
    if query.partition:
        lines.append(f"PARTITION BY {', '.join(map(name_text, query.partition))}")
    lines += _policies(query)
    if query.returns:
        lines.append(f"RETURN {', '.join(map(_return_item, query.returns))}")
    return "\n".join(lines) + "\n"


def _left_conjuncts(where: ast.Expr) -> list[str]:
    # Only the left spine of ANDs is split: a right-nested AND is a different tree and keeps its parentheses.
    terms: list[str] = []
    while isinstance(where, ast.Binary) and where.operator == "AND":
        terms.append(_write(where.right, _NOT))
        where = where.left
    terms.append(_write(where, _NOT) if terms else expression_text(where))
    return terms[::-1]


def pattern_text(pattern: ast.Pattern) -> str:
    """Return the canonical text of a pattern or of a part of one."""
    match pattern:
        case ast.Variable():
            return f"{_types(pattern.types)}{_repeats(pattern)}"
        case ast.Negation():
            silence = "" if pattern.nanoseconds is None else f" FOR {format_duration(pattern.nanoseconds)}"
            return f"NEG {_types(pattern.types)} {name_text(pattern.name)}{silence}"
        case ast.Sequence():
            prefixes = ("NEXT " if index in pattern.adjacent else "" for index in range(len(pattern.patterns)))
            parts = [prefix + pattern_text(part) for prefix, part in zip(prefixes, pattern.patterns, strict=True)]
            return f"SEQ({', '.join(parts)})"
        case ast.Conjunction():
            return f"AND({_parts(pattern.patterns)})"
        case ast.Disjunction():
            return f"OR({_parts(pattern.patterns)})"
        case ast.AnyOf():
            variables = ", ".join(f"{_types(variable.types)} {_variable(variable)}" for variable in pattern.variables)
            distinct = "" if pattern.distinct is None else f" DISTINCT {name_text(pattern.distinct)}"
            return f"ANY({pattern.count}, {variables}{distinct})"
        case ast.Group():
            return f"({pattern_text(pattern.pattern)}){_repeats(pattern)}"
        case ast.Until(loop, negation):
            return f"{pattern_text(loop)} UNTIL {_types(negation.types)} {name_text(negation.name)}"
        case ast.Aperiodic():
            return f"APERIODIC({_parts((pattern.opening, pattern.body, pattern.closing))})"
        case ast.Periodic():
            every = format_duration(pattern.nanoseconds)
            return f"PERIODIC({pattern_text(pattern.opening)}, {every}, {pattern_text(pattern.closing)})"
    raise TypeError(f"no text for {type(pattern).__name__}")


def _parts(patterns: tuple[ast.Pattern, ...]) -> str:
    return ", ".join(map(pattern_text, patterns))


def _types(types: tuple[str, ...]) -> str:
    text = "|".join(map(name_text, types))
    return f"({text})" if len(types) > 1 else text


def _variable(part: ast.Variable | ast.Group) -> str:
    return f"{name_text(part.name)}{'[]' if part.repeated else ''}"


def _repeats(part: ast.Variable | ast.Group) -> str:
    return f"{_bounds(part)} {_variable(part)}{' CONSECUTIVE' if part.consecutive else ''}"


def _bounds(part: ast.Variable | ast.Group) -> str:
    if not part.repeated:
        return "?" if part.minimum == 0 else ""
    return bounds_text(part.minimum, part.maximum)


def bounds_text(minimum: int, maximum: int | None) -> str:
    """Return the canonical quantifier of a repeated variable: ``+``, ``*``, ``{3}``, ``{2,4}``, ``{2,}``."""
    if maximum is None:
        return {0: "*", 1: "+"}.get(minimum, f"{{{minimum},}}")
    return f"{{{minimum}}}" if minimum == maximum else f"{{{minimum},{maximum}}}"


def window_text(window: ast.Window) -> str:
    """Return the canonical text of a window clause."""
    match window:
        case ast.TimeWindow():
            return f"WITHIN {format_duration(window.nanoseconds)}"
        case ast.CountWindow():
            return f"WITHIN {window.events} EVENTS"
        case ast.ExplicitWindow(opening=opening, closing=closing):
            return f"WINDOW {bound_text(opening, 'OPEN ON', 'EVERY')} {bound_text(closing, 'CLOSE ON', 'CLOSE AFTER')}"
    return "WITHIN UNBOUNDED"


def bound_text(bound: ast.Bound, event: str, extent: str) -> str:
    """Return the text of a window's bound, after the keywords ``event`` for an event, or ``extent`` otherwise."""
    if bound.events is not None:
        return f"{extent} {bound.events} EVENTS"
    if bound.nanoseconds is not None:
        return f"{extent} {format_duration(bound.nanoseconds)}"
    where = "" if bound.where is None else f" WHERE {expression_text(bound.where)}"
    return f"{event} {_types(bound.types)} {name_text(bound.variable)}{where}"


def _policies(query: ast.Query) -> list[str]:
    """Return the clauses from STRATEGY to WEIGHT that differ from the default."""
    policies = [
        ("STRATEGY", query.strategy, ast.STRATEGIES),
        ("SELECT", query.select, ast.SELECTIONS),
        ("CONSUME", query.consume, ast.CONSUMPTIONS),
    ]
    lines = [f"{clause} {chosen}" for clause, chosen, choices in policies if chosen != choices[0]]
    if query.limit is not None:
        lines.append(f"LIMIT {query.limit} PER WINDOW")
    if query.after_match != ast.AFTER_MATCH[0]:
        lines.append(f"AFTER MATCH {skip_text(query)}")
    if query.weight != 1:
        lines.append(f"WEIGHT {repr(float(query.weight)).removesuffix('.0')}")
    return lines


def skip_text(query: ast.Query) -> str:
    """Return the words after ``AFTER MATCH``, such as ``SKIP TO LAST b``."""
    return query.after_match.upper() + ("" if query.skip_to is None else f" {name_text(query.skip_to)}")


def _return_item(item: ast.ReturnItem) -> str:
    text = expression_text(item.expression)
    return text if item.name == text else f"{text} AS {name_text(item.name, anywhere=True)}"


def one_line(query: ast.Query) -> str:
    """Return the text of a query in one line, except for line ends in string literals and names."""
    return _QUOTED_OR_SPACE.sub(lambda part: part[0] if part[0][0] in "'\"" else " ", to_text(query).rstrip())


ast.Query._printed = staticmethod(one_line)  # `ast`, which this module imports, cannot import it
