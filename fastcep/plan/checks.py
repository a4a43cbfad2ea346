"""Checks of a child that is made already: for-all conditions, and that a negated variable has no event.

A check is numbered for the state at which it is made, because its program reads that state's outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fastcep.errors import ValidationError
from fastcep.plan.automaton import NO, Automaton, Edge
from fastcep.plan.bytecode import Compiler
from fastcep.plan.expression_text import describe
from fastcep.plan.ir import TRUE, Op, only, transform
from fastcep.plan.negation import Absence, Absences
from fastcep.plan.placement import ForAll, Placement
from fastcep.plan.plan import AbsencePlan, ForAllPlan, NegationPlan
from fastcep.plan.programs import Columns
from fastcep.plan.rewrite import closed
from fastcep.query import ast

__all__ = ["Checks"]

_MAX_REGISTERS = 64  # the nulls of a stored event stand in one word

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Here:
    """A check at a state; ``number`` is that of the negated variable of a for-all condition on one, else -1."""

    state: int
    check: ForAll | Absence
    negated: int = -1


class Checks:
    """The numbered checks of a plan, by edge (of the child, or of the row before it) and by state."""

    def __init__(self, query: ast.Query, places: Automaton, placement: Placement, absences: Absences) -> None:
        self.query = query
        self.places = places
        self._foralls: list[_Here] = []
        self._absences: list[_Here] = []
        self._walks: dict[int, Numbers] = {}
        self._registers: dict[int, list[int]] = {}
        self._stores: list[tuple[int, tuple[Op, ...]]] = []
        self.on_source = self._by_source(placement.all_on_source)
        self.on_accept = {s: self._number_foralls(s, items) for s, items in placement.all_on_accept.items()}
        self.on_edge = {e: self._number_foralls(e.target, items) for e, items in placement.all_on_edge.items()}
        self.absent_on_edge = {e: self._number(e.target, items) for e, items in absences.on_edge.items()}
        self.absent_on_accept = {s: self._number(s, items) for s, items in absences.on_accept.items()}
        self.absent_at_end = {s: self._number(s, items) for s, items in absences.at_end.items()}

    # -------------------------------------------------------------- numbering

    def _by_source(self, items: Mapping[Edge, Sequence[ForAll]]) -> dict[Edge, Numbers]:
        return {edge: self._number_foralls(edge.source, checks) for edge, checks in items.items()}

    def _number_foralls(self, state: int, items: Sequence[ForAll], negated: int = -1) -> Numbers:
        numbers = []
        for item in items:
            here = _Here(state, item, negated)
            if here not in self._foralls:
                self._foralls.append(here)
            numbers.append(self._foralls.index(here))
        return tuple(numbers)

    def _number(self, state: int, items: Sequence[Absence]) -> Numbers:
        numbers = []
        bound = self.places.states[state].bound
        for item in items:
            walks = tuple(replace(w, guard=closed(w.guard, bound), condition=closed(w.condition, bound))
                          for w in item.walks)  # fmt: skip
            conditions = tuple(c for c in (closed(c, bound) for c in item.conditions) if c != TRUE)
            guard = closed(item.guard, bound)
            here = _Here(state, replace(item, conditions=conditions, walks=walks, guard=guard))
            if here not in self._absences:
                self._absences.append(here)
                self._walks[len(self._absences) - 1] = self._number_foralls(state, walks, item.negated.member)
            numbers.append(self._absences.index(here))
        return tuple(numbers)

    def wanted(self) -> Iterator[tuple[int, Op]]:
        """What the checks read of a child: ``(state, expression)``."""
        for here in self._foralls:
            assert isinstance(here.check, ForAll)
            yield here.state, here.check.guard
            yield from ((here.state, part) for part in _row_parts(here.check.condition))
        for here in self._absences:
            assert isinstance(here.check, Absence)
            yield here.state, here.check.guard
            yield from ((here.state, row) for row, _ in here.check.keys)
            yield from ((here.state, part) for condition in here.check.conditions for part in _row_parts(condition))

    def key_words(self, state: int, outputs: Sequence[Op]) -> list[tuple[int, Op, Op]]:
        """What the checks at a state's end join by: outputs, what they hold, what of the negated event equals it."""
        found = [self._absences[number].check for number in self.absent_at_end.get(state, ())]
        pairs = [pair for item in found if isinstance(item, Absence) for pair in item.keys]
        return [(outputs.index(row), row, event) for row, event in pairs]

    @property
    def stores(self) -> Sequence[tuple[int, tuple[Op, ...]]]:
        """By what the events of negated variables are kept: member and keys, once ``plans`` were made."""
        return self._stores

    # --------------------------------------------------------------- programs

    def plans(
        self, outputs: Sequence[Sequence[Op]], columns: Columns
    ) -> tuple[tuple[ForAllPlan, ...], tuple[NegationPlan, ...], tuple[AbsencePlan, ...]]:
        """The plans of the checks; ``outputs`` are those of each state."""
        foralls = tuple(self._forall(here, outputs[here.state], columns) for here in self._foralls)
        absences = tuple(self._absence(n, outputs[here.state], columns) for n, here in enumerate(self._absences))
        return foralls, tuple(self._negation(number, columns) for number in range(len(self._stores))), absences

    def _forall(self, here: _Here, outputs: Sequence[Op], columns: Columns) -> ForAllPlan:
        item = here.check
        assert isinstance(item, ForAll)
        elements: list[tuple[int, int, int]] = []

        def resolve(node: Op) -> tuple[str, int] | None:
            if node.name == "elem":
                key = (node.data[0], node.data[1], node.data[2])
                if key not in elements:
                    elements.append(key)
                return ("elem", elements.index(key))
            if only(node, "neg"):
                return ("event", self._register(here.negated, node, columns))
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
                return ("row", self._register(negated.member, node, columns))
            return ("out", outputs.index(node)) if node in outputs else None

        program = None
        if item.conditions:
            compiler = Compiler(resolve)
            for condition in item.conditions:
                compiler.filter(condition)
            program = compiler.finish()
        store = (negated.member, tuple(event for _, event in item.keys))
        if store not in self._stores:
            self._stores.append(store)
        texts = [f"{describe(row, self.query)} = {describe(event, self.query)}" for row, event in item.keys]
        alone = len(item.conditions) + len(texts) == 1
        texts += [describe(part, self.query) if alone or part.name not in ("or", "guard")
                  else f"({describe(part, self.query)})" for part in item.conditions]  # fmt: skip
        texts += [f"for all i: {describe(walk.condition, self.query)}" for walk in item.walks]
        guard = -1 if item.guard == TRUE else outputs.index(item.guard)
        return AbsencePlan(
            negation=self._stores.index(store),
            before=tuple(sorted(negated.before)),
            after=tuple(sorted(negated.after)),
            group=negated.group,
            latest=item.latest,
            keys=tuple(outputs.index(row) for row, _ in item.keys),
            program=program,
            forall=self._walks[number],
            guard=guard,
            text=" AND ".join(texts),
            guard_text="" if guard < 0 else describe(item.guard, self.query),
        )

    def _register(self, member: int, node: Op, columns: Columns) -> int:
        registers = self._registers.setdefault(member, [])
        column = columns.number(_event(node))
        if column not in registers:
            registers.append(column)
            if len(registers) > _MAX_REGISTERS:
                raise ValidationError(
                    f"query {self.query.name!r}: the conditions on {self.places.leaves[member].name!r} read more than "
                    f"{_MAX_REGISTERS} values of it; compare fewer attributes"
                )
        return registers.index(column)

    def _negation(self, number: int, columns: Columns) -> NegationPlan:
        member, keys = self._stores[number]
        negated = next(item for item in self.places.negated if item.member == member)
        by_time = negated.group < 0 and any(
            edge.member in negated.after and all(edge.before[m] == NO for m in negated.before)
            for edge in self.places.edges
        )
        return NegationPlan(
            member=member,
            keys=tuple(columns.number(_event(key)) for key in keys),
            registers=tuple(self._registers.get(member, ())),
            by_time=by_time,
            key_texts=tuple(describe(key, self.query) for key in keys),
        )


def _event(node: Op) -> Op:
    """An expression over the event of a negated variable, when it comes."""
    return transform(node, lambda leaf: replace(leaf, name="event") if leaf.name == "neg" else None)


def _row_parts(expr: Op) -> list[Op]:
    """Maximal parts of a condition that depend on the partial match only."""
    first, chain = expr.spine(lambda node: only(node, "q") or not node.args)
    parts = [first] if only(first, "q") else []
    for node in chain:
        parts += [part for arg in node.args[1:] for part in _row_parts(arg)]
    return parts
