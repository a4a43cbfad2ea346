"""Facts of a plan for the factorised store, in the structure of a plan for rows.

A state is a variable, an index is a store of its kept events, and an edge from a to b describes the look-up of events
of a for an event of b.
"""

from __future__ import annotations

from typing import Any

from fastcep.plan.plan import Plan
from fastcep.query.patterns import pattern_variables

__all__ = ["kept_facts"]


def kept_facts(plan: Plan) -> dict[str, Any]:
    """Return ``states``, ``indexes`` and ``edges`` of the JSON document."""
    variables = pattern_variables(plan.query.pattern)
    stores = list(enumerate(plan.kept))
    start_edge: dict[str, Any] = {"source": None, "target": 0, "loop": False, "index": None}
    start_edge |= {"keys": [], "predicates": [], "for_all": []}
    return {
        "states": [
            {
                "number": number,
                "variable": variable.name,
                "accepts": number == len(variables) - 1,
                "accept_guard": None,
                "accept_for_all": [],
                "registers": next((list(item.register_texts) for item in plan.kept if item.variable == number), []),
                "indexes": [store for store, item in stores if item.variable == number],
                "birth": {"numbered": False, "why": []},
            }
            for number, variable in enumerate(variables)
        ],
        "indexes": [
            {"number": number, "state": item.variable, "keys": list(item.key_texts), "guard": None, "for_all": []}
            for number, item in stores
        ],
        "edges": [
            start_edge,
            *(
                {
                    "source": step.variable,
                    "target": step.source,
                    "loop": step.variable == step.source,
                    "index": step.kept,
                    "keys": [{"row": row, "event": event} for row, event in step.key_texts],
                    "predicates": list(step.predicate_texts),
                    "for_all": [],
                }
                for step in plan.steps
            ),
        ],
    }
