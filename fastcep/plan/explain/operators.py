"""Facts of patterns that are not a SEQ of variables (docs/explain.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastcep.events import format_duration
from fastcep.plan.automaton import NO, START, YES, Automaton, build_automaton
from fastcep.plan.expression_text import attribute_text
from fastcep.plan.plan import AbsencePlan, EdgePlan, Plan
from fastcep.query import ast
from fastcep.query.patterns import PatternVariable, groups_of, pattern_variables
from fastcep.query.printer import name_text

__all__ = ["BUILTIN_COLUMNS", "Operators", "is_plain", "variable_text"]

BUILTIN_COLUMNS = {"time": -1, "seq": -2, "type": -3}

_ROUNDS = {"": "same", "first": "first", "next": "next"}


def is_plain(pattern: ast.Pattern) -> bool:
    """Return whether the pattern is a SEQ of variables, in which state n binds variable n."""
    return isinstance(pattern, ast.Sequence) and all(isinstance(inner, ast.Variable) for inner in pattern.patterns)


def variable_text(variable: PatternVariable) -> str:
    """Return a variable's name as text: ``g.a`` in a group."""
    return ".".join(name_text(part, anywhere=n > 0) for n, part in enumerate(variable.key) if part is not None)


class Operators:
    """Facts of one plan for the operator keys of docs/explain.md."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.variables = pattern_variables(plan.query.pattern)
        self.names = [variable.name for variable in self.variables]
        self.groups = [group for group in groups_of(plan.query.pattern) if group.repeated]
        self.states = _state_names(build_automaton(plan.query.pattern))

    def of_query(self) -> dict[str, Any]:
        """Return the keys of the query."""
        plan, period = self.plan, self.plan.period
        return {
            "groups": [
                {
                    "name": group.name,
                    "minimum": group.minimum,
                    "maximum": group.maximum,
                    "repeated": group.repeated,
                    "variables": [one.name for one in self.variables if one.group is group and not one.negated],
                }
                for group in groups_of(plan.query.pattern)
            ],
            "negations": [
                self._negation(number)
                for number in sorted(range(len(plan.negations)), key=lambda number: plan.negations[number].variable)
            ],
            "sets": [[self.names[variable] for variable in variables] for variables in plan.sets],
            "period": {"value": period, "text": format_duration(period)} if period else None,
        }

    def of_variable(self, variable: PatternVariable) -> dict[str, Any]:
        """Return the keys of a variable."""
        group = None if variable.group is None else variable.group.name
        return {"group": group, "negated": variable.negated, "optional": variable.optional and not variable.negated}

    def of_state(self, number: int) -> dict[str, Any]:
        """Return the keys of a state."""
        state = self.plan.states[number]
        return {
            "name": self.states[number],
            "accept_absences": [self._absence(n) for n in state.accept_absences],
            "waits": state.deferred,
            **({"waits_until": state.due_text} if state.due_text else {}),
            "end_absences": [self._absence(n) for n in state.at_end],
        }

    def of_edge(self, edge: EdgePlan) -> dict[str, Any]:
        """Return the keys of an edge."""
        return {
            "variable": self.names[edge.variable],
            "again": edge.again,
            "round": _ROUNDS[edge.round] if edge.group >= 0 else None,
            "absences": [self._absence(n) for n in edge.absences],
            **({"keeps": True} if edge.keeps and self.plan.must_advance else {}),
        }

    def of_for_all(self, number: int) -> dict[str, Any]:
        """Return the keys of a for-all condition."""
        return {"reach": "earlier" if self.plan.foralls[number].earlier else "all"}

    def negated_by(self, number: int) -> str | None:
        """Return the negated variable that a for-all condition is about, as text; None if there is none."""
        plan = self.plan
        for absence in plan.absences:
            if number in absence.forall:
                return variable_text(self.variables[plan.negations[absence.negation].variable])
        return None

    def _negation(self, number: int) -> dict[str, Any]:
        negation = self.plan.negations[number]
        variable = self.variables[negation.variable]
        return {
            "variable": variable.name,
            "types": list(variable.declaration.types),
            "keys": list(negation.key_texts),
            "registers": [self._column(variable, column) for column in negation.registers],
            "kept": "window" if negation.by_time else "first event",
            "checks": list(self._checks(number)),
        }

    def _column(self, variable: PatternVariable, number: int) -> str:
        """Return the text of a register of a negated event; the column's own text can name another variable."""
        schema, column = self.plan.query.schema, self.plan.columns[number]
        if column.program is not None or column.column >= len(schema.columns):
            return column.text
        type_name = variable.declaration.types[0]
        attributes = {schema.column_of(type_name, name): name for name in schema.attributes(type_name)}
        names = attributes | {column: name for name, column in BUILTIN_COLUMNS.items()}
        return f"{variable_text(variable)}.{attribute_text(names[column.column])}"

    def _checks(self, negation: int) -> Iterator[dict[str, Any]]:
        """Yield the places of the checks that no event of a negated variable occurred."""
        plan = self.plan

        def has(numbers: tuple[int, ...]) -> bool:
            return any(plan.absences[n].negation == negation for n in numbers)

        for edge in plan.edges:
            if has(edge.absences):
                source = None if edge.source == START else edge.source
                yield {"at": "edge", "source": source, "target": edge.target, "variable": self.names[edge.variable]}
        for at in ("accept", "end"):
            for number, state in enumerate(plan.states):
                if has(state.accept_absences if at == "accept" else state.at_end):
                    yield {"at": "silence" if at == "end" and state.due_text else at, "state": number}

    def _absence(self, number: int) -> dict[str, Any]:
        plan, absence = self.plan, self.plan.absences[number]
        return {
            "variable": self.names[plan.negations[absence.negation].variable],
            "after": [self.names[variable] for variable in absence.before],
            "before": [self.names[variable] for variable in absence.after],
            "until": absence.until,
            "rounds": None if absence.group < 0 else "latest" if absence.latest else "all",
            "condition": self._condition(absence) or None,
            "guard": absence.guard_text or None,
            "for_all": [
                {"condition": plan.foralls[n].text, "guard": plan.foralls[n].guard_text or None} for n in absence.forall
            ],
        }

    def _condition(self, absence: AbsencePlan) -> str:
        """Return the check's text without the for-all conditions at its end."""
        text = absence.text
        for n in reversed(absence.forall):
            text = text.removesuffix(f"for all i: {self.plan.foralls[n].text}").removesuffix(" AND ")
        return text


def _state_names(automaton: Automaton) -> list[str]:
    """Return the names of states: the variable bound last if that is unique, otherwise all variables that are bound.

    In a group these are the variables that the current round binds. ``?`` follows a variable that only some rows bind.
    The names are distinct, because the bound variables determine the progress of each part of the pattern.
    """
    texts = [variable_text(variable) for variable in automaton.variables]
    last: list[set[int]] = [set() for _ in automaton.states]
    bound = [state.bound for state in automaton.states]
    for edge in automaton.edges:
        last[edge.target].add(edge.variable)
        if edge.source != START:
            bound[edge.source] = edge.now
    names = []
    for number, variables in enumerate(last):
        if len(variables) == 1 and sum(variables <= other for other in last) == 1:
            names.append(texts[min(variables)])
            continue
        bound_texts = (
            text + ("" if status == YES else "?")
            for text, status in zip(texts, bound[number], strict=False)  # the groups come after the variables
            if status != NO
        )
        names.append(f"{{{', '.join(bound_texts)}}}")
    return names
