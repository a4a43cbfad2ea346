"""Cases whose state moves, mostly with a key, and the number of examples to draw."""

from __future__ import annotations

import dataclasses

from hypothesis import HealthCheck, settings
from support.state_transfer import quiet

import fastcep as fc
from fastcep.errors import ValidationError
from fastcep.query import ast, parse, to_text
from fastcep.query.checks.query import check
from strategies.queries import Case


def part(share: int, most: int) -> settings:
    """Return a share of the usual number of examples, because each of these makes many engines."""
    count = max(1, min(settings().max_examples // share, most))
    return settings(max_examples=count, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


some, fewer, some_threaded = part(1, 900), part(8, 150), part(2, 600)


def keyed(case: Case) -> Case:
    """Return the case with a key in which all its variables agree, if that makes a query."""
    query = case.query
    same = ast.SameAttributes(("k",))
    where = same if query.where is None else ast.Binary("AND", query.where, same)
    try:
        text = to_text(check(dataclasses.replace(query, where=where)))
        return dataclasses.replace(case, query=parse(text, query.schema), text=text)
    except Exception:
        return case


def fits_one_table(queries: list[ast.Query]) -> bool:
    """Return True if no column has different types in two queries."""
    try:
        quiet(fc.Engine, queries).flush().to_arrow()
    except ValidationError:
        return False
    return True
