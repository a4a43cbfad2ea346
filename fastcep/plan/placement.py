"""Place every conjunct where it can be decided first.

A conjunct is decided

* by an event alone (*local*), if it mentions one variable and only the event bound to it;
* on the edges after which everything that it mentions is bound or closed: over the source state and the event, or, if
  the event does not matter (a Kleene variable closes), once per row of the source;
* where a match ends, for variables that are still open there;
* at every element (*stepwise*), if ``[i]`` refers to adjacent elements of one Kleene variable, or to the rounds of one
  group, and the rest is known before;
* by iterating over the elements (*for-all* conditions), if ``[i]`` refers to more than that.

Where rows are removed one by one (`removes_rows`), a state has one index, so nothing is decided once per row of the
source. Under ``skip_till_next``, and if partial matches that time out are reported, the moment of the decision matters:
there a conjunct is decided as early as possible (:mod:`decidability`).

A conjunct that mentions an absent variable does not apply (SEMANTICS, Conditions), unless it mentions the variable only
in ``COUNT(x[])``. The guard is simplified wherever the path determines it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fastcep.plan.automaton import START, Automaton, Edge, build_automaton
from fastcep.plan.conjuncts import Conjunct, guarded, read_conjunct
from fastcep.plan.contiguity import contiguities
from fastcep.plan.decidability import early_decisions
from fastcep.plan.implied_equalities import implied_equalities
from fastcep.plan.ir import FALSE, TRUE, Op, all_of, const, count, leaves, quantity, transform
from fastcep.plan.rewrite import aggregate_before, closed, is_bound
from fastcep.plan.translate import Translator
from fastcep.query import ast, traversal
from fastcep.query.patterns import sub_patterns

__all__ = ["ForAll", "Placement", "Placer", "acts_by_partition", "of_last_rounds", "removes_rows"]


@dataclass(frozen=True, slots=True)
class ForAll:
    """For-all condition: ``condition``, a state view with ``elem`` leaves, must hold for every i if ``guard`` holds.

    With ``earlier`` it must hold only for all elements but the last.
    """

    guard: Op
    condition: Op
    earlier: bool = False


@dataclass(slots=True)
class Placement:
    """Conditions by place: views of the edge's target, of its source (``on_source``), or of the state."""

    local: dict[int, list[Op]] = field(default_factory=dict)
    on_edge: dict[Edge, list[Op]] = field(default_factory=dict)
    on_source: dict[Edge, list[Op]] = field(default_factory=dict)
    on_accept: dict[int, list[Op]] = field(default_factory=dict)
    all_on_edge: dict[Edge, list[ForAll]] = field(default_factory=dict)
    all_on_source: dict[Edge, list[ForAll]] = field(default_factory=dict)
    all_on_accept: dict[int, list[ForAll]] = field(default_factory=dict)


def acts_by_partition(query: ast.Query) -> bool:
    """Return whether a policy on whole windows applies to each partition separately."""
    on_partitions = query.after_match in ("skip past last", "skip to first", "skip to last")
    return bool(query.partition) and (on_partitions or query.limit is not None or query.select == "longest")


def removes_rows(query: ast.Query) -> bool:
    """Return whether partial matches can be removed before their window ends, because of strategy or policies."""
    return (
        query.strategy == "skip_till_next"
        or query.consume == "consumed"
        or query.after_match != "no skip"
        or query.select == "longest"
        or acts_by_partition(query)
    )


