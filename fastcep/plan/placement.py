"""Put every conjunct where it can be decided first.

Per conjunct the *decisive* member is the last one it mentions. It is decided

* by an event alone (*local*), when it mentions one member and only the event bound to it;
* on the edges that bind the decisive member (*edge* conditions, over the source state and the event);
* when a Kleene member closes (*exit* conditions of its state), for aggregates, ``x[last]`` and ``x[k]``;
* by walking the elements (*for-all* conditions), when ``[i]`` meets another variable or a whole-of-``x`` value.

A conjunct that mentions an absent variable does not apply (SEMANTICS, Conditions), except when it mentions it in
``COUNT`` only; the guard is folded away wherever the path decides it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fastcep.plan.ir import FALSE, TRUE, Op, all_of, const, count, leaves, quantity, transform
from fastcep.plan.rewrite import START, Edge, closed
from fastcep.plan.translate import Translator
from fastcep.query import ast


@dataclass(frozen=True, slots=True)
class ForAll:
    """``condition`` (state view with ``elem`` leaves) must hold for every ``i``; ``guard`` says whether it applies."""

    guard: Op
    condition: Op


@dataclass(slots=True)
class Placement:
    """Where the conditions went. All expressions are state views of the state (or edge target) they belong to."""

    edges: list[Edge] = field(default_factory=list)
    local: dict[int, list[Op]] = field(default_factory=dict)
    on_edge: dict[Edge, list[Op]] = field(default_factory=dict)
    on_exit: dict[int, list[Op]] = field(default_factory=dict)
    on_loop: dict[int, list[Op]] = field(default_factory=dict)
    on_accept: dict[int, list[Op]] = field(default_factory=dict)
    all_on_edge: dict[Edge, list[ForAll]] = field(default_factory=dict)
    all_on_exit: dict[int, list[ForAll]] = field(default_factory=dict)
    all_on_accept: dict[int, list[ForAll]] = field(default_factory=dict)
    accepting: frozenset[int] = frozenset()


class Placer:
    """Place the conjuncts of one query (see the module's docstring)."""

    def __init__(self, query: ast.Query) -> None:
        self.query = query
        self.members = query.pattern.members
        self.translate = Translator(query)
        self.result = Placement()
        self._automaton()

    def place(self) -> Placement:
        """Return the placement of all conditions of the query."""
        out = self.result
        same: list[str] = list(self.query.partition)
        for conjunct in ast.conjuncts(self.query.where):
            if isinstance(conjunct, ast.SameAttributes):
                same.extend(conjunct.names)
            else:
                self._conjunct(conjunct)
        for name in dict.fromkeys(same):
            self._partition(name)
        for number, member in enumerate(self.members):
            if member.minimum > 1:
                out.on_exit.setdefault(number, []).append(Op("le_i", "b", (const(member.minimum, "i"), count(number))))
            if member.repeated and member.maximum is not None:
                out.on_loop.setdefault(number, []).append(Op("lt_i", "b", (count(number), const(member.maximum, "i"))))
        return out

    def _automaton(self) -> None:
        edges: list[Edge] = []
        for target, member in enumerate(self.members):
            for source in range(START, target):
                if all(m.minimum == 0 for m in self.members[source + 1 : target]):
                    edges.append(Edge(source, target))
            if member.repeated and member.maximum != 1:
                edges.append(Edge(target, target))
        self.result.edges = edges
        self.result.accepting = frozenset(
            state for state in range(len(self.members)) if all(m.minimum == 0 for m in self.members[state + 1 :])
        )

    def _into(self, member: int, *, loops: bool) -> list[Edge]:
        return [edge for edge in self.result.edges if edge.target == member and (loops or not edge.loop)]

    def _conjunct(self, conjunct: ast.Expr) -> None:
        out, members = self.result, self.members
        expr = self.translate(conjunct)
        mentioned = sorted(self.translate.members[name] for name in ast.variables(conjunct))
        if not mentioned:
            for edge in out.edges:
                if edge.source == START:
                    out.on_edge.setdefault(edge, []).append(expr)
            return
        counted = {m for m in mentioned if self._only_counted(conjunct, m)}
        last = mentioned[-1]
        guards = [Op("lt_i", "b", (const(0, "i"), count(m))) for m in mentioned[:-1]
                  if members[m].minimum == 0 and m not in counted]  # fmt: skip
        for leaf in leaves(expr):
            if leaf.name == "q" and leaf.data[0] == "at":
                guards.append(Op("lt_i", "b", (const(leaf.data[2], "i"), count(leaf.data[1]))))
        guard = all_of(list(dict.fromkeys(guards)))
        relative = {leaf.data[0] for leaf in leaves(expr) if leaf.name == "elem"}
        kinds = {leaf.data[0] for leaf in leaves(expr) if leaf.name == "q" and leaf.data[1] == last}
        whole = members[last].repeated and bool(kinds - {"first"})
        if relative == {last} and not whole:
            self._stepwise(expr, guard, last, mentioned)
        elif relative:
            self._for_all(ForAll(guard, expr), last, whole or last in relative, last in counted)
        elif mentioned == [last] and not members[last].repeated:
            out.local.setdefault(last, []).append(expr)
        else:
            self._single(_guarded(guard, expr), last, whole, last in counted)

    def _single(self, expr: Op, last: int, whole: bool, counted: bool) -> None:
        out = self.result
        if whole:
            out.on_exit.setdefault(last, []).append(expr)
        elif not counted or not self.members[last].repeated:
            for edge in self._into(last, loops=False):
                out.on_edge.setdefault(edge, []).append(expr)
        if counted:  # COUNT of an empty variable is 0 and applies: decide it where the variable is passed over
            for edge in out.edges:
                if edge.source < last < edge.target:
                    out.on_edge.setdefault(edge, []).append(expr)
            for state in out.accepting:
                if state < last:
                    out.on_accept.setdefault(state, []).append(closed(expr, state))

    def _stepwise(self, expr: Op, guard: Op, last: int, mentioned: list[int]) -> None:
        offsets = [leaf.data[1] for leaf in leaves(expr) if leaf.name == "elem"]
        span, newest = max(offsets) - min(offsets), max(offsets)

        def leaf(node: Op) -> Op | None:
            if node.name != "elem":
                return None
            member, offset, name = node.data
            return quantity("last", node.dtype, member, newest - offset, name)

        condition = transform(expr, leaf)
        if span == 0 and mentioned == [last] and not any(n.name == "q" for n in leaves(expr)):
            self.result.local.setdefault(last, []).append(condition)
            return
        condition = _guarded(guard, condition)
        long_enough = Op("le_i", "b", (const(span + 1, "i"), count(last)))
        for edge in self._into(last, loops=True):
            if not edge.loop and span > 0:
                continue
            applies = condition if span <= 1 else _guarded(long_enough, condition)
            self.result.on_edge.setdefault(edge, []).append(applies)

    def _for_all(self, condition: ForAll, last: int, at_close: bool, counted: bool) -> None:
        out = self.result
        if at_close and self.members[last].repeated:
            out.all_on_exit.setdefault(last, []).append(condition)
        else:
            for edge in self._into(last, loops=False):
                out.all_on_edge.setdefault(edge, []).append(condition)
        if counted:
            for edge in out.edges:
                if edge.source < last < edge.target:
                    out.all_on_edge.setdefault(edge, []).append(condition)
            for state in out.accepting:
                if state < last:
                    ends = ForAll(closed(condition.guard, state), closed(condition.condition, state))
                    out.all_on_accept.setdefault(state, []).append(ends)

    def _partition(self, name: str) -> None:
        dtypes = [self.translate.dtype(m, name) for m in range(len(self.members))]
        dtype = "f" if "f" in dtypes else dtypes[0]
        for number, own in enumerate(dtypes):
            value = quantity("last" if self.members[number].repeated else "first", own, number, 0, name)
            test = Op("known_f" if own == "f" else "known_i", "b", (value,))
            self.result.local.setdefault(number, []).append(test)
        for edge in self.result.edges:
            if edge.source != START:
                here = Op("event", dtypes[edge.target], (), (edge.target, name))
                key = quantity("part", dtype, -1, 0, name)
                self.result.on_edge.setdefault(edge, []).append(Op("partition", "b", (key, here)))

    def _only_counted(self, conjunct: ast.Expr, member: int) -> bool:
        variable = self.members[member].variable
        return all(
            isinstance(part, ast.Aggregate) and part.function == "COUNT"
            for part in ast.walk(conjunct)
            if isinstance(part, ast.Attribute | ast.Aggregate) and part.variable == variable
        )


def _guarded(guard: Op, expr: Op) -> Op:
    if guard == TRUE:
        return expr
    return TRUE if guard == FALSE else Op("guard", "b", (guard, expr))
