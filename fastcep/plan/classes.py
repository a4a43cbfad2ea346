"""Features of partial matches: by them those that are alike fall into one class.

They are asked for per variable, of the partial matches that have bound it last and may go on, as expressions over what
is bound. Each is known when the event is there and before the partial match is made: of the row that it extends and of
the event.
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

#: Per variable (``g.a`` inside a group) the expressions.
Classes = Mapping[str, Sequence[str]]

_MOST = 64  # as fastcep._core.shed.drop has room for


def read_classes(classes: Classes, query: ast.Query, translate: Translator) -> dict[int, tuple[Op, ...]]:
    """The features of each member that has some.

    Raises
    ------
    ParseError
        An expression is wrong.
    ValidationError
        A name is that of no variable that a match binds, or its class is no list of at most 64 texts.
    """
    members = {leaf.name: member for member, leaf in enumerate(translate.leaves) if not leaf.negated}
    found: dict[int, tuple[Op, ...]] = {}
    for name, texts in classes.items():
        if name not in members:
            negated = any(leaf.name == name for leaf in translate.leaves)
            hint = "; it is negated, and no partial match binds it" if negated else suggest(name, members)
            raise ValidationError(f"class of {name!r}: query {query.name!r} binds no such variable{hint}")
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise ValidationError(f"class of {name!r}: expected a list of expressions as text, found {texts!r}")
        if len(texts) > _MOST:
            raise ValidationError(f"class of {name!r}: {len(texts)} expressions, expected at most {_MOST}")
        if texts:
            what = f"class of {name}"
            found[members[name]] = tuple(translate(parse_feature(text, query, what)) for text in texts)
    return found


def event_classes_of(
    classes: Classes, query: ast.Query, translate: Translator, entries: Sequence[int]
) -> dict[int, tuple[Op, ...]]:
    """The features of the events that may be bound to each member that has some, over the event alone.

    ``entries`` are the automaton's chains. Raises as `read_classes`, and where another variable is mentioned.
    """
    found = {}
    for member, features in read_classes(classes, query, translate).items():
        name = translate.leaves[member].name
        for text, feature in zip(classes[name], features, strict=True):
            if any(leaf.data[1] != member for leaf in leaves(feature)):  # quantities of a partial match
                raise ValidationError(f"class of events of {name!r}: {text!r} is not of the event {name} alone")
        own = tuple(step(feature, entry(member, entries[member])) for feature in features)
        assert all(leaf.name == "event" for feature in own for leaf in leaves(feature))  # the first element there is
        found[member] = own
    return found


def features_in(state: State, features: Mapping[int, Sequence[Op]]) -> list[Op]:
    """The features of what is in a state, views of it; what it does not bind is null."""
    return [closed(feature, state.bound) for feature in features.get(state.member, ())]