class Placer:
    """Place the conjuncts of one query (see the module's docstring).

    With ``at_once`` a conjunct is also placed where it is decided before the variables that it mentions have closed.
    """

    def __init__(self, query: ast.Query, at_once: bool = False) -> None:
        self.query = query
        self.translate = Translator(query)
        self.automaton: Automaton = build_automaton(query.pattern)
        self.variables = self.automaton.variables
        self.result = Placement()
        self.same: tuple[str, ...] = ()
        self._removes = removes_rows(query)
        self.at_once = at_once or query.strategy == "skip_till_next"
        self.on_negated: dict[int, list[Conjunct]] = {}
        self._equalities: list[Op] = []

    def place(self) -> Placement:
        """Return the placement of all conditions of the query, except those on negated variables (``on_negated``)."""
        same: list[str] = list(self.query.partition)
        for conjunct in traversal.conjuncts(self.query.where):
            if isinstance(conjunct, ast.SameAttributes):
                same.extend(conjunct.names)
            else:
                self._conjunct(read_conjunct(conjunct, self.translate, self.automaton))
        self.same = tuple(dict.fromkeys(same))
        for name in self.same:
            self._partition(name)
        # Where the moment of a decision matters, only conditions of the query decide: an implied one would let an event
        # pass that must extend the partial match.
        implied = () if self.at_once else implied_equalities(self._equalities, self.automaton)
        for edge, condition in (*implied, *contiguities(self.query, self.automaton)):
            self.result.on_edge.setdefault(edge, []).append(condition)
        self._bounds()
        self._distinct(self.query.pattern)
        return self.result

    def _into(self, *variables: int) -> list[Edge]:
        return [edge for edge in self.automaton.edges if edge.variable in variables]

    def _conjunct(self, item: Conjunct) -> None:
        out, automaton = self.result, self.automaton
        negated = [m for m in item.mentioned if self.variables[m].negated]
        if negated:
            self._negated(negated[0], item)
            return
        if not item.mentioned and not item.closed:
            for edge in automaton.edges:
                if edge.source == START:
                    out.on_edge.setdefault(edge, []).append(item.expr)
            return
        if item.guard == TRUE:
            self._equalities.append(item.expr)
        elements = item.elements()
        if len(item.mentioned) == 1 and self._is_local(item, item.mentioned[0], elements):
            out.local.setdefault(item.mentioned[0], []).append(_of_event(item.expr))
        elif len(elements) == 1 and self._is_stepwise(item, *elements):
            self._stepwise(item, *elements)
        elif elements and self._is_by_round(item, elements):
            self._by_round(item)
        else:
            self._where_decided(item, bool(elements))

    def _negated(self, variable: int, item: Conjunct) -> None:
        if item.mentioned == (variable,) and not item.closed:
            self.result.local.setdefault(variable, []).append(_of_event(item.expr))
        else:
            self.on_negated.setdefault(variable, []).append(item)

    def _is_local(self, item: Conjunct, variable: int, elements: set[int]) -> bool:
        """Return whether the event that is bound to the variable decides the conjunct."""
        if not self.variables[variable].repeated:
            return not item.closed
        offsets = {leaf.data[1] if leaf.name == "elem" else None for leaf in leaves(item.expr)}
        return bool(elements) and len(offsets) == 1 and None not in offsets

    def _is_stepwise(self, item: Conjunct, variable: int) -> bool:
        """Return whether it mentions adjacent elements of one Kleene variable, and otherwise only known values."""
        kinds = {leaf.data[0] for leaf in leaves(item.expr) if leaf.name == "q" and leaf.data[1] == variable}
        if self.automaton.chain[variable] >= 0 or kinds - {"first"}:
            return False
        without_variable = replace(item, closed=item.closed - {variable}, bound=item.bound - {variable})
        return all(without_variable.decided(self.automaton.states[edge.target]) for edge in self._into(variable))

    def _is_by_round(self, item: Conjunct, elements: set[int]) -> bool:
        """Return whether it mentions the rounds of one group, and otherwise only known values."""
        groups = {self.automaton.chain[variable] for variable in elements}
        if len(groups) > 1 or groups == {-1}:
            return False
        if any(leaf.name == "q" and leaf.data[1] in (*groups, *self.automaton.inner[min(groups)])
               for leaf in leaves(item.expr)):  # fmt: skip
            return False
        without_group = replace(item, closed=item.closed - groups)
        return all(without_group.decided(self.automaton.states[edge.target]) for edge in self._into(*elements))

    def _where_decided(self, item: Conjunct, walks: bool) -> None:
        """Place it on the edges that decide it, and at the ends of matches where it is still open."""
        out, states = self.result, self.automaton.states
        expr = guarded(item.guard, item.expr)
        for edge in self.automaton.edges:
            if not item.decided_by(edge, states):
                continue
            if edge.variable in item.mentioned or edge.source == START or self._removes:
                if walks:
                    _add_forall(out.all_on_edge.setdefault(edge, []), item, states[edge.target].bound)
                else:
                    out.on_edge.setdefault(edge, []).append(expr)
            elif walks:
                _add_forall(out.all_on_source.setdefault(edge, []), item, states[edge.source].bound)
            else:
                _add_condition(out.on_source.setdefault(edge, []), closed(expr, states[edge.source].bound))
        if self.at_once:
            self._when_known(item, walks)
        for number, state in enumerate(states):
            if not state.accepting or item.decided(state):
                continue
            if walks:
                _add_forall(out.all_on_accept.setdefault(number, []), item, state.bound)
            else:
                _add_condition(out.on_accept.setdefault(number, []), closed(expr, state.bound))

    def _when_known(self, item: Conjunct, walks: bool) -> None:
        """Place it on the edges after which it is decided although variables that it mentions can still grow."""
        for edge, decided in early_decisions(item, self.automaton):
            guard = all_of([decided, item.guard])
            if walks:
                conditions = self.result.all_on_edge.setdefault(edge, [])
                _add_forall(conditions, replace(item, guard=guard), self.automaton.states[edge.target].bound)
            else:
                self.result.on_edge.setdefault(edge, []).append(guarded(guard, item.expr))

    def _stepwise(self, item: Conjunct, variable: int) -> None:
        offsets = [offset for leaf in leaves(item.expr) for offset in _offsets(leaf)]
        span, newest = max(offsets) - min(offsets), max(offsets)

        def leaf(node: Op) -> Op | None:
            if node.name == "run":
                _, offset, kind, raw, attr = node.data
                return aggregate_before(newest - offset, kind, node.dtype, variable, raw, attr)
            if node.name != "elem":
                return None
            return quantity("last", node.dtype, variable, newest - node.data[1], node.data[2])

        condition = guarded(item.guard, transform(item.expr, leaf))
        long_enough = Op("le_i", "b", (const(span + 1, "i"), count(variable)))
        for edge in self._into(variable):
            if not edge.again and span > 0:
                continue
            applies = condition if span <= 1 else guarded(long_enough, condition)
            self.result.on_edge.setdefault(edge, []).append(applies)

    def _by_round(self, item: Conjunct) -> None:
        """Place it where an event is bound in the newest round that it mentions; it applies if all others are bound."""
        newest = max(leaf.data[1] for leaf in leaves(item.expr) if leaf.name == "elem")
        for edge in self._into(*(m for m, offset in _mentions(item.expr) if offset == newest)):
            self.result.on_edge.setdefault(edge, []).append(of_last_rounds(item, newest))

    def _bounds(self) -> None:
        """Place the minimum and maximum number of events of Kleene variables, and of rounds of groups."""
        automaton, out = self.automaton, self.result
        declarations = [variable.declaration for variable in self.variables]
        bounds = {number: (one.minimum, one.maximum) for number, one in enumerate(declarations)
                  if one.repeated} | automaton.bounds  # fmt: skip
        for variable, (minimum, maximum) in bounds.items():
            if minimum > 1:
                at_least = Op("le_i", "b", (const(minimum, "i"), count(variable)))
                guard = TRUE if automaton.mandatory(variable) else is_bound(variable)
                self._where_decided(Conjunct(at_least, guard, closed=frozenset([variable])), False)
            if maximum is not None:
                for edge in automaton.edges:
                    if not edge.loop or variable not in (edge.variable, edge.group):
                        continue
                    if self._removes:
                        at_most = Op("le_i", "b", (count(variable), const(maximum, "i")))
                        out.on_edge.setdefault(edge, []).append(at_most)
                    else:
                        below_maximum = Op("lt_i", "b", (count(variable), const(maximum, "i")))
                        out.on_source.setdefault(edge, []).append(below_maximum)

    def _distinct(self, pattern: ast.Pattern) -> None:
        """Place ``ANY(n, T x[] DISTINCT a)``: every new element differs from those before it."""
        if isinstance(pattern, ast.AnyOf) and pattern.distinct is not None:
            variable = self.translate.numbers[pattern.variables[0].name]
            dtype = self.translate.dtype(variable, pattern.distinct)
            earlier_element = Op("elem", dtype, (), (variable, 0, pattern.distinct))
            new_element = quantity("last", dtype, variable, 0, pattern.distinct)
            differ = Op("ne_f" if dtype == "f" else "ne_i", "b", (earlier_element, new_element))
            for edge in self._into(variable):
                if edge.again:
                    self.result.all_on_edge.setdefault(edge, []).append(ForAll(TRUE, differ, earlier=True))
        for part in sub_patterns(pattern):
            self._distinct(part)

    def _partition(self, name: str) -> None:
        dtypes = [self.translate.dtype(m, name) for m in range(len(self.variables))]
        dtype = "f" if "f" in dtypes else dtypes[0]
        for number, variable_dtype in enumerate(dtypes):
            kind = "last" if self.variables[number].declaration.repeated else "first"
            value = quantity(kind, variable_dtype, number, 0, name)
            test = Op("known_f" if variable_dtype == "f" else "known_i", "b", (value,))
            self.result.local.setdefault(number, []).append(test)
        for edge in self.automaton.edges:
            if edge.source != START:
                of_event = Op("event", dtypes[edge.variable], (), (edge.variable, name))
                of_row = quantity("part", dtype, -1, 0, name)
                self.result.on_edge.setdefault(edge, []).append(Op("partition", "b", (of_row, of_event)))


