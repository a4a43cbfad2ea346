"""A plan as plain data: the facts that every format shows, and the JSON document (docs/explain.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fastcep.plan.automaton import START
from fastcep.plan.explain.factorised import kept_facts
from fastcep.plan.explain.operators import BUILTIN_COLUMNS, Operators, is_plain, leaf_text
from fastcep.plan.explain.windows import mode_facts, window_facts
from fastcep.plan.ir import PREVIOUS
from fastcep.plan.plan import EdgePlan, Plan
from fastcep.plan.slicing import slicing_facts
from fastcep.query import ast, expression_text, to_text
from fastcep.query.patterns import leaves_of
from fastcep.query.printer import name_text
from fastcep.query.types import BUILTINS

__all__ = ["VERSION", "document", "facts"]

#: Of the JSON structure; it rises when a key is taken away or changes its meaning, not when one is added.
VERSION = 1

_PREDICATES = {"kind": "generated kernels", "tier": 1, "until_compiled": {"kind": "bytecode", "tier": 0}}


def document(queries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The JSON document of the queries' facts."""
    return {"fastcep_explain": VERSION, "queries": list(queries)}


def facts(plan: Plan, threads: int = 1) -> dict[str, Any]:
    """Everything there is to tell about a plan that so many threads match, as JSON values."""
    query = plan.query
    more = None if is_plain(query.pattern) else Operators(plan)
    return {
        "name": query.name,
        "text": to_text(query),
        "window": window_facts(plan),
        "windows": mode_facts(plan),
        "strategy": {
            "strategy": query.strategy,
            "select": query.select,
            "consume": query.consume,
            "limit": query.limit,
            "after_match": query.after_match,
            "weight": query.weight,
        },
        "key": _key(plan),
        "slices": slicing_facts(plan),
        **_threads(plan, threads),
        "store": {"kind": plan.store, "why": plan.why, **({} if plan.index == "full" else {"index": plan.index})},
        "predicates": _PREDICATES,
        "ring": _ring(plan, more),
        "per_event": [
            {"expression": column.text, "variables": _members(query, column.members)}
            for column in plan.columns
            if column.program is not None
        ],
        "variables": [
            {
                "name": leaf.name,
                "types": list(leaf.member.types),
                "minimum": leaf.member.minimum,
                "maximum": leaf.member.maximum,
                "repeated": leaf.member.repeated,
                "conditions": list(conditions),
                **({} if more is None else more.of_variable(leaf)),
            }
            for leaf, conditions in zip(leaves_of(query.pattern), plan.local_texts, strict=True)
        ],
        "states": [_state(plan, number, more) for number in range(len(plan.states))],
        "indexes": [
            {
                "number": number,
                "state": index.state,
                "keys": list(index.key_texts),
                "guard": index.guard_text or None,
                "for_all": _for_all(plan, index.forall, more),
            }
            for number, index in enumerate(plan.indexes)
        ],
        "edges": [_edge(plan, edge, more) for edge in plan.edges],
        **({} if more is None else more.of_query()),
        **_contiguity(plan),
        **(kept_facts(plan) if plan.kept else {}),
    }


def _threads(plan: Plan, threads: int) -> dict[str, Any]:
    """How many threads there are, and among how many of them the keys are divided; nothing for one thread."""
    parts = 1 if isinstance(plan.key, str) else threads
    return {"threads": {"given": threads, "parts": parts}} if threads > 1 else {}


def _key(plan: Plan) -> dict[str, Any]:
    """What the state can be cut by, or why it cannot."""
    if isinstance(plan.key, str):
        return {"attributes": None, "why": plan.key}
    return {"attributes": list(dict.fromkeys(plan.key.attributes)), "why": ""}


def _contiguity(plan: Plan) -> dict[str, Any]:
    """Which event is another's previous one, if a condition asks for it."""
    if not any(column.column == PREVIOUS for column in plan.columns):
        return {}
    if plan.partition is None:
        return {"contiguity": {"in": "stream", "by": [], "outside": []}}
    kinds = zip(plan.query.schema.type_names, plan.partition.columns, strict=True)
    outside = [name for name, columns in kinds if not columns]
    return {"contiguity": {"in": "partition", "by": list(plan.query.partition), "outside": outside}}


