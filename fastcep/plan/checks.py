"""Checks of a new partial match: for-all conditions, and the absence of events of negated variables.

Checks are numbered per state, because the program of a check reads the outputs of its state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fastcep.errors import ValidationError
from fastcep.plan.absence import Absence, Absences
from fastcep.plan.automaton import NO, Automaton, Edge
from fastcep.plan.bytecode import Compiler
from fastcep.plan.expression_text import describe
from fastcep.plan.ir import TRUE, Op, only, transform
from fastcep.plan.placement import ForAll, Placement
from fastcep.plan.plan import AbsencePlan, ForAllPlan, NegationPlan
from fastcep.plan.programs import Columns
from fastcep.plan.rewrite import closed
from fastcep.query import ast

__all__ = ["Checks"]

_MAX_REGISTERS = 64  # one 64-bit word holds the null flags of a stored event

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _StateCheck:
    """A check at a state; ``negated`` is the negated variable that a for-all condition is about, or -1."""

    state: int
    check: ForAll | Absence
    negated: int = -1


class Checks:
    """The numbered checks of a plan, by edge (before or after it creates a row) and by state."""

    def __init__(self, query: ast.Query, automaton: Automaton, placement: Placement, absences: Absences) -> None:
        self.query = query
        self.automaton = automaton
        self._foralls: list[_StateCheck] = []
        self._absences: list[_StateCheck] = []
        self._walks: dict[int, Numbers] = {}
        self._registers: dict[int, list[int]] = {}
        self._stores: list[tuple[int, tuple[Op, ...]]] = []
        self.on_source = self._by_source(placement.all_on_source)
        self.on_accept = {s: self._number_foralls(s, items) for s, items in placement.all_on_accept.items()}
        self.on_edge = {e: self._number_foralls(e.target, items) for e, items in placement.all_on_edge.items()}
        self.absent_on_edge = {e: self._number(e.target, items) for e, items in absences.on_edge.items()}
        self.absent_on_accept = {s: self._number(s, items) for s, items in absences.on_accept.items()}
        self.dues = {s: self._due(items) for s, items in absences.dues.items()}
        self.absent_at_end = {s: self._number(s, items) for s, items in absences.at_end.items()}

    # -------------------------------------------------------------- numbering

    def _by_source(self, items: Mapping[Edge, Sequence[ForAll]]) -> dict[Edge, Numbers]:
        return {edge: self._number_foralls(edge.source, checks) for edge, checks in items.items()}

    def _number_foralls(self, state: int, items: Sequence[ForAll], negated: int = -1) -> Numbers:
        numbers = []
        for item in items:
            entry = _StateCheck(state, item, negated)
            if entry not in self._foralls:
                self._foralls.append(entry)
            numbers.append(self._foralls.index(entry))
        return tuple(numbers)

    def _number(self, state: int, items: Sequence[Absence]) -> Numbers:
        numbers = []
        bound = self.automaton.states[state].bound
        for item in items:
            walks = tuple(replace(w, guard=closed(w.guard, bound), condition=closed(w.condition, bound))
                          for w in item.walks)  # fmt: skip
            conditions = tuple(c for c in (closed(c, bound) for c in item.conditions) if c != TRUE)
            guard = closed(item.guard, bound)
            entry = _StateCheck(state, replace(item, conditions=conditions, walks=walks, guard=guard))
            if entry not in self._absences:
                self._absences.append(entry)
                self._walks[len(self._absences) - 1] = self._number_foralls(state, walks, item.negated.variable)
            numbers.append(self._absences.index(entry))
        return tuple(numbers)

    def _due(self, dues: Sequence[Op]) -> Op:
        """Return the latest of the times for which the matches of a state wait, as a state view."""
        latest, *others = dues
        for other in others:
            latest = Op("max_i", "i", (latest, other))
        return latest

    def inputs(self) -> Iterator[tuple[int, Op]]:
        """Yield the values of a partial match that the checks read: ``(state, expression)``."""
        for entry in self._foralls:
            assert isinstance(entry.check, ForAll)
            yield entry.state, entry.check.guard
            yield from ((entry.state, part) for part in _row_parts(entry.check.condition))
        for entry in self._absences:
            assert isinstance(entry.check, Absence)
            yield entry.state, entry.check.guard
            yield from ((entry.state, row) for row, _ in entry.check.keys)
            yield from ((entry.state, part) for condition in entry.check.conditions for part in _row_parts(condition))

    def key_words(self, state: int, outputs: Sequence[Op]) -> list[tuple[int, Op, Op]]:
        """Return the join keys of the checks at a state's end: ``(output, value of row, value of negated event)``."""
        checks = [self._absences[number].check for number in self.absent_at_end.get(state, ())]
        pairs = [pair for item in checks if isinstance(item, Absence) for pair in item.keys]
        return [(outputs.index(row), row, event) for row, event in pairs]

    @property
    def stores(self) -> Sequence[tuple[int, tuple[Op, ...]]]:
        """Variable and keys of each store of negated events; complete after a call of `plans`."""
        return self._stores

    # --------------------------------------------------------------- programs

    def plans(
        self, outputs: Sequence[Sequence[Op]], columns: Columns
    ) -> tuple[tuple[ForAllPlan, ...], tuple[NegationPlan, ...], tuple[AbsencePlan, ...]]:
        """Return the plans of the checks; ``outputs`` holds the outputs of each state."""
        foralls = tuple(self._forall(entry, outputs[entry.state], columns) for entry in self._foralls)
        absences = tuple(self._absence(n, outputs[entry.state], columns) for n, entry in enumerate(self._absences))
        return foralls, tuple(self._negation(number, columns) for number in range(len(self._stores))), absences

    def _forall(self, entry: _StateCheck, outputs: Sequence[Op], columns: Columns) -> ForAllPlan:
        item = entry.check
        assert isinstance(item, ForAll)
        elements: list[tuple[int, int, int]] = []

        def resolve(node: Op) -> tuple[str, int] | None:
            if node.name == "elem":
                key = (node.data[0], node.data[1], node.data[2])
                if key not in elements:
                    elements.append(key)
                return ("elem", elements.index(key))
            if only(node, "neg"):
                return ("event", self._register(entry.negated, node, columns))
            return ("out", outputs.index(node)) if node in outputs else None

        compiler = Compiler(resolve)
        compiler.filter(transform(item.condition, columns.element))
        guard = -1 if item.guard == TRUE else outputs.index(item.guard)
        texts = describe(item.condition, self.query), "" if guard < 0 else describe(item.guard, self.query)
        return ForAllPlan(guard, item.earlier, compiler.finish(), tuple(elements), *texts)

    def _absence(self, number: int, outputs: Sequence[Op], columns: Columns) -> AbsencePlan:
        item = self._absences[number].check
        assert isinstance(item, Absence)
        negated = item.negated

        def resolve(node: Op) -> tuple[str, int] | None:
            if only(node, "neg"):
                return ("row", self._register(negated.variable, node, columns))
            return ("out", outputs.index(node)) if node in outputs else None

        program = None
        if item.conditions:
            compiler = Compiler(resolve)
            for condition in item.conditions:
                compiler.filter(condition)
            program = compiler.finish()
        store = (negated.variable, tuple(event for _, event in item.keys))
        if store not in self._stores:
            self._stores.append(store)
        texts = [f"{describe(row, self.query)} = {describe(event, self.query)}" for row, event in item.keys]
        is_only_text = len(item.conditions) + len(texts) == 1
        texts += [describe(part, self.query) if is_only_text or part.name not in ("or", "guard")
                  else f"({describe(part, self.query)})" for part in item.conditions]  # fmt: skip
        texts += [f"for all i: {describe(walk.condition, self.query)}" for walk in item.walks]
        guard = -1 if item.guard == TRUE else outputs.index(item.guard)
        return AbsencePlan(
            negation=self._stores.index(store),
            before=tuple(sorted(negated.before)),
            after=tuple(sorted(negated.after)),
            group=negated.group,
            latest=item.latest,
            until=negated.until,
            keys=tuple(outputs.index(row) for row, _ in item.keys),
            program=program,
            forall=self._walks[number],
            guard=guard,
            text=" AND ".join(texts),
            guard_text="" if guard < 0 else describe(item.guard, self.query),
        )

    def _register(self, variable: int, node: Op, columns: Columns) -> int:
        registers = self._registers.setdefault(variable, [])
        column = columns.number(_event(node))
        if column not in registers:
            registers.append(column)
            if len(registers) > _MAX_REGISTERS:
                name = self.automaton.variables[variable].name
                raise ValidationError(
                    f"query {self.query.name!r}: the conditions on {name!r} read more than {_MAX_REGISTERS} of its "
                    "values; compare fewer attributes"
                )
        return registers.index(column)

    def _negation(self, number: int, columns: Columns) -> NegationPlan:
        variable, keys = self._stores[number]
        negated = next(item for item in self.automaton.negated if item.variable == variable)
        by_time = (
            negated.group < 0
            and not negated.until
            and any(
                edge.variable in negated.after and all(edge.before[m] == NO for m in negated.before)
                for edge in self.automaton.edges
            )
        )
        return NegationPlan(
            variable=variable,
            keys=tuple(columns.number(_event(key)) for key in keys),
            registers=tuple(self._registers.get(variable, ())),
            by_time=by_time,
            key_texts=tuple(describe(key, self.query) for key in keys),
        )


def _event(node: Op) -> Op:
    """Return an expression over the event of a negated variable, for the moment when the event arrives."""
    return transform(node, lambda leaf: replace(leaf, name="event") if leaf.name == "neg" else None)


def _row_parts(expr: Op) -> list[Op]:
    """Return the maximal parts of a condition that depend only on the partial match."""
    first, chain = expr.spine(lambda node: only(node, "q") or not node.args)
    parts = [first] if only(first, "q") else []
    for node in chain:
        parts += [part for arg in node.args[1:] for part in _row_parts(arg)]
    return parts
