"""From placement to :class:`~fastcep.plan.plan.Plan`: keys, indexes, registers, programs."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastcep.errors import ValidationError
from fastcep.plan.bytecode import Compiler, Program
from fastcep.plan.ir import DTYPES, TRUE, Op, all_of, const, leaves, only, to_float, transform
from fastcep.plan.placement import ForAll, Placement, Placer
from fastcep.plan.plan import EdgePlan, EventColumn, ForAllPlan, IndexPlan, Plan, StatePlan
from fastcep.plan.rewrite import START, Edge, step
from fastcep.plan.wording import describe
from fastcep.query import ast

_BUILTINS = {"time": -1, "seq": -2, "type": -3}
_COMPUTED = -4
#: A row keeps the nulls of its registers in one word.
MAX_VALUES = 64


@dataclass(slots=True)
class _EdgeWork:
    keys: list[tuple[Op, Op]] = field(default_factory=list)
    residual: list[Op] = field(default_factory=list)
    replace: dict[Op, Op] = field(default_factory=dict)
    index: int = -1


@dataclass(slots=True)
class _StateWork:
    registers: list[Op] = field(default_factory=list)
    temporary: list[Op] = field(default_factory=list)

    @property
    def outputs(self) -> list[Op]:
        return self.registers + [op for op in self.temporary if op not in self.registers]


@dataclass(slots=True)
class _IndexWork:
    state: int
    keys: tuple[Op, ...]
    guard: Op
    forall: tuple[int, ...]


def make_plan(query: ast.Query) -> Plan:
    """Plan ``query`` (see the module's docstring)."""
    return _Planner(query).plan()


class _Planner:
    def __init__(self, query: ast.Query) -> None:
        self.query = query
        self.members = query.pattern.members
        self.placement: Placement = Placer(query).place()
        self.columns: dict[Op, int] = {}
        self.column_plans: list[EventColumn] = []
        self.edges: dict[Edge, _EdgeWork] = {}
        self.states = [_StateWork() for _ in self.members]
        self.indexes: list[_IndexWork] = []
        self.foralls: list[tuple[int, ForAll]] = []
        self.ring: set[int] = set()

    def plan(self) -> Plan:
        place, query = self.placement, self.query
        on_exit = {s: self._register_foralls(s, v) for s, v in place.all_on_exit.items()}
        on_accept = {s: self._register_foralls(s, v) for s, v in place.all_on_accept.items()}
        on_edge = {e: self._register_foralls(e.target, v) for e, v in place.all_on_edge.items()}
        for edge in place.edges:
            self._split(edge)
        for edge in place.edges:
            self._choose_index(edge, on_exit)
        accept: dict[int, Op] = {}
        for state in place.accepting:
            accept[state] = all_of(place.on_exit.get(state, []) + place.on_accept.get(state, []))
        self._temporaries(accept, on_edge, on_exit, on_accept)
        self._fix_registers()
        self._check_registers()
        locals_ = [self._local(number) for number in range(len(self.members))]
        edges = [self._edge(edge, on_edge.get(edge, ())) for edge in sorted(place.edges, key=_order)]
        foralls = [self._forall(number) for number in range(len(self.foralls))]
        kinds = {ast.TimeWindow: 0, ast.CountWindow: 1, ast.Unbounded: 2}
        window = getattr(query.window, "nanoseconds", getattr(query.window, "events", 0))
        return Plan(
            query=query,
            window_kind=kinds[type(query.window)],
            window=window,
            type_members=self._type_members(),
            locals=tuple(locals_),
            columns=tuple(self.column_plans),
            indexes=tuple(self._index(item) for item in self.indexes),
            foralls=tuple(foralls),
            edges=tuple(edges),
            states=tuple(self._state(n, accept, on_exit, on_accept) for n in range(len(self.members))),
            ring_columns=tuple(sorted(self.ring | self._returned())),
            local_texts=tuple(
                tuple(self._show(step(c, Edge(START, n))) for c in place.local.get(n, []))
                for n in range(len(self.members))
            ),
        )

    # ------------------------------------------------------------ conditions

    def _register_foralls(self, state: int, items: list[ForAll]) -> tuple[int, ...]:
        """Number the conditions for one state; the same condition at another state has another program."""
        self.foralls += [(state, item) for item in items]
        return tuple(range(len(self.foralls) - len(items), len(self.foralls)))

    def _split(self, edge: Edge) -> None:
        """Divide the edge's conditions into key equalities and the residual predicate."""
        work = self.edges[edge] = _EdgeWork()
        for condition in self.placement.on_edge.get(edge, []):
            expr = step(condition, edge)
            if expr == TRUE:
                continue
            pair = _equality(expr)
            if pair is None:
                work.residual.append(expr)
                continue
            if pair not in work.keys:
                work.keys.append(pair)
            if pair[0].dtype == pair[1].dtype != "f":
                work.replace.setdefault(*pair)
        work.keys.sort(key=repr)

    def _choose_index(self, edge: Edge, on_exit: dict[int, tuple[int, ...]]) -> None:
        if edge.source == START:
            return
        state, place = edge.source, self.placement
        if edge.loop:
            guard = all_of(place.on_loop.get(state, []))
            forall: tuple[int, ...] = ()
        else:
            guard = all_of(place.on_exit.get(state, []))
            forall = on_exit.get(state, ())
        keys = tuple(row for row, _ in self.edges[edge].keys)
        for number, item in enumerate(self.indexes):
            if (item.state, item.keys, item.guard, item.forall) == (state, keys, guard, forall):
                self.edges[edge].index = number
                return
        self.edges[edge].index = len(self.indexes)
        self.indexes.append(_IndexWork(state, keys, guard, forall))

    def _temporaries(
        self,
        accept: dict[int, Op],
        on_edge: dict[Edge, tuple[int, ...]],
        on_exit: dict[int, tuple[int, ...]],
        on_accept: dict[int, tuple[int, ...]],
    ) -> None:
        def want(state: int, expr: Op) -> None:
            if expr != TRUE and expr not in self.states[state].temporary:
                self.states[state].temporary.append(expr)

        for item in self.indexes:
            for key in item.keys:
                want(item.state, key)
            want(item.state, item.guard)
        for state, guard in accept.items():
            want(state, guard)
        at_state = [(state, number) for part in (on_exit, on_accept) for state, ns in part.items() for number in ns]
        at_state += [(edge.target, number) for edge, numbers in on_edge.items() for number in numbers]
        for state, number in at_state:
            condition = self.foralls[number][1]
            want(state, condition.guard)
            for expr in _row_parts(condition.condition):
                want(state, expr)

    def _fix_registers(self) -> None:
        changed = True
        while changed:
            changed = False
            for edge in sorted(self.edges, key=_order, reverse=True):
                if edge.source == START:
                    continue
                source = self.states[edge.source].registers
                work = self.edges[edge]
                needed = list(work.residual)
                needed += [self._rewritten(expr, edge) for expr in self.states[edge.target].outputs]
                for expr in needed:
                    for part in self._carried(expr, edge.source):
                        if part not in source:
                            source.append(part)
                            changed = True

    def _check_registers(self) -> None:
        for number, state in enumerate(self.states):
            if len(state.registers) > MAX_VALUES:
                variable = self.members[number].variable
                raise ValidationError(
                    f"query {self.query.name!r}: a partial match that has bound {variable!r} has to carry "
                    f"{len(state.registers)} values for later conditions, "
                    f"expected at most {MAX_VALUES}; compare fewer attributes, or use '=' where it fits"
                )

    def _rewritten(self, expr: Op, edge: Edge) -> Op:
        replace = self.edges[edge].replace
        return transform(step(expr, edge), replace.get)

    def _carried(self, expr: Op, state: int) -> list[Op]:
        """Maximal parts of ``expr`` that depend on the row only and do not change while the state loops."""
        if not expr.args:
            return [expr] if expr.name == "q" else []
        if only(expr, "q") and not (
            self.members[state].repeated and any(leaf.data[1] == state for leaf in leaves(expr))
        ):
            return [expr]
        return [part for arg in expr.args for part in self._carried(arg, state)]

    # -------------------------------------------------------------- programs

    def _resolve(self, leaf: Op) -> Op:
        """An ``event`` leaf as a physical column; a union whose types keep it in several columns selects by type."""
        member, attr = leaf.data
        if attr in _BUILTINS:
            return Op("col", leaf.dtype, (), (_BUILTINS[attr],))
        schema = self.query.schema
        result: Op | None = None
        for name in self.members[member].types:
            column = Op("col", leaf.dtype, (), (schema.column_of(name, attr),))
            if result is None or result == column:
                result = column
            else:
                this = Op("eq_i", "b", (Op("col", "s", (), (_BUILTINS["type"],)), const(name, "s")))
                result = Op("select", leaf.dtype, (this, column, result))
        assert result is not None
        return result

    def _column(self, expr: Op) -> int:
        """Number of the event column that holds the event-only ``expr``."""
        members = 0
        for leaf in leaves(expr):
            members |= 1 << leaf.data[0]
        resolved = transform(expr, lambda node: self._resolve(node) if node.name == "event" else None)
        number = self.columns.get(resolved)
        if number is None:
            program = None
            if resolved.name != "col":
                compiler = Compiler(self._raw)
                compiler.store(0, resolved)
                program = compiler.finish()
            number = self.columns[resolved] = len(self.column_plans)
            column = _COMPUTED if program else resolved.data[0]
            self.column_plans.append(EventColumn(column, 0, describe(expr, self.query), program))
        old = self.column_plans[number]
        self.column_plans[number] = EventColumn(old.column, old.members | members, old.text, old.program)
        return number

    def _raw(self, node: Op) -> tuple[str, int] | None:
        if node.name != "col":
            return None
        number = self.columns.get(node)
        if number is None:
            number = self.columns[node] = len(self.column_plans)
            self.column_plans.append(EventColumn(node.data[0], 0, f"#{node.data[0]}"))
        return ("event", number)

    def _local(self, member: int) -> Program | None:
        conditions = self.placement.local.get(member, [])
        if not conditions:
            return None
        compiler = Compiler(self._raw)
        for condition in conditions:
            expr = step(condition, Edge(START, member))
            compiler.filter(transform(expr, lambda node: self._resolve(node) if node.name == "event" else None))
        return compiler.finish()

    def _edge(self, edge: Edge, forall: tuple[int, ...]) -> EdgePlan:
        work = self.edges[edge]
        registers = [] if edge.source == START else self.states[edge.source].registers

        def resolve(node: Op) -> tuple[str, int] | None:
            if node in registers:
                return ("row", registers.index(node))
            return ("event", self._column(node)) if only(node, "event") else None

        predicate = outputs = None
        if work.residual:
            compiler = Compiler(resolve)
            for expr in work.residual:
                compiler.filter(expr)
            predicate = compiler.finish()
        copies: list[tuple[int, str, int]] = []
        computed: list[tuple[int, Op]] = []
        for number, wanted in enumerate(self.states[edge.target].outputs):
            expr = self._rewritten(wanted, edge)
            source = resolve(expr)
            if source is not None:
                copies.append((number, *source))
            else:
                computed.append((number, expr))
        if computed:
            compiler = Compiler(resolve)
            for number, expr in computed:
                compiler.store(number, expr)
            outputs = compiler.finish()
        return EdgePlan(
            source=edge.source,
            target=edge.target,
            index=work.index,
            probe=tuple(self._column(event) for _, event in work.keys),
            predicate=predicate,
            copies=tuple(copies),
            outputs=outputs,
            forall=forall,
            key_texts=tuple((self._show(row), self._show(event)) for row, event in work.keys),
            predicate_texts=tuple(self._show(expr) for expr in work.residual),
        )

    def _forall(self, number: int) -> ForAllPlan:
        state, item = self.foralls[number]
        outputs = self.states[state].outputs
        elements: list[tuple[int, int, int]] = []

        def element(node: Op) -> Op | None:
            """Resolve ``elem`` leaves to ring columns, by type for a union kept in several columns."""
            if node.name != "elem" or len(node.data) == 4:
                return None
            member, offset, attr = node.data
            column = transform(
                self._resolve(Op("event", node.dtype, (), (member, attr))),
                lambda leaf: (
                    Op("elem", leaf.dtype, (), (member, offset, leaf.data[0], "ring")) if leaf.name == "col" else None
                ),
            )
            return column

        def resolve(node: Op) -> tuple[str, int] | None:
            if node.name == "elem":
                key = (node.data[0], node.data[1], node.data[2])
                self.ring.add(key[2])
                if key not in elements:
                    elements.append(key)
                return ("elem", elements.index(key))
            return ("out", outputs.index(node)) if node in outputs else None

        compiler = Compiler(resolve)
        compiler.filter(transform(item.condition, element))
        guard = -1 if item.guard == TRUE else outputs.index(item.guard)
        texts = self._show(item.condition), self._show_guard(item.guard)
        return ForAllPlan(guard, compiler.finish(), tuple(elements), *texts)

    # ----------------------------------------------------------------- parts

    def _index(self, item: _IndexWork) -> IndexPlan:
        outputs = self.states[item.state].outputs
        guard = -1 if item.guard == TRUE else outputs.index(item.guard)
        keys = tuple(outputs.index(key) for key in item.keys)
        texts = tuple(self._show(key) for key in item.keys)
        return IndexPlan(item.state, keys, guard, item.forall, texts, self._show_guard(item.guard))

    def _state(
        self,
        number: int,
        accept: dict[int, Op],
        on_exit: dict[int, tuple[int, ...]],
        on_accept: dict[int, tuple[int, ...]],
    ) -> StatePlan:
        work, place = self.states[number], self.placement
        guard = accept.get(number, TRUE)
        return StatePlan(
            member=number,
            repeated=self.members[number].repeated,
            registers=len(work.registers),
            outputs=len(work.outputs),
            indexes=tuple(n for n, item in enumerate(self.indexes) if item.state == number),
            accepting=number in place.accepting,
            accept_guard=-1 if guard == TRUE else work.outputs.index(guard),
            accept_forall=on_exit.get(number, ()) + on_accept.get(number, ()),
            needs_birth=self._needs_birth(number),
            register_texts=tuple(self._show(expr) for expr in work.registers),
            accept_text=self._show_guard(guard),
        )

    def _needs_birth(self, state: int) -> bool:
        """Whether rows are merged with those of other states, or an event could meet a row it made itself."""
        own = set(self.members[state].types)
        for edge in self.placement.edges:
            if edge.source != state:
                continue
            others = [e for e in self.placement.edges if e.target == edge.target]
            if len(others) > 1 or (not edge.loop and own & set(self.members[edge.target].types)):
                return True
        return False

    def _type_members(self) -> tuple[int, ...]:
        return tuple(
            sum(1 << number for number, member in enumerate(self.members) if name in member.types)
            for name in self.query.schema.type_names
        )

    def _returned(self) -> set[int]:
        """Columns that RETURN reads from the ring."""
        found: set[int] = set()
        variables = {member.variable: number for number, member in enumerate(self.members)}
        for item in self.query.returns:
            for node in ast.walk(item.expression):
                if isinstance(node, ast.Attribute | ast.AttributeList | ast.Aggregate) and node.name is not None:
                    leaf = Op("event", DTYPES["int64"], (), (variables[node.variable], node.name))
                    found |= {part.data[0] for part in leaves(self._resolve(leaf))}
        return found

    def _show(self, expr: Op) -> str:
        return describe(expr, self.query)

    def _show_guard(self, guard: Op) -> str:
        return "" if guard == TRUE else self._show(guard)


def _order(edge: Edge) -> tuple[int, int]:
    return (edge.target, edge.source)


def _row_parts(expr: Op) -> list[Op]:
    """Maximal parts of a for-all condition that do not mention an element."""
    if only(expr, "q"):
        return [expr]
    return [part for arg in expr.args for part in _row_parts(arg)]


def _equality(expr: Op) -> tuple[Op, Op] | None:
    """``(row side, event side)`` when ``expr`` equates something of the row with something of the event."""
    if expr.name not in ("eq_i", "eq_f", "partition"):
        return None
    for row, event in (expr.args, expr.args[::-1]):
        if only(row, "q") and only(event, "event"):
            if row.dtype != event.dtype and "f" in (row.dtype, event.dtype):
                row, event = to_float(row), to_float(event)
            if row.dtype == "f":
                return Op("key_f", "f", (row,)), Op("key_f", "f", (event,))
            return row, event
    return None


__all__ = ["make_plan"]