def _state(plan: Plan, number: int, more: Operators | None) -> dict[str, Any]:
    state = plan.states[number]
    return {
        "number": number,
        "variable": leaves_of(plan.query.pattern)[plan.states[number].member].name,
        "accepts": state.accepting,
        "accept_guard": state.accept_text or None,
        "accept_for_all": _for_all(plan, state.accept_forall, more),
        "registers": list(state.register_texts),
        "indexes": list(state.indexes),
        "birth": {"numbered": state.needs_birth, "why": _birth(plan, number) if state.needs_birth else []},
        **({} if more is None else more.of_state(number)),
    }


def _edge(plan: Plan, edge: EdgePlan, more: Operators | None) -> dict[str, Any]:
    return {
        "source": None if edge.source == START else edge.source,
        "target": edge.target,
        "loop": edge.source == edge.target,
        "index": None if edge.index < 0 else edge.index,
        "keys": [{"row": row, "event": event} for row, event in edge.key_texts],
        "predicates": list(edge.predicate_texts),
        "for_all": _for_all(plan, edge.forall, more),
        **({} if more is None else more.of_edge(edge)),
    }


def _for_all(plan: Plan, numbers: Iterable[int], more: Operators | None) -> list[dict[str, Any]]:
    return [
        {
            "condition": plan.foralls[n].text,
            "guard": plan.foralls[n].guard_text or None,
            **({} if more is None else more.of_for_all(n)),
        }
        for n in numbers
    ]


def _members(query: ast.Query, mask: int) -> list[str]:
    return [leaf.name for number, leaf in enumerate(leaves_of(query.pattern)) if mask >> number & 1]


def _birth(plan: Plan, number: int) -> list[str]:
    """Why the rows of a state carry birth numbers (the rule is the planner's)."""
    leaves = leaves_of(plan.query.pattern)
    into = {edge.member for edge in plan.edges if edge.target == number}
    bound = {name for member in into for name in leaves[member].member.types}
    leaving = sorted({edge.member for edge in plan.edges if edge.source == number})
    met = [member for member in leaving if sum(edge.member == member for edge in plan.edges) > 1]
    own = [
        name
        for member in leaving
        for name in leaves[member].member.types
        if name in bound and any(member > other for other in into)
    ]
    why = []
    if met:
        variables = ", ".join(leaf_text(leaves[member]) for member in met)
        why.append(f"rows come into {variables} from several places and are merged in birth order")
    if own:
        types = ", ".join(map(name_text, dict.fromkeys(own)))
        why.append(f"an event of type {types} must not meet the row that it made itself")
    if plan.removes:
        why.append("a row may end before its window does")
    return why


def _ring(plan: Plan, more: Operators | None) -> list[dict[str, Any]]:
    """Columns that stay in the event ring, and who reads them there."""
    query, schema = plan.query, plan.query.schema
    why: dict[int, list[str]] = {column: [] for column in plan.ring_columns}
    if schema.sequence is not None:
        why.setdefault(BUILTIN_COLUMNS["seq"], []).append("matches name their events by it")
    for number, item in enumerate(plan.foralls):
        negated = None if more is None else more.negated_by(number)
        reader = f"for all: {item.text}" if negated is None else f"no {negated} where {item.text}"
        for _, _, column in item.elements:
            why[column].append(reader)
    for returned in query.returns:
        for node in ast.walk(returned.expression):
            for column in _columns_of(query, node):
                why[column].append(f"RETURN {expression_text(returned.expression)}")
    names = {column: name for name, column in BUILTIN_COLUMNS.items()}
    return [
        {
            "column": names[column] if column < 0 else schema.columns[column].source,
            "builtin": column < 0,
            "why": list(dict.fromkeys(readers)),
        }
        for column, readers in sorted(why.items())
    ]


def _columns_of(query: ast.Query, node: ast.Expr) -> set[int]:
    """Columns that an attribute reads; a union kept in several columns is told apart by type."""
    if not isinstance(node, ast.Attribute | ast.AttributeList | ast.Aggregate) or node.name is None:
        return set()
    if node.name in BUILTINS:
        return {BUILTIN_COLUMNS[node.name]}
    types = next(leaf.member.types for leaf in leaves_of(query.pattern) if leaf.name == node.leaf)
    columns = {query.schema.column_of(name, node.name) for name in types}
    return columns | {BUILTIN_COLUMNS["type"]} if len(columns) > 1 else columns
