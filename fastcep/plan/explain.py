"""A plan as text for people."""

from __future__ import annotations

from fastcep.events import format_duration
from fastcep.plan.plan import Plan
from fastcep.plan.rewrite import START
from fastcep.query import to_text


def explain(plan: Plan) -> str:
    """Describe ``plan``: window, members with their event conditions, states with indexes, edges with predicates."""
    query, members = plan.query, plan.query.pattern.members
    window = ("WITHIN " + format_duration(plan.window), f"WITHIN {plan.window} EVENTS", "WITHIN UNBOUNDED")
    lines = [f"query {query.name}", *("  " + line for line in to_text(query).splitlines())]
    lines.append(f"window      {window[plan.window_kind]}, expiry by first event")
    lines.append("strategy    skip_till_any, select each, consume zero")
    lines.append("store       rows, one contiguous bucket per key")
    lines.append("predicates  generated kernels (tier 1); bytecode (tier 0) until they are compiled")
    if plan.ring_columns:
        names = {-1: "time", -2: "seq", -3: "type"}
        kept = [names.get(c) or str(query.schema.columns[c].source) for c in plan.ring_columns]
        lines.append(f"event ring  {', '.join(kept)}")
    computed = [column.text for column in plan.columns if column.program is not None]
    if computed:
        lines.append(f"per event   {'; '.join(computed)}")
    for number, member in enumerate(members):
        state = plan.states[number]
        kind = "|".join(member.types) + (f" {_bounds(member.minimum, member.maximum)}" if member.repeated else "")
        lines.append(f"state {member.variable} ({kind}){' accepts' if state.accepting else ''}")
        if plan.local_texts[number]:
            lines.append(f"  event     {plan.local_texts[number]}")
        if state.register_texts:
            lines.append(f"  registers {', '.join(state.register_texts)}")
        for index in state.indexes:
            lines.append(f"  index {index}   hash on ({plan.indexes[index].text})")
        for edge in (edge for edge in plan.edges if edge.target == number):
            source = "start" if edge.source == START else members[edge.source].variable
            parts = [f"  from {source}"]
            if edge.index >= 0:
                parts.append(f"probe index {edge.index}" + (f": {edge.key_text}" if edge.key_text else ", every row"))
            if edge.predicate_text:
                parts.append(f"where {edge.predicate_text}")
            if edge.forall or state.accept_forall:
                parts.append("for all elements")
            lines.append("; ".join(parts))
    return "\n".join(lines)


def _bounds(minimum: int, maximum: int | None) -> str:
    if maximum is None:
        return {0: "*", 1: "+"}.get(minimum, f"{{{minimum},}}")
    return f"{{{minimum},{maximum}}}"
