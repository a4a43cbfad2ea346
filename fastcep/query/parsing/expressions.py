"""Turn the syntax tree of an expression into the AST, with the checks that need no schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lark import Token, Tree

from fastcep.query import ast
from fastcep.query.parsing.foreign_words import foreign_function
from fastcep.query.parsing.tree import duration, integer, name_of, span_of, string_of, text_of, timestamp
from fastcep.query.previous import MAX_PLACES
from fastcep.query.printer import expression_text, index_text
from fastcep.query.scalar_functions import counted
from fastcep.query.source import NESTED, Source, suggest
from fastcep.query.user_functions.registry import AGGREGATES, FUNCTIONS, find, functions

__all__ = ["ExpressionReader"]

_LISTS = ("list", "inner_list", "elements", "so_far")
_CHAINS = ("or", "and", "arithmetic")
_ATTRIBUTES = ("attribute", "indexed", "inner", "inner_indexed")
_SPELLINGS = {"==": "=", "<>": "!="}


class ExpressionReader:
    """Converts the syntax tree of an expression into AST nodes with spans.

    Parameters
    ----------
    source
        The parsed text, for error messages.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._level = 0

    def read(self, tree: Any) -> ast.Expr:
        """Convert an expression; raise ParseError if it is invalid."""
        span = span_of(tree)
        if self._level == 2 * ast.MAX_NESTING:  # parentheses and single operands count here but not in the AST
            raise self._source.error(NESTED.format("expression"), span)
        make: Callable[[Any, ast.Span], ast.Expr] = getattr(self, f"_{tree.data}")
        self._level += 1
        try:
            return make(tree.children, span)
        finally:
            self._level -= 1

    # ------------------------------------------------------------------ constants

    def _integer(self, parts: Any, span: ast.Span, sign: int = 1) -> ast.Expr:
        return ast.Literal(integer(parts[0], self._source, sign), span=span)

    def _real(self, parts: Any, span: ast.Span, sign: int = 1) -> ast.Expr:
        return ast.Literal(sign * float(parts[0]), span=span)

    def _duration(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.DurationLiteral(duration(parts[0], self._source), span=span)

    def _timestamp(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.TimestampLiteral(timestamp(parts[0], self._source), span=span)

    def _string(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.Literal(string_of(parts[0]), span=span)

    def _true(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.Literal(True, span=span)

    def _false(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.Literal(False, span=span)

    def _null(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.Literal(None, span=span)

    # ------------------------------------------------------------------ operators

    def _or(self, parts: Any, span: ast.Span) -> ast.Expr:
        return self._chain("OR", parts, span)

    def _and(self, parts: Any, span: ast.Span) -> ast.Expr:
        return self._chain("AND", parts, span)

    def _chain(self, operator_text: str, parts: Any, span: ast.Span) -> ast.Expr:
        """Convert a OR b OR c, a + b - c, …, whose tree can nest thousands deep in the left operand."""
        links = [(operator_text, parts[-1], span)]
        left = parts[0]
        while left.data in _CHAINS:
            inner, *operator, right = left.children
            links.append((text_of(operator[0]) if operator else str(left.data).upper(), right, span_of(left)))
            left = inner
        result = self.read(left)
        for operator_text, right, span in reversed(links):
            result = ast.Binary(operator_text, result, self.read(right), span=span)
        return result

    def _not(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.Unary("NOT", self.read(parts[0]), span=span)

    def _compare(self, parts: Any, span: ast.Span) -> ast.Expr:
        left, operator, right = parts
        if text_of(operator) in _SPELLINGS:
            spelling = _SPELLINGS[text_of(operator)]
            raise self._source.error(f"{text_of(operator)!r} is not an operator; write {spelling}", span_of(operator))
        return ast.Binary(text_of(operator), self.read(left), self.read(right), span=span)

    def _arithmetic(self, parts: Any, span: ast.Span) -> ast.Expr:
        return self._chain(text_of(parts[1]), parts, span)

    def _negative(self, parts: Any, span: ast.Span) -> ast.Expr:
        operand = parts[1]
        # A sign directly before a number is part of the number, so that -9223372036854775808 can be written.
        if operand.data == "integer":
            return self._integer(operand.children, span, -1)
        if operand.data == "real":
            return self._real(operand.children, span, -1)
        return ast.Unary("-", self.read(operand), span=span)

    def _is_in(self, parts: Any, span: ast.Span, negated: bool = False) -> ast.Expr:
        operand, values = parts
        return ast.Membership(self.read(operand), tuple(map(self._constant, values.children)), negated, span=span)

    def _is_not_in(self, parts: Any, span: ast.Span) -> ast.Expr:
        return self._is_in(parts, span, negated=True)

    def _constant(self, tree: Any) -> ast.Literal:
        value = self.read(tree)
        if isinstance(value, ast.DurationLiteral | ast.TimestampLiteral):
            return ast.Literal(value.nanoseconds, span=value.span)
        if isinstance(value, ast.Unary) and isinstance(value.operand, ast.DurationLiteral):
            return ast.Literal(-value.operand.nanoseconds, span=value.span)
        if not isinstance(value, ast.Literal):
            raise self._source.error("only a number can have a sign", value.span)
        return value

    def _between(self, parts: Any, span: ast.Span) -> ast.Expr:
        operand, low, high = map(self.read, parts)
        return ast.Between(operand, low, high, span=span)

    def _is_null(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.Call("is null", (self.read(parts[0]),), span=span)

    def _is_not_null(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.Unary("NOT", self._is_null(parts, span), span=span)

    def _like(self, parts: Any, span: ast.Span) -> ast.Expr:
        operand, pattern, escape = parts
        marks = () if escape is None else (ast.Literal(string_of(escape), span=span_of(escape)),)
        return ast.Call("like", (self.read(operand), self.read(pattern), *marks), span=span)

    def _not_like(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.Unary("NOT", self._like(parts, span), span=span)

    def _case(self, parts: Any, span: ast.Span) -> ast.Expr:
        compared, *branches, otherwise = parts
        arguments: list[ast.Expr] = []
        for branch in branches:
            condition, value = map(self.read, branch.children)
            if compared is not None:  # CASE x WHEN 1 THEN … means CASE WHEN x = 1 THEN …
                condition = ast.Binary("=", self.read(compared), condition, span=span_of(branch))
            arguments += (condition, value)
        if otherwise is not None:
            arguments.append(self.read(otherwise))
        return ast.Call("case", tuple(arguments), span=span)

    def _parentheses(self, parts: Any, span: ast.Span) -> ast.Expr:
        return self.read(parts[0])

    # ---------------------------------------------------------------------- names

    def _same(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.SameAttributes(tuple(map(name_of, parts)), span=span)

    def _attribute(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.Attribute(name_of(parts[0]), name_of(parts[1]), span=span)

    def _indexed(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.Attribute(name_of(parts[0]), name_of(parts[2]), self._index(parts[1]), span=span)

    def _index(self, tree: Any) -> ast.Index:
        if tree.data == "position":
            return ast.Index("position", integer(tree.children[0], self._source))
        if tree.data == "from_end":
            raise self._source.error(
                "an index counts from 0; write [last] for the last element, [last-1] for the one before", span_of(tree)
            )
        name, *offset = tree.children
        word = name_of(name)
        if word.lower() in ("first", "last"):
            if not offset:
                return ast.Index(word.lower())
            if word.lower() == "first":
                raise self._source.error("[first] takes no offset; write [0], [1], [2] and so on", span_of(tree))
            if text_of(offset[0]) == "+":
                raise self._source.error("no element comes after [last]; write [last], [last-1] …", span_of(tree))
            return ast.Index("last", integer(offset[1], self._source, -1))
        if word != "i":
            raise self._source.error(
                f"unknown index '{word}'; expected i, i+1, i-1, first, last, last-1 or a number from 0; write [i] for "
                "every element",
                span_of(name),
            )
        if not offset:
            return ast.Index("relative")
        sign = 1 if text_of(offset[0]) == "+" else -1
        return ast.Index("relative", integer(offset[1], self._source, sign))

    def _inner(self, parts: Any, span: ast.Span) -> ast.Expr:
        group, inner, name = map(name_of, parts)
        return ast.Attribute(group, name, None, inner, span=span)

    def _inner_indexed(self, parts: Any, span: ast.Span) -> ast.Expr:
        group, index, inner, name = parts
        return ast.Attribute(name_of(group), name_of(name), self._index(index), name_of(inner), span=span)

    def _bare(self, parts: Any, span: ast.Span) -> ast.Expr:
        written, name = text_of(parts[0]), name_of(parts[0])
        if parts[0].type == "QUOTED":
            remedy = f"'{name}' in single quotes for a text, or {written}.attribute for an event"
        else:
            remedy = f"{name}.attribute if {name} is a variable, x.{name} for an attribute of x, or '{name}' for a text"
        raise self._source.error(f"the name {written} alone is not a value; write {remedy}", span)

    # ---------------------------------------------------------- calls and aggregates

    def _so_far(self, parts: Any, span: ast.Span) -> ast.Expr:
        name = text_of(parts[0])
        raise self._source.error(
            f"a list such as {name}[..i].attribute is allowed only in an aggregate, as in AVG({name}[..i].attribute)",
            span,
        )

    def _end(self, tree: Any) -> ast.Index:
        """Convert the end of the range of a running aggregate."""
        index = self._index(tree)
        if index.kind != "relative" or index.offset not in (0, -1):
            raise self._source.error(
                "a running aggregate ends at the element of [i], or at the one before it: write [..i] or [..i-1]",
                span_of(tree),
            )
        return index

    def _list(self, parts: Any, span: ast.Span) -> ast.Expr:
        return ast.AttributeList(name_of(parts[0]), name_of(parts[1]), span=span)

    def _inner_list(self, parts: Any, span: ast.Span) -> ast.Expr:
        group, inner, name = map(name_of, parts)
        return ast.AttributeList(group, name, inner, span=span)

    def _elements(self, parts: Any, span: ast.Span) -> ast.Expr:
        raise self._source.error(f"{parts[0]}[] without an attribute is allowed only in COUNT({parts[0]}[])", span)

    def _call(self, parts: Any, span: ast.Span) -> ast.Expr:
        name, *optional_arguments = parts
        arguments = [argument for argument in optional_arguments if argument is not None]
        if any(isinstance(argument, Tree) and argument.data in _LISTS for argument in arguments):
            return self._aggregate(name, arguments, span)
        if name_of(name).lower() == "prev":
            return self._previous(arguments, span)
        registered = find(name_of(name))
        if registered is not None:
            return ast.UserCall(registered, tuple(map(self.read, arguments)), span=span)
        function = name_of(name).lower()
        if function not in FUNCTIONS:
            if function.upper() in AGGREGATES:
                name = function.upper()
                raise self._source.error(
                    f"{name} aggregates over a repeated variable; write {_as_list(name, arguments)}", span
                )
            if function in ("first", "last") and len(arguments) == 1 and arguments[0].data == "attribute":
                variable, attribute = map(name_of, arguments[0].children)
                remedy = expression_text(ast.Attribute(variable, attribute, ast.Index(function)))
                message = f"{function} is not a function; for a variable {variable}[] write {remedy}"
                raise self._source.error(message, span)
            hint = foreign_function(function)
            if hint:
                raise self._source.error(f"unknown function '{name_of(name)}'{hint}", span_of(name))
            hint = suggest(function, [*functions(), *FUNCTIONS, *AGGREGATES])
            if "did you mean" not in hint:
                hint += ", or register your own functions with @fastcep.function (in a file for --functions)"
            raise self._source.error(f"unknown function '{name_of(name)}'{hint}", span_of(name))
        least, most = FUNCTIONS[function]
        if len(arguments) < least or (most is not None and len(arguments) > most):
            expected = counted(least, most)
            raise self._source.error(f"{function} takes {expected}, not {len(arguments)}", span)
        return ast.Call(function, tuple(map(self.read, arguments)), span=span)

    def _previous(self, arguments: list[Any], span: ast.Span) -> ast.Expr:
        """Convert ``prev(x.a)`` or ``prev(x.a, k)``."""
        if len(arguments) not in (1, 2) or arguments[0].data not in _ATTRIBUTES:
            raise self._source.error(
                "prev takes an attribute and a number of places, as in prev(x.price) or prev(x.price, 2)", span
            )
        places = 1
        if len(arguments) == 2:
            if arguments[1].data != "integer":
                message = "prev takes the number of places as a whole number from 1 on, as in prev(x.price, 2)"
                raise self._source.error(message, span_of(arguments[1]))
            places = integer(arguments[1].children[0], self._source)
            if not 1 <= places <= MAX_PLACES:
                message = f"prev counts places from 1 to {MAX_PLACES:,}, not {places}"
                raise self._source.error(message, span_of(arguments[1]))
        node = self.read(arguments[0])
        assert isinstance(node, ast.Attribute)
        return replace(node, places=places, span=span)

    def _aggregate(self, name: Token, arguments: list[Any], span: ast.Span) -> ast.Expr:
        function = name_of(name).upper()
        if function not in AGGREGATES:
            hint = suggest(function, AGGREGATES, "aggregates are")
            if function.lower() in FUNCTIONS or find(name_of(name)) is not None:
                raise self._source.error(f"'{name_of(name)}' takes no list such as x[]{hint}", span_of(name))
            raise self._source.error(f"unknown aggregate '{name_of(name)}'{hint}", span_of(name))
        if len(arguments) != 1:
            raise self._source.error(f"{function} takes one list, such as {function}(x[].attribute)", span)
        parts, index = arguments[0].children, None
        if arguments[0].data == "so_far":
            index = self._end(parts[2])
            parts = [parts[0], *(part for part in parts[3:] if part is not None)]
        variable, *path = map(name_of, parts)
        if not path and function != "COUNT":
            elements = f"{variable}{index_text(index, so_far=True)}"
            raise self._source.error(
                f"{function} needs an attribute; write {function}({elements}.attribute)", span_of(arguments[0])
            )
        attribute = path[-1] if path else None
        return ast.Aggregate(function, variable, attribute, path[0] if len(path) > 1 else None, index, span=span)


def _as_list(function: str, arguments: list[Any]) -> str:
    """Return the text of an aggregate over the argument, or ``SUM(x[].attribute)`` if the variable is unknown."""
    if len(arguments) == 1 and isinstance(arguments[0], Tree):
        names = [str(part) for part in arguments[0].children if isinstance(part, Token) and part.type != "INT"]
        kind = arguments[0].data
        if kind == "bare" or (kind in ("attribute", "indexed", "inner", "inner_indexed") and len(names) > 1):
            alone = f" if {names[0]} is one, or {'.'.join(names)}" if kind == "attribute" else ""
            return f"{function}({'.'.join([f'{names[0]}[]', *names[1:]])}){alone}"
    return f"{function}(x[].attribute)"
