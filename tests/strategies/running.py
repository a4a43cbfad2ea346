"""Hypothesis strategies for conditions with running aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastcep.query import ast

if TYPE_CHECKING:
    from strategies.queries import Expressions

COMPARISONS = ("=", "<=", ">=", "<", ">", "!=")


def so_far(make: Expressions, *others: ast.Expr) -> ast.Expr | None:
    """Draw a condition with running aggregates of one Kleene variable, or None if there is none.

    ``others`` are values known before the variable, with which they may be compared.
    """
    loops = [variable for variable in make.positive if variable.declaration.repeated and variable.group is None]
    if not loops or not make.relative:
        return None
    variable = make.pick(*loops)
    own = variable.declaration.name
    keys = [key for key, dtype in make.dtypes(variable).items() if dtype in ("int64", "float64")]

    def aggregate() -> ast.Expr:
        function = make.pick("AVG", "SUM", "COUNT", "MIN", "MAX", "STDDEV")
        key = make.pick(None, *keys) if function == "COUNT" else make.pick(*keys)
        return ast.Aggregate(function, own, key, None, ast.Index("relative", make.pick(-1, 0)))

    elements = [ast.Attribute(own, make.pick(*keys), ast.Index("relative", k)) for k in (0, 0, 1, -1)]
    side = make.pick(*elements, *others, ast.Attribute(own, "k", ast.Index("first")), make.constant())
    compared = ast.Binary(make.pick(*COMPARISONS), side, aggregate())
    if make.pick(False, False, True):
        return ast.Binary("OR", compared, ast.Binary(make.pick(*COMPARISONS), aggregate(), elements[0]))
    return compared
