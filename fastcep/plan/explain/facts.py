"""A plan as plain data: the facts for all formats, and the JSON document (docs/explain.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fastcep.plan.automaton import START
from fastcep.plan.explain.factorised import kept_facts
from fastcep.plan.explain.operators import BUILTIN_COLUMNS, Operators, is_plain, variable_text
from fastcep.plan.explain.windows import mode_facts, window_facts
from fastcep.plan.ir import PREVIOUS
from fastcep.plan.plan import EdgePlan, Plan
from fastcep.plan.slicing import slicing_facts
from fastcep.query import ast, expression_text, to_text, traversal
from fastcep.query.patterns import pattern_variables
from fastcep.query.printer import name_text, previous_text
from fastcep.query.types import BUILTINS

__all__ = ["VERSION", "document", "facts"]

#: Version of the JSON structure; it increases if a key is removed or changes its meaning, not if one is added.
VERSION = 1

_PREDICATES = {"kind": "generated kernels", "tier": 1, "until_compiled": {"kind": "bytecode", "tier": 0}}


def document(queries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the JSON document of the queries' facts."""
    return {"fastcep_explain": VERSION, "queries": list(queries)}


def facts(plan: Plan, threads: int = 1) -> dict[str, Any]:
    """Return all facts of a plan, matched by ``threads`` threads, as JSON values."""
    query = plan.query
    operators = None if is_plain(query.pattern) else Operators(plan)
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
            "skip_to": query.skip_to,
            "weight": query.weight,
        },
        "key": _key(plan),
        "slices": slicing_facts(plan),
        **_threads(plan, threads),
        "store": {"kind": plan.store, "why": plan.why, **({} if plan.index == "full" else {"index": plan.index})},
        "predicates": _PREDICATES,
        "ring": _ring(plan, operators),
        "per_event": [
            {"expression": column.text, "variables": _variables(query, column.variables)}
            for column in plan.columns
            if column.program is not None
        ],
        "variables": [
            {
                "name": variable.name,
                "types": list(variable.declaration.types),
                "minimum": variable.declaration.minimum,
                "maximum": variable.declaration.maximum,
                "repeated": variable.declaration.repeated,
                "conditions": list(conditions),
                **({} if operators is None else operators.of_variable(variable)),
            }
            for variable, conditions in zip(pattern_variables(query.pattern), plan.local_texts, strict=True)
        ],
        "states": [_state(plan, number, operators) for number in range(len(plan.states))],
        "indexes": [
            {
                "number": number,
                "state": index.state,
                "keys": list(index.key_texts),
                "guard": index.guard_text or None,
                "for_all": _for_all(plan, index.forall, operators),
            }
            for number, index in enumerate(plan.indexes)
        ],
        "edges": [_edge(plan, edge, operators) for edge in plan.edges],
        **({} if operators is None else operators.of_query()),
        **_contiguity(plan),
        **(kept_facts(plan) if plan.kept else {}),
    }


def _threads(plan: Plan, threads: int) -> dict[str, Any]:
    """Return the number of threads and the number that share the keys; nothing for one thread."""
    parts = 1 if isinstance(plan.key, str) else threads
    return {"threads": {"given": threads, "parts": parts}} if threads > 1 else {}


def _key(plan: Plan) -> dict[str, Any]:
    """Return the key by which the state can be split, or the reason why there is none."""
    if isinstance(plan.key, str):
        return {"attributes": None, "why": plan.key}
    return {"attributes": list(dict.fromkeys(plan.key.attributes)), "why": ""}


def _contiguity(plan: Plan) -> dict[str, Any]:
    """Return where an event has a previous event, if a condition uses it."""
    if not any(column.column == PREVIOUS for column in plan.columns):
        return {}
    if plan.partition is None:
        return {"contiguity": {"in": "stream", "by": [], "outside": []}}
    kinds = zip(plan.query.schema.type_names, plan.partition.columns, strict=True)
    outside = [name for name, columns in kinds if not columns]
    return {"contiguity": {"in": "partition", "by": list(plan.query.partition), "outside": outside}}


def _state(plan: Plan, number: int, operators: Operators | None) -> dict[str, Any]:
    state = plan.states[number]
    return {
        "number": number,
        "variable": pattern_variables(plan.query.pattern)[plan.states[number].variable].name,
        "accepts": state.accepting,
        "accept_guard": state.accept_text or None,
        "accept_for_all": _for_all(plan, state.accept_forall, operators),
        "registers": list(state.register_texts),
        "indexes": list(state.indexes),
        "birth": {"numbered": state.needs_birth, "why": _birth(plan, number) if state.needs_birth else []},
        **({} if operators is None else operators.of_state(number)),
    }