def _offsets(leaf: Op) -> tuple[int, ...]:
    """Return the offsets from i of the elements that must exist for a condition with this leaf to apply.

    A running aggregate needs the element that ``[i]`` names and, unless it counts the elements, one to aggregate.
    """
    if leaf.name == "run":
        return (0,) if leaf.data[2] == "count" else (0, leaf.data[1])
    return (leaf.data[1],) if leaf.name == "elem" else ()


def of_last_rounds(item: Conjunct, newest: int) -> Op:
    """Return a condition on a group's rounds for the i at which round ``i + newest`` is the last round."""

    def leaf(node: Op) -> Op | None:
        if node.name != "elem":
            return None
        return quantity("last", node.dtype, node.data[0], newest - node.data[1], node.data[2])

    rounds_bound = [quantity("has_last", "b", variable, newest - offset) for variable, offset in _mentions(item.expr)]
    return guarded(all_of([item.guard, *rounds_bound]), transform(item.expr, leaf))


def _mentions(expr: Op) -> list[tuple[int, int]]:
    """Return the variables and offsets of the elements that a condition mentions."""
    return list(dict.fromkeys(leaf.data[:2] for leaf in leaves(expr) if leaf.name == "elem"))


def _of_event(expr: Op) -> Op:
    """Rewrite elements, and the event of a negated variable, as the event that is being bound."""

    def leaf(node: Op) -> Op | None:
        if node.name == "elem":
            return quantity("last", node.dtype, node.data[0], 0, node.data[2])
        return quantity("first", node.dtype, node.data[0], 0, node.data[1]) if node.name == "neg" else None

    return transform(expr, leaf)


def _add_forall(to: list[ForAll], item: Conjunct, bound: tuple[int, ...]) -> None:
    guard = closed(item.guard, bound)
    if guard != FALSE:
        to.append(ForAll(guard, closed(item.expr, bound)))


def _add_condition(to: list[Op], condition: Op) -> None:
    if condition != TRUE:
        to.append(condition)
