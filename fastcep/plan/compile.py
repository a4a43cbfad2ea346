"""Build a :class:`~fastcep.plan.plan.Plan` from placed conditions: keys, indexes, registers, programs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fastcep.errors import ValidationError
from fastcep.events.units import INT64_MAX
from fastcep.plan.automaton import NO, START, YES, Edge, entry
from fastcep.plan.birth_order import needs_birth
from fastcep.plan.bytecode import filter_program, store_program
from fastcep.plan.checks import Checks
from fastcep.plan.classes import Classes, event_classes_of, features_in, read_classes
from fastcep.plan.contiguity import adjacency_partition, invalidation_words
from fastcep.plan.earlier import EarlierColumns
from fastcep.plan.expression_text import describe
from fastcep.plan.factorised import Factorised, factorise, has_choice
from fastcep.plan.ir import PREVIOUS, TRUE, Op, all_of, key_pair, only, quantity, transform
from fastcep.plan.joins import EdgeWork, join, share_keys
from fastcep.plan.longest import can_grow
from fastcep.plan.negation import place_negations
from fastcep.plan.partition_key import KeyWords, find_key
from fastcep.plan.placement import Placer, acts_by_partition, removes_rows
from fastcep.plan.plan import EdgePlan, IndexPlan, KeyPlan, Plan, StatePlan
from fastcep.plan.programs import Columns
from fastcep.plan.rewrite import step
from fastcep.plan.windows import plan_windows
from fastcep.query import ast
from fastcep.query.checks.skip import skip_variables

#: A row keeps the null flags of its registers in one 64-bit word.
MAX_VALUES = 64


@dataclass(slots=True)
class _StateWork:
    registers: list[Op] = field(default_factory=list)
    temporary: list[Op] = field(default_factory=list)
    features: list[Op] = field(default_factory=list)

    @property
    def outputs(self) -> list[Op]:
        return self.registers + [op for op in self.temporary if op not in self.registers]


@dataclass(slots=True)
class _IndexWork:
    state: int
    keys: tuple[Op, ...]
    guard: Op
    forall: tuple[int, ...]


def compile_plan(
    query: ast.Query,
    timed_out: bool = False,
    store: str = "auto",
    index: str = "full",
    classes: Classes | None = None,
    isolated: bool = False,
    observed: bool = False,
    event_classes: Classes | None = None,
    weighed: bool = False,
    earlier: EarlierColumns | None = None,
) -> Plan:
    """Plan a query; the parameters are those of `fastcep.plan.make_plan`."""
    return _Planner(query, timed_out, index, classes, isolated, observed, event_classes, weighed, earlier).plan(store)


class _Planner:
    def __init__(
        self, query: ast.Query, timed_out: bool, index: str, classes: Classes | None, isolated: bool, observed: bool,
        event_classes: Classes | None, weighed: bool, earlier: EarlierColumns | None,
    ) -> None:  # fmt: skip
        self.query = query
        self.sheds, self.isolated, self.observed = classes is not None or observed, isolated, observed
        self.weighed = weighed or classes is not None
        self.timed_out = timed_out
        self.index = index
        self.longest = query.select == "longest"  # the time at which a partial match ends matters
        placer = Placer(query, timed_out or self.longest)
        self.placement = placer.place()
        self.same = placer.same
        self.automaton = placer.automaton
        self.variables = placer.variables
        self.translate = placer.translate
        self.classes = read_classes(classes or {}, query, self.translate)
        self.event_classes = event_classes_of(event_classes or {}, query, self.translate, self.automaton.chain)
        self.columns = Columns(query, earlier)
        self.edges: dict[Edge, EdgeWork] = {}
        self.states = [_StateWork() for _ in self.automaton.states]
        self.indexes: list[_IndexWork] = []
        self.checks = Checks(query, self.automaton, self.placement, place_negations(placer))

    def plan(self, store: str) -> Plan:
        columns = Columns(self.query, self.columns.earlier)
        factorised = factorise(self.query, self.automaton, self.translate, columns)
        if self.timed_out and isinstance(factorised, Factorised):
            factorised = "partial matches that time out are reported"
        if self.sheds and isinstance(factorised, Factorised):
            factorised = "partial matches are shed"
        if self.index != "full" and isinstance(factorised, Factorised):
            factorised = f"with index={self.index!r} partial matches are rows"
        if isinstance(factorised, str):
            return self._rows(rows_only=factorised)
        if store == "factorised":
            return self._factorised(self._rows(), factorised, columns)
        if store == "rows":
            return self._rows(why="as requested")
        if not has_choice(self.query):
            return self._rows()
        rows = self._rows(why="initially: both stores are tried on the first events")
        return replace(rows, other=self._factorised(rows, factorised, columns))

    def _factorised(self, rows: Plan, parts: Factorised, columns: Columns) -> Plan:
        """Return the plan for the factorised store: the plan for rows without the parts that concern rows."""
        locals_ = tuple(columns.local(conditions) for conditions in self._local().values())
        key = find_key(self.query, self.automaton, self.translate, KeyWords((), (), {}, parts.joins))
        event_features = self._event_features(columns)
        return replace(
            rows,
            columns=tuple(columns.plans),
            locals=locals_,
            indexes=(),
            foralls=(),
            edges=(),
            states=(),
            ring_columns=tuple(sorted(self.columns.returned())),
            store="factorised",
            why="as requested",
            kept=parts.kept,
            steps=parts.steps,
            key=replace(key, waiting=()) if isinstance(key, KeyPlan) else key,
            event_features=event_features,
        )

    def _event_features(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        """Return per variable the columns by which its events are classified."""
        return tuple(tuple(map(columns.number, self.event_classes.get(m, ()))) for m in range(len(self.variables)))

    def _local(self) -> dict[int, list[Op]]:
        """Return per variable the conditions on its event alone."""
        local, chain = self.placement.local, self.automaton.chain
        return {m: [step(c, entry(m, chain[m])) for c in local.get(m, [])] for m in range(len(self.variables))}

    def _stated(self, conditions: list[Op]) -> list[Op]:
        """Return the conditions on an event without those that its partition is not null, which goes without saying."""
        return [item for item in conditions
                if not (item.name.startswith("known_") and item.args[0].data[1] in self.same)]  # fmt: skip

    def _rows(self, rows_only: str = "", why: str = "") -> Plan:
        placement, query, checks, columns = self.placement, self.query, self.checks, self.columns
        timed_out = self.timed_out
        by_partition = acts_by_partition(query)
        index = "off" if self.longest else self.index  # a row with a null word in its key would be lost
        self.edges = {
            edge: join(placement.on_edge.get(edge, []), edge, index, by_partition) for edge in self.automaton.edges
        }
        for state in range(len(self.states) if removes_rows(query) else 0):
            share_keys([work for edge, work in self.edges.items() if edge.source == state])
        for edge in self.automaton.edges:
            self._choose_index(edge)
        for item in self.indexes if self.longest else ():
            item.guard = all_of([item.guard, can_grow(item.state, self.automaton)])
        accept = {number: all_of(placement.on_accept.get(number, []))
                  for number, state in enumerate(self.automaton.states) if state.accepting}  # fmt: skip
        for item in self.indexes:  # only rows that can still be extended have features
            self.states[item.state].features = features_in(self.automaton.states[item.state], self.classes)
        self._temporaries(accept)
        self._fix_registers()
        local = self._local()
        locals_ = tuple(columns.local(conditions) for conditions in local.values())
        per_partition = self._per_partition()
        edges = tuple(self._edge(edge) for edge in self.automaton.edges)
        outputs = [state.outputs for state in self.states]
        foralls, negations, absences = checks.plans(outputs, columns)
        kinds = {ast.TimeWindow: 0, ast.CountWindow: 1, ast.Unbounded: 2, ast.ExplicitWindow: 3}
        window = getattr(query.window, "nanoseconds", getattr(query.window, "events", 0))
        indexes = tuple(self._index(item) for item in self.indexes)
        states = tuple(self._state(number, accept.get(number, TRUE)) for number in range(len(self.states)))
        edge_negation = any(item.by_time for item in negations) or any(state.deferred for state in states)
        event_features = self._event_features(columns)
        return Plan(
            query=query,
            window_kind=kinds[type(query.window)],
            window=window,
            lives=min(window + self._waits(), INT64_MAX),
            type_variables=self._type_variables(),
            locals=locals_,
            columns=tuple(columns.plans),
            indexes=indexes,
            foralls=foralls,
            negations=negations,
            absences=absences,
            edges=edges,
            states=states,
            negated=tuple(variable.negated for variable in self.variables),
            repeated=tuple(variable.repeated for variable in self.variables),
            lists=tuple(variable.repeated or query.select == "cumulative" for variable in self.variables),
            groups=tuple(self.automaton.inner.values()),
            sets=self.automaton.sets,
            period=query.pattern.nanoseconds if isinstance(query.pattern, ast.Periodic) else 0,
            partition=adjacency_partition(query) if any(c.column == PREVIOUS for c in columns.plans) else None,
            must_advance=query.strategy == "skip_till_next",
            removes=removes_rows(query),
            select=ast.SELECTIONS.index(query.select),
            consumes=query.consume == "consumed",
            after_match=ast.AFTER_MATCH.index(query.after_match),
            limit=query.limit or 0,
            per_partition=per_partition,
            windows=plan_windows(query, edge_negation, timed_out, self.isolated, compile_plan),
            timed_out=timed_out,
            sheds=self.sheds,
            key=self._key(),
            store="rows",
            rows_only=rows_only,
            why=f"only option: {rows_only}" if rows_only else why or "default",
            kept=(),
            steps=(),
            ring_columns=tuple(sorted(columns.ring | self.columns.returned())),
            local_texts=tuple(tuple(map(self._show, self._stated(each))) for each in local.values()),
            index=self.index,
            observed=self.observed,
            weighed=self.weighed,
            event_features=event_features,
            longest=self.longest,
            earlier=tuple((column.name, column.places, column.keys) for column in columns.earlier.columns),
            follows=query.strategy in ("partition_contiguity", "strict_contiguity"),
            skip_to=skip_variables(query),
        )

    # ------------------------------------------------------------ conditions

    def _waits(self) -> int:
        """Return how long after the end of WITHIN a match can wait for a silence."""
        silences = [one.nanoseconds or 0 for one in self.automaton.negated]
        return max(silences) if self.checks.dues and isinstance(self.query.window, ast.TimeWindow) else 0

    def _choose_index(self, edge: Edge) -> None:
        if edge.source == START:
            return
        state, guard = edge.source, all_of(self.placement.on_source.get(edge, []))
        forall = self.checks.on_source.get(edge, ())
        keys = tuple(row for row, _ in self.edges[edge].keys)
        for number, item in enumerate(self.indexes):
            if (item.state, item.keys, item.guard, item.forall) == (state, keys, guard, forall):
                self.edges[edge].index = number
                return
        self.edges[edge].index = len(self.indexes)
        self.indexes.append(_IndexWork(state, keys, guard, forall))

    def _temporaries(self, accept: dict[int, Op]) -> None:
        def add(state: int, expr: Op) -> None:
            if expr != TRUE and expr not in self.states[state].temporary:
                self.states[state].temporary.append(expr)

        for item in self.indexes:
            for key in item.keys:
                add(item.state, key)
            add(item.state, item.guard)
        for state, guard in accept.items():
            add(state, guard)
        for state, expr in (*self.checks.inputs(), *self.checks.dues.items()):
            add(state, expr)
        for state in self._deferred() if acts_by_partition(self.query) else ():
            for name in self.query.partition:
                add(state, self._partition_word(name))

    def _fix_registers(self) -> None:
        changed = True
        while changed:
            changed = False
            self._check_registers()
            for edge in reversed(self.automaton.edges):
                if edge.source == START:
                    continue
                source = self.states[edge.source].registers
                work = self.edges[edge]
                needed = list(work.residual)
                target = self.states[edge.target]
                needed += [self._rewritten(expr, edge) for expr in (*target.outputs, *target.features)]
                for expr in needed:
                    for part in self._carried(expr, edge.source):
                        if part not in source:
                            source.append(part)
                            changed = True

    def _check_registers(self) -> None:
        for number, state in enumerate(self.states):
            if len(state.registers) > MAX_VALUES:
                name = self.variables[self.automaton.states[number].variable].name
                raise ValidationError(
                    f"query {self.query.name!r}: a partial match that has bound {name!r} would carry "
                    f"{len(state.registers)} values for later conditions{' and classes' if self.classes else ''}, "
                    f"expected at most {MAX_VALUES}; compare fewer attributes, or use '=' where possible"
                )

    def _rewritten(self, expr: Op, edge: Edge) -> Op:
        replace = self.edges[edge].replace
        return transform(step(expr, edge), replace.get)

    def _carried(self, expr: Op, state: int) -> list[Op]:
        """Return the maximal parts of ``expr`` that depend only on the row and that later events do not change."""
        return self._split(expr, self.automaton.states[state].open)[0]

    def _split(self, expr: Op, open_: frozenset[int]) -> tuple[list[Op], bool]:
        """Return the result of `_carried`, and whether it covers all of ``expr`` except constants, without changes."""
        first, chain = expr.spine()
        parts = [first] if first.name == "q" else []
        complete = first.name == "const" or (first.name == "q" and first.data[1] not in open_)
        for node in chain:
            for arg in node.args[1:]:
                argument_parts, argument_complete = self._split(arg, open_)
                parts += argument_parts
                complete = complete and argument_complete
            if complete and node.sources:
                parts = [node]
        return parts, complete

    # ----------------------------------------------------------------- parts

    def _edge(self, edge: Edge) -> EdgePlan:
        work = self.edges[edge]
        registers = [] if edge.source == START else self.states[edge.source].registers

        def resolve(node: Op) -> tuple[str, int] | None:
            if node in registers:
                return ("row", registers.index(node))
            return ("event", self.columns.number(node)) if only(node, "event") else None

        predicate = filter_program(resolve, work.residual)
        copies: list[tuple[int, str, int]] = []
        computed: list[tuple[int, Op]] = []
        for number, output in enumerate(self.states[edge.target].outputs):
            expr = self._rewritten(output, edge)
            source = resolve(expr)
            if source is not None:
                copies.append((number, *source))
            else:
                computed.append((number, expr))
        outputs = store_program(resolve, computed)
        features = [self._rewritten(feature, edge) for feature in self.states[edge.target].features]
        return EdgePlan(
            source=edge.source,
            target=edge.target,
            variable=edge.variable,
            again=edge.again,
            group=edge.group,
            round=edge.round,
            keeps=self._keeps(edge),
            index=work.index,
            probe=tuple(self.columns.number(event) for _, event in work.keys),
            predicate=predicate,
            copies=tuple(copies),
            outputs=outputs,
            forall=self.checks.on_edge.get(edge, ()),
            absences=self.checks.absent_on_edge.get(edge, ()),
            key_texts=tuple((self._show(row), self._show(event)) for row, event in work.keys),
            predicate_texts=tuple(self._show(expr) for expr in work.residual),
            features=store_program(resolve, list(enumerate(features))),
        )

    def _keeps(self, edge: Edge) -> bool:
        """Return whether the edge enters an optional group, so that a copy of the row stays outside the group."""
        group = self.variables[edge.variable].group
        if group is None or group.minimum > 0:
            return False
        inner = [m for m, variable in enumerate(self.variables) if variable.group == group]
        return all(edge.source == START or edge.before[m] != YES for m in inner)

    def _index(self, item: _IndexWork) -> IndexPlan:
        outputs = self.states[item.state].outputs
        guard = -1 if item.guard == TRUE else outputs.index(item.guard)
        keys = tuple(outputs.index(key) for key in item.keys)
        texts = tuple(self._show(key) for key in item.keys)
        is_only_index = sum(other.state == item.state for other in self.indexes) == 1
        latest, partition = invalidation_words(self.query, item.keys) if is_only_index else (-1, ())
        return IndexPlan(item.state, keys, guard, item.forall, latest, partition, texts, self._show_guard(item.guard))

    def _state(self, number: int, guard: Op) -> StatePlan:
        work, state, checks = self.states[number], self.automaton.states[number], self.checks
        chain = (*self.automaton.chain, *(-1 for _ in self.automaton.inner))
        at_end = checks.absent_at_end.get(number, ())
        return StatePlan(
            variable=state.variable,
            bindings=tuple(v for v, status in enumerate(state.bound) if status != NO and chain[v] < 0),
            registers=len(work.registers),
            outputs=len(work.outputs),
            dtypes="".join(expr.dtype for expr in work.outputs),
            indexes=tuple(n for n, item in enumerate(self.indexes) if item.state == number),
            accepting=state.accepting,
            accept_guard=-1 if guard == TRUE else work.outputs.index(guard),
            accept_forall=checks.on_accept.get(number, ()),
            accept_absences=checks.absent_on_accept.get(number, ()),
            deferred=number in self._deferred(),
            at_end=at_end,
            due=work.outputs.index(checks.dues[number]) if number in checks.dues else -1,
            partition=self._partition_outputs(number) if self._has_partition(number) else (),
            needs_birth=needs_birth(self.query, self.automaton, number),
            register_texts=tuple(self._show(expr) for expr in work.registers),
            accept_text=self._show_guard(guard),
            due_text=self._show(checks.dues[number]) if number in checks.dues else "",
            features="".join(feature.dtype for feature in work.features),
        )

    def _per_partition(self) -> tuple[tuple[int, ...], ...]:
        """Return `Plan.per_partition`."""
        if not acts_by_partition(self.query):
            return ()

        def word(variable: int, name: str) -> int:
            value = Op("event", self.translate.dtype(variable, name), (), (variable, name))
            return self.columns.number(key_pair(value, value)[1])

        return tuple(tuple(word(m, name) for name in self.query.partition) for m in range(len(self.variables)))

    def _deferred(self) -> list[int]:
        """Return the states in which matches wait."""
        if self.longest:
            return [number for number, state in enumerate(self.automaton.states) if state.accepting]
        return list(self.checks.absent_at_end)

    def _has_partition(self, number: int) -> bool:
        """Return whether the waiting matches of a state have the words of their partition among their outputs."""
        return number in self._deferred() and (self.query.limit is not None or self.longest)

    def _partition_outputs(self, number: int) -> tuple[int, ...]:
        """Return the outputs that hold the words of the partition, for a state whose matches wait."""
        outputs = self.states[number].outputs
        return tuple(outputs.index(self._partition_word(name)) for name in self.query.partition)

    def _partition_word(self, name: str) -> Op:
        """Return a word of the partition of a row, in the form used in keys."""
        value = quantity("part", self.translate.dtype(0, name), -1, 0, name)
        return key_pair(value, value)[0]

    def _key(self) -> KeyPlan | str:
        """Return the key by which the state can be split, or the reason why there is none."""
        joins = [[work.keys for edge, work in self.edges.items() if edge.source != START and work.index == number]
                 for number in range(len(self.indexes))]  # fmt: skip
        waiting = {state: self.checks.key_words(state, work.outputs) for state, work in enumerate(self.states)
                   if self.checks.absent_at_end.get(state)}  # fmt: skip
        if self.longest:
            words_of = [self._partition_word(name) for name in self.query.partition]
            waiting = {state: [(output, word, word) for output, word in
                               zip(self._partition_outputs(state), words_of, strict=True)]
                       for state in self._deferred()}  # fmt: skip
        lacking = "with index='off' there are no keys to split the state by" if self.index == "off" else ""
        words = KeyWords(joins, self.checks.stores, waiting, lacking=lacking)
        return find_key(self.query, self.automaton, self.translate, words)

    def _type_variables(self) -> tuple[int, ...]:
        return tuple(
            sum(1 << number for number, variable in enumerate(self.variables) if name in variable.declaration.types)
            for name in self.query.schema.type_names
        )

    def _show(self, expr: Op) -> str:
        return describe(expr, self.query)

    def _show_guard(self, guard: Op) -> str:
        return "" if guard == TRUE else self._show(guard)


__all__ = ["compile_plan"]
