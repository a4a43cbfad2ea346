"""The facts of a plan for the factorised store, in the words of those for rows.

A state is a variable, an index is a store of its kept events, and an edge from a to b says how the events of a are
looked up for one of b.
"""

from __future__ import annotations

from typing import Any

from fastcep.plan.plan import Plan
from fastcep.query.patterns import leaves_of

__all__ = ["kept_facts"]


def kept_facts(plan: Plan) -> dict[str, Any]:
    """``states``, ``indexes`` and ``edges`` of the JSON document."""
    leaves = leaves_of(plan.query.pattern)
    stores = list(enumerate(plan.kept))
    begin: dict[str, Any] = {"source": None, "target": 0, "loop": False, "index": None}
    begin |= {"keys": [], "predicates": [], "for_all": []}
    return {
        "states": [
            {
                "number": member,
                "variable": leaf.name,
                "accepts": member == len(leaves) - 1,
                "accept_guard": None,
                "accept_for_all": [],
                "registers": next((list(item.register_texts) for item in plan.kept if item.member == member), []),
                "indexes": [number for number, item in stores if item.member == member],
                "birth": {"numbered": False, "why": []},
            }
            for member, leaf in enumerate(leaves)
        ],
        "indexes": [
            {"number": number, "state": item.member, "keys": list(item.key_texts), "guard": None, "for_all": []}
            for number, item in stores
        ],
        "edges": [
            begin,
            *(
                {
                    "source": step.member,
                    "target": step.source,
                    "loop": step.member == step.source,
                    "index": step.kept,
                    "keys": [{"row": own, "event": other} for own, other in step.key_texts],
                    "predicates": list(step.predicate_texts),
                    "for_all": [],
                }
                for step in plan.steps
            ),
        ],
    }
