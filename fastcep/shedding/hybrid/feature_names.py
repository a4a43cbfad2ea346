"""Names of the features that a fit records: the texts of their expressions, without excluded attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastcep.errors import ParseError, ValidationError
from fastcep.events.schema import suggestion
from fastcep.query import ast, expression_text
from fastcep.query.features import parse_feature
from fastcep.query.source import Problem
from fastcep.query.types import type_of
from fastcep.shedding.hybrid.attribution import Names
from fastcep.shedding.hybrid.features import attributes_of, of_events, of_matches

__all__ = ["feature_names"]

_FEATURES = 16  # largest number of recorded features of a variable


def feature_names(
    query: ast.Query, features: Mapping[str, Sequence[str]] | None, exclude: Sequence[str], caller: str
) -> tuple[Names, Names]:
    """Return the texts of the features of partial matches, and of events, by variable.

    Parameters
    ----------
    query, features, exclude
        See `fit_hybrid`.
    caller
        Beginning of the text of errors.

    Raises
    ------
    ValidationError
        If an excluded attribute is unknown, or one of ``features`` uses it.
    """
    _check_exclude(query, exclude, caller)
    of_rows = {name: _usable(query, texts, exclude) for name, texts in of_matches(query, keys=True).items()}
    for name, further in (features or {}).items():
        for text in further:
            used = attributes_of(parse_feature(text, query, "feature")) & set(exclude)
            if used:
                raise ValidationError(
                    f"{caller}: features of {name!r} contain {text!r}, which uses the excluded attribute "
                    f"{min(used)!r}; leave out one of them"
                )
        of_rows[name] = list(dict.fromkeys([*of_rows.get(name, []), *further]))
    return of_rows, {name: _usable(query, texts, exclude) for name, texts in of_events(query, keys=True).items()}


def _check_exclude(query: ast.Query, exclude: Sequence[str], caller: str) -> None:
    """Check that names are attributes of the schema."""
    if isinstance(exclude, str):
        raise ValidationError(f"{caller}: exclude={exclude!r}; expected a list of attributes, such as [{exclude!r}]")
    known = sorted({name for event in query.schema.type_names for name in query.schema.attributes(event)})
    for name in exclude:
        if name not in known:
            raise ValidationError(
                f"{caller}: exclude={list(exclude)!r}: no type of event has an attribute {name!r}"
                f"{suggestion(name, known)}"
            )


def _usable(query: ast.Query, expressions: Sequence[ast.Expr], exclude: Sequence[str]) -> list[str]:
    """Return the texts of the numeric expressions that have one value per partial match."""
    texts = []
    for expression in expressions:
        if not attributes_of(expression).isdisjoint(exclude):
            continue
        text = expression_text(expression)
        try:
            if type_of(parse_feature(text, query, "feature"), query) in ("int64", "float64", "timestamp", "bool"):
                texts.append(text)
        except (ParseError, Problem):
            continue
    return texts[:_FEATURES]
