"""Features of partial matches, by which similar partial matches are put into one class.

Features are defined per variable, for the partial matches that bound it last and can still be extended, as expressions
over the bound events. Each feature is computed before the partial match is created, from the row that is extended and
the new event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastcep.errors import ValidationError
from fastcep.plan.automaton import State, entry
from fastcep.plan.ir import Op, leaves
from fastcep.plan.rewrite import closed, step
from fastcep.plan.translate import Translator
from fastcep.query import ast
from fastcep.query.features import parse_feature
from fastcep.query.source import suggest

__all__ = ["Classes", "features_in", "read_classes"]

#: Expressions per variable (``g.a`` inside a group).
Classes = Mapping[str, Sequence[str]]

_MAX_FEATURES = 64  # limit of fastcep._core.shed.drop


def read_classes(classes: Classes, query: ast.Query, translate: Translator) -> dict[int, tuple[Op, ...]]:
    """Return the features of each variable that has any.

    Raises
    ------
    ParseError
        An expression is invalid.
    ValidationError
        A name is not a variable that a match binds, or its class is not a list of at most 64 strings.
    """
    numbers = {variable.name: number for number, variable in enumerate(translate.variables) if not variable.negated}
    features: dict[int, tuple[Op, ...]] = {}
    for name, texts in classes.items():
        if name not in numbers:
            negated = any(variable.name == name for variable in translate.variables)
            hint = "; it is negated, so no partial match binds it" if negated else suggest(name, numbers)
            raise ValidationError(f"class of {name!r}: query {query.name!r} binds no such variable{hint}")
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise ValidationError(f"class of {name!r}: expected a list of expressions as strings, found {texts!r}")
        if len(texts) > _MAX_FEATURES:
            raise ValidationError(f"class of {name!r}: {len(texts)} expressions, expected at most {_MAX_FEATURES}")
        if texts:
            description = f"class of {name}"
            features[numbers[name]] = tuple(translate(parse_feature(text, query, description)) for text in texts)
    return features


def event_classes_of(
    classes: Classes, query: ast.Query, translate: Translator, entries: Sequence[int]
) -> dict[int, tuple[Op, ...]]:
    """Return the features of the events of each variable that has any, as expressions over the event alone.

    ``entries`` is `Automaton.chain`. Raises the errors of `read_classes`, and ValidationError if an expression mentions
    another variable.
    """
    event_features = {}
    for variable, features in read_classes(classes, query, translate).items():
        name = translate.variables[variable].name
        for text, feature in zip(classes[name], features, strict=True):
            if any(leaf.data[1] != variable for leaf in leaves(feature)):  # it reads a partial match
                raise ValidationError(f"class of events of {name!r}: {text!r} must depend only on the event {name}")
        expressions = tuple(step(feature, entry(variable, entries[variable])) for feature in features)
        assert all(leaf.name == "event" for feature in expressions for leaf in leaves(feature))
        event_features[variable] = expressions
    return event_features


def features_in(state: State, features: Mapping[int, Sequence[Op]]) -> list[Op]:
    """Return the features of the rows of a state, as state views; a variable that is not bound gives null."""
    return [closed(feature, state.bound) for feature in features.get(state.variable, ())]
