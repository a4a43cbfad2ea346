"""Attributes of earlier events, ``prev(x.a, k)``, in the reference matcher: further attributes of each event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fastcep.query import ast
from fastcep.query.patterns import pattern_variables
from fastcep.query.previous import previous_attributes
from reference.conditions import Event, attribute, earlier_name
from reference.values import Value, compare


def with_earlier(query: ast.Query, events: Sequence[Event]) -> list[Event]:
    """Return the events of a stream, each with the attributes of earlier events that the query reads."""
    asked = {(node.name, node.places) for node in previous_attributes(query)}
    if not asked:
        return list(events)
    dtypes = query.schema.attributes(pattern_variables(query.pattern)[0].declaration.types[0])
    seen: list[tuple[list[Value], list[Event]]] = []  # the events so far of each partition, by its key
    result = []
    for event in events:
        values: dict[str, Value] = {}
        keyed = {name: dtypes[name] for name in query.partition}
        attributes = query.schema.attributes(event.type)
        key = [attribute(event, name) for name in query.partition]
        if all(attributes.get(name) == dtype for name, dtype in keyed.items()) and all(
            compare("=", value, value) is True for value in key
        ):
            before = next((own for other, own in seen if same(other, key)), None)
            if before is None:
                before = []
                seen.append((key, before))
            for name, places in asked:
                earlier = before[-places] if len(before) >= places else None
                values[earlier_name(name, places)] = None if earlier is None else attribute(earlier, name)
            before.append(event)
        result.append(replace(event, values={**event.values, **values}))
    return result


def same(one: list[Value], other: list[Value]) -> bool:
    """Return whether two keys are equal."""
    return all(compare("=", a, b) is True for a, b in zip(one, other, strict=True))