def _edge(plan: Plan, edge: EdgePlan, operators: Operators | None) -> dict[str, Any]:
    return {
        "source": None if edge.source == START else edge.source,
        "target": edge.target,
        "loop": edge.source == edge.target,
        "index": None if edge.index < 0 else edge.index,
        "keys": [{"row": row, "event": event} for row, event in edge.key_texts],
        "predicates": list(edge.predicate_texts),
        "for_all": _for_all(plan, edge.forall, operators),
        **({} if operators is None else operators.of_edge(edge)),
    }


def _for_all(plan: Plan, numbers: Iterable[int], operators: Operators | None) -> list[dict[str, Any]]:
    return [
        {
            "condition": plan.foralls[n].text,
            "guard": plan.foralls[n].guard_text or None,
            **({} if operators is None else operators.of_for_all(n)),
        }
        for n in numbers
    ]


def _variables(query: ast.Query, mask: int) -> list[str]:
    return [variable.name for number, variable in enumerate(pattern_variables(query.pattern)) if mask >> number & 1]


def _birth(plan: Plan, number: int) -> list[str]:
    """Return the reasons why the rows of a state carry birth numbers, by the rule of the planner."""
    variables = pattern_variables(plan.query.pattern)
    into = {edge.variable for edge in plan.edges if edge.target == number}
    bound = {name for variable in into for name in variables[variable].declaration.types}
    leaving = sorted({edge.variable for edge in plan.edges if edge.source == number})
    merged = [variable for variable in leaving if sum(edge.variable == variable for edge in plan.edges) > 1]
    own_types = [
        name
        for variable in leaving
        for name in variables[variable].declaration.types
        if name in bound and any(variable > other for other in into)
    ]
    why = []
    if merged:
        names = ", ".join(variable_text(variables[variable]) for variable in merged)
        why.append(f"several edges bind {names}, so their rows are merged in birth order")
    if own_types:
        types = ", ".join(map(name_text, dict.fromkeys(own_types)))
        why.append(f"an event of type {types} must not extend a row that it created itself")
    if plan.removes:
        why.append("a row can be removed before its window ends")
    return why


def _ring(plan: Plan, operators: Operators | None) -> list[dict[str, Any]]:
    """Return the columns that stay in the event ring, and their readers."""
    query, schema = plan.query, plan.query.schema
    why: dict[int, list[str]] = {column: [] for column in plan.ring_columns}
    if schema.sequence is not None:
        why.setdefault(BUILTIN_COLUMNS["seq"], []).append("matches identify their events by it")
    for number, item in enumerate(plan.foralls):
        negated = None if operators is None else operators.negated_by(number)
        reader = f"for all: {item.text}" if negated is None else f"no {negated} where {item.text}"
        for _, _, column in item.elements:
            why[column].append(reader)
    for returned in query.returns:
        for node in traversal.walk(returned.expression):
            for column in _columns_of(plan, node):
                why[column].append(f"RETURN {expression_text(returned.expression)}")
    return [
        {
            "column": _column_name(plan, column),
            "builtin": column < 0,
            "why": list(dict.fromkeys(readers)),
        }
        for column, readers in sorted(why.items())
    ]


def _columns_of(plan: Plan, node: ast.Expr) -> set[int]:
    """Return the columns that an attribute reads; for a union with several columns also the type."""
    if not isinstance(node, ast.Attribute | ast.AttributeList | ast.Aggregate) or node.name is None:
        return set()
    if isinstance(node, ast.Attribute) and node.places:
        return {_column_before(plan, node)}
    if node.name in BUILTINS:
        return {BUILTIN_COLUMNS[node.name]}
    query = plan.query
    variables = pattern_variables(query.pattern)
    types = next(variable.declaration.types for variable in variables if variable.name == node.qualified_name)
    columns = {query.schema.column_of(name, node.name) for name in types}
    return columns | {BUILTIN_COLUMNS["type"]} if len(columns) > 1 else columns


def _column_name(plan: Plan, column: int) -> str | int:
    """Return the name of a column that stays in the ring: built in, of the schema, or of earlier events."""
    columns = plan.query.schema.columns
    if column < 0:
        return next(name for name, number in BUILTIN_COLUMNS.items() if number == column)
    if column < len(columns):
        return columns[column].source
    name, places, _ = plan.earlier[column - len(columns)]
    return previous_text(name_text(name), places)


def _column_before(plan: Plan, node: ast.Attribute) -> int:
    """Return the number of the column of an attribute of an earlier event."""
    return len(plan.query.schema.columns) + plan.earlier.index((node.name, node.places, plan.query.partition))
