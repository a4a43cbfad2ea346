"""The factorised store: it keeps events instead of partial matches and enumerates matches when the last event arrives.

The query is evaluated backwards. The events of all variables but the last are *kept* in buckets, hashed by the values
that later events must equal. When an event of the last variable arrives, *steps* lead back from it: from the earliest
event chosen so far to the events before it, down to the first variable. Buckets are sorted by position, so the search
finds the matches in the order of the row store: by the last event but one, then the one before it, and so on.

Nothing is stored per partial match, so state and work grow with the number of events in the window and not with the
number of their pairs. In return, a step back can find events that no first event precedes, unless their own values say
that there is none. The engine measures which store costs less (:mod:`fastcep.engine.store_trial`).

The store supports a ``SEQ`` of single variables, and of Kleene variables ``+`` between two others, under
skip-till-any-match, if each condition can be decided from the chosen event and the events after it. Equalities become
keys. These include implied equalities (``a.k = b.k`` and ``a.k = c.k`` imply ``b.k = c.k``), because ``a`` is chosen
last, and equalities that can be solved for one variable (``a.v + b.v = c.v`` for ``a.v``).

This follows the idea of factorised representations of query results (Olteanu and Závodný, "Size bounds for factorised
representations of query results", TODS 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fastcep.plan.automaton import Automaton
from fastcep.plan.bytecode import Compiler
from fastcep.plan.conjuncts import read_conjunct
from fastcep.plan.expression_text import describe
from fastcep.plan.ir import TRUE, Op, key_pair, leaves, transform
from fastcep.plan.plan import KeptPlan, StepPlan, Term
from fastcep.plan.programs import Columns
from fastcep.plan.translate import Translator
from fastcep.query import ast, traversal

__all__ = ["Factorised", "factorise", "has_choice"]

#: One 64-bit word holds the null flags of a kept event.
_MAX_REGISTERS = 64

#: Maximum number of key words of a step for many events at once, see ``_core/factorised/kept_events.pxd``.
_MAX_WORDS = 8

_Signed = tuple[int, Op]  # an operand of a sum: its sign (1 or -1) and its value


@dataclass(frozen=True, slots=True)
class Factorised:
    """The parts of a plan for the factorised store.

    ``joins`` holds per store of kept events its variable and the words of its keys, as expressions over the event.
    """

    kept: tuple[KeptPlan, ...]
    steps: tuple[StepPlan, ...]
    joins: tuple[tuple[int, tuple[Op, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Condition:
    """A conjunct over ``event`` leaves; for two adjacent elements of a Kleene variable the later is a ``next`` leaf."""

    expr: Op
    variables: tuple[int, ...]

    @property
    def compares_adjacent(self) -> bool:
        return any(leaf.name == "next" for leaf in leaves(self.expr))


@dataclass(frozen=True, slots=True)
class _Draft:
    """A step under construction: its keys (word of the key, and the sum that it must equal) and its tests."""

    variable: int
    again: bool
    keys: tuple[tuple[Op, tuple[_Signed, ...]], ...]
    tests: tuple[Op, ...]
    joins: bool = False  # see `StepPlan`; the compared word is the last one
    compares: bool = False

    @property
    def hashed(self) -> tuple[Op, ...]:
        """Return the keys of its store."""
        keys = tuple(word for word, _ in self.keys)
        return keys[:-1] if self.compares else keys

    @property
    def source(self) -> int:
        """Return the variable of the earliest event that is already chosen."""
        return self.variable if self.again else self.variable + 1


def factorise(query: ast.Query, automaton: Automaton, translate: Translator, columns: Columns) -> Factorised | str:
    """Plan ``query`` for the factorised store, or return the reason why it requires rows."""
    return _shape(query, automaton) or _Factoriser(query, automaton, translate, columns).plan()


def has_choice(query: ast.Query) -> bool:
    """Return whether both stores are worth trying, for a query that both support.

    With two variables both stores keep the events of the first one. User-defined functions are not called twice for an
    event, so queries that call them are not tried twice.
    """
    calls = query.where is not None and any(isinstance(node, ast.UserCall) for node in traversal.walk(query.where))
    return isinstance(query.pattern, ast.Sequence) and len(query.pattern.patterns) > 2 and not calls


def _shape(query: ast.Query, automaton: Automaton) -> str:
    """Return the reason why pattern, window or policies require rows; empty if there is none."""
    pattern = query.pattern
    if not isinstance(pattern, ast.Sequence) or not all(isinstance(item, ast.Variable) for item in pattern.patterns):
        return "its pattern is not a SEQ of variables"
    for variable in pattern.patterns:
        assert isinstance(variable, ast.Variable)
        if variable.minimum != 1 or (variable.repeated and variable.maximum is not None) or variable.consecutive:
            return f"{variable.name} is optional, bounded or consecutive"
    if len(pattern.patterns) < 2 or automaton.variables[0].repeated or automaton.variables[-1].repeated:
        return "its first and last variables must be single"
    if pattern.adjacent or query.strategy != "skip_till_any":
        return "its strategy or NEXT restricts which events can follow"
    if query.select != "each" or query.consume != "zero" or query.after_match != "no skip" or query.limit is not None:
        return "its policies choose between matches or remove partial matches"
    if isinstance(query.window, ast.ExplicitWindow):
        return "its windows are explicit"
    return ""


class _Factoriser:
    def __init__(self, query: ast.Query, automaton: Automaton, translate: Translator, columns: Columns) -> None:
        self.query = query
        self.automaton = automaton
        self.translate = translate
        self.columns = columns
        self.last = len(automaton.variables) - 1
        self.classes: list[list[tuple[int, Op]]] = []
        self.conditions: list[_Condition] = []
        self.stores: list[tuple[int, tuple[Op, ...]]] = []
        self.registers: list[list[Op]] = [[] for _ in automaton.variables]
        self.bound: list[tuple[int, int]] = []

    def plan(self) -> Factorised | str:
        reason = self._same(self.query.partition)
        if reason:
            return reason
        for conjunct in traversal.conjuncts(self.query.where):
            reason = self._same(conjunct.names) if isinstance(conjunct, ast.SameAttributes) else self._take(conjunct)
            if reason:
                return reason
        drafts = [self._draft(variable, again) for variable in range(self.last) for again in self._ways(variable)]
        drafts[0] = self._joining(drafts[0])
        for draft in drafts:
            if (draft.variable, draft.hashed) not in self.stores:
                self.stores.append((draft.variable, draft.hashed))
            if draft.compares:
                self.registers[draft.variable].append(draft.keys[-1][0])
        steps = tuple(self._step(draft, drafts) for draft in drafts)  # also collects the registers
        if any(len(registers) > _MAX_REGISTERS for registers in self.registers):
            return f"its conditions read more than {_MAX_REGISTERS} values of one variable"
        predecessors = {
            self.stores.index((draft.variable, draft.hashed)): self._predecessor(draft, drafts)
            for draft in drafts[1:]
            if not draft.again
        }
        kept = tuple(
            replace(
                self._kept(*store),
                predecessor=predecessors.get(number),
                counts=predecessors.get(number) is not None and store[0] == 1 and drafts[0].joins,
            )
            for number, store in enumerate(self.stores)
        )
        return Factorised(kept, steps, tuple(self.stores))

    def _ways(self, variable: int) -> tuple[bool, ...]:
        """Return the values of `_Draft.again` for a variable; the steps of a Kleene variable use both."""
        return (False, True) if self.automaton.variables[variable].repeated else (False,)

    # ------------------------------------------------------------ conditions

    def _same(self, names: Sequence[str]) -> str:
        """Add the equalities of ``[k]``: all events agree on k."""
        for name in names:
            attribute = Op("event", self.translate.dtype(0, name), (), (0, name))  # the check ensures a common dtype
            nodes = [(variable, key_pair(*(_moved(attribute, variable),) * 2)[0]) for variable in range(self.last + 1)]
            if not self._merge(nodes):
                return f"{name} is equal to several values of one variable"
        return ""

    def _merge(self, nodes: Sequence[tuple[int, Op]]) -> bool:
        """Record that these are equal; return False if two values of one variable are, which no key can express."""
        joined = [group for group in self.classes if any(node in group for node in nodes)]
        merged = list(dict.fromkeys([*(node for group in joined for node in group), *nodes]))
        if len({variable for variable, _ in merged}) < len(merged):
            return False
        self.classes = [group for group in self.classes if group not in joined] + [merged]
        return True

    def _take(self, conjunct: ast.Expr) -> str:
        """Record a conjunct; return the reason why the store cannot decide it, or an empty string."""
        item = read_conjunct(conjunct, self.translate, self.automaton)
        text = describe(item.expr, self.query)
        conjunct_leaves = list(leaves(item.expr))
        kleene_variables = {leaf.data[0] for leaf in conjunct_leaves if leaf.name == "elem"}
        offsets = {leaf.data[1] for leaf in conjunct_leaves if leaf.name == "elem"}
        if any(leaf.name == "q" and leaf.data[0] == "last" and leaf.data[2] for leaf in conjunct_leaves):
            return f"{text} uses a single element of a Kleene variable"
        if any(leaf.name == "run" for leaf in conjunct_leaves):
            return f"{text} depends on all elements of a Kleene variable"
        if item.guard != TRUE or not item.mentioned:
            return f"whether {text} applies depends on more than its events"
        if any(leaf.name != "elem" and (leaf.name != "q" or leaf.data[0] != "first") for leaf in conjunct_leaves):
            return f"{text} depends on all elements of a Kleene variable"
        if any(leaf.name == "q" and self.automaton.variables[leaf.data[1]].repeated for leaf in conjunct_leaves):
            return f"{text} uses a single element of a Kleene variable"
        if len(kleene_variables) > 1 or (offsets and max(offsets) - min(offsets) > 1):
            return f"{text} compares elements that are not adjacent"
        if len(item.mentioned) == 1 and len(offsets) < 2:
            return ""  # on the event alone: only events that satisfy it are kept
        first = min(offsets, default=0)
        condition = _Condition(transform(item.expr, lambda node: _of_event(node, first)), item.mentioned)
        if self._equate(condition):
            return ""
        if any(variable < min(kleene_variables) for variable in item.mentioned if kleene_variables):
            return f"{text} compares each element with an earlier event"
        self.conditions.append(condition)
        return ""

    def _equate(self, condition: _Condition) -> bool:
        """Add an equality between two variables of one dtype to the equivalence classes; return whether it fits."""
        if condition.compares_adjacent or condition.expr.name not in ("eq_i", "eq_f"):
            return False
        nodes: list[tuple[int, Op]] = []
        for side in condition.expr.args:
            variables = {leaf.data[0] for leaf in leaves(side)}
            if len(variables) != 1 or side.name == "i2f":
                return False
            nodes.append((variables.pop(), key_pair(side, side)[0]))
        return self._merge(nodes)

    # ----------------------------------------------------------------- steps

    def _draft(self, variable: int, again: bool) -> _Draft:
        keys: dict[Op, tuple[_Signed, ...]] = {}
        tests: list[Op] = []
        for group in self.classes:
            later = [(number, expr) for number, expr in group if number > variable]
            for expr in [expr for number, expr in group if number == variable]:
                if later:
                    keys.setdefault(expr, ((1, max(later, key=lambda node: node[0])[1]),))
                elif again:
                    keys.setdefault(expr, ((1, transform(expr, _next)),))
        for condition in self.conditions:
            if min(condition.variables) != variable or (condition.compares_adjacent and not again):
                continue
            solved = _solve(condition.expr, variable)
            if solved is not None and solved[0] not in keys:
                keys[solved[0]] = solved[1]
            else:
                solved = None
            if solved is None or not solved[2]:
                tests.append(condition.expr)
        return _Draft(variable, again, tuple(sorted(keys.items(), key=lambda item: repr(item[0]))), tuple(tests))

    def _joining(self, draft: _Draft) -> _Draft:
        """Let a step to the first variable serve many events at once, if at most one key word differs between them."""
        if draft.tests or draft.source == self.last or self.automaton.variables[draft.source].repeated:
            return draft
        differing = [key for key in draft.keys if any(_reads(part, draft.source) for _, part in key[1])]
        if len(draft.keys) > _MAX_WORDS or len(differing) > 1:
            return draft
        if differing and sum(_reads(part, draft.source) for _, part in differing[0][1]) > 1:
            return draft
        same = tuple(key for key in draft.keys if key not in differing)
        return replace(draft, keys=(*same, *differing), joins=True, compares=bool(differing))

    def _is_same(self, draft: _Draft, drafts: Sequence[_Draft]) -> bool:
        """Return whether the step's key is the same for all elements of the Kleene variable that it starts from."""
        if draft.again or not self.automaton.variables[draft.source].repeated:
            return False
        again = next(other for other in drafts if other.again and other.variable == draft.source)
        constant_words = [word for word, terms in again.keys if terms == ((1, transform(word, _next)),)]
        parts = [part for _, terms in draft.keys for _, part in terms if part.name != "const"]
        return all(part in constant_words or _variable(part) != draft.source for part in parts)

    def _step(self, draft: _Draft, drafts: Sequence[_Draft]) -> StepPlan:
        words = tuple(tuple(self._term(sign, part, draft) for sign, part in terms) for _, terms in draft.keys)

        def resolve(node: Op) -> tuple[str, int] | None:
            return self._input(node, draft.variable)

        predicate = None
        if draft.tests:
            compiler = Compiler(resolve)
            for test in draft.tests:
                compiler.filter(test)
            predicate = compiler.finish()
        return StepPlan(
            source=draft.source,
            variable=draft.variable,
            kept=self.stores.index((draft.variable, draft.hashed)),
            words=words,
            predicate=predicate,
            same=self._is_same(draft, drafts),
            joins=draft.joins,
            key_texts=tuple((describe(word, self.query), self._sum(terms)) for word, terms in draft.keys),
            predicate_texts=tuple(describe(test, self.query) for test in draft.tests),
        )

    def _predecessor(self, draft: _Draft, drafts: Sequence[_Draft]) -> tuple[int, tuple[int, ...]] | None:
        """Return `KeptPlan.predecessor` of the store that a step to a Kleene variable, or before a join, searches.

        The key of the step before it must be the same for all elements, and known from the event alone: its words are
        values of the event, or equal to one by the classes of equal values.
        """
        before = next(other for other in drafts if other.variable == draft.variable - 1 and not other.again)
        if not before.joins and not self._is_same(before, drafts):
            return None
        columns = []
        for _, terms in before.keys[: len(before.hashed)]:
            value = self._value_of(draft.variable, terms)
            if value is None:
                return None
            columns.append(self.columns.number(value))
        return self.stores.index((before.variable, before.hashed)), tuple(columns)

    def _value_of(self, variable: int, terms: tuple[_Signed, ...]) -> Op | None:
        """Return the value of an event of a variable that a key word with these terms equals."""
        (sign, part), *others = terms
        if others or sign < 0 or part.name == "const":
            return None
        if _variable(part) == variable:
            return transform(part, lambda leaf: _event(leaf) if leaf.name == "next" else None)
        group = next((group for group in self.classes if (_variable(part), part) in group), [])
        return next((expr for number, expr in group if number == variable), None)

    def _term(self, sign: int, part: Op, draft: _Draft) -> Term:
        """Return the location of a value of an event that was chosen before the step; the source's is in its row."""
        if part.name == "const":
            return Term("const", part.data[0], sign)
        variable = _variable(part)
        if variable == self.last:
            return Term("event", self.columns.number(part), sign)
        register = self._register(variable, part)
        if variable == draft.source:
            return Term("row", register, sign)
        return Term("out", self._held(variable, register), sign)

    def _input(self, node: Op, variable: int) -> tuple[str, int] | None:
        """Return the input of a part of a test that reads one event; None for other parts."""
        if len(node.sources) != 1:
            return None
        ((name, number),) = node.sources
        if number == self.last:
            return "event", self.columns.number(node)
        register = self._register(number, node)
        return ("row", register) if (name, number) == ("event", variable) else ("out", self._held(number, register))

    def _register(self, variable: int, part: Op) -> int:
        """Return the number of a value that the variable's kept events carry."""
        value = transform(part, lambda leaf: _event(leaf) if leaf.name == "next" else None)
        registers = self.registers[variable]
        if value not in registers:
            registers.append(value)
        return registers.index(value)

    def _held(self, variable: int, register: int) -> int:
        """Return the slot of a register of a chosen event, whose value later steps read."""
        if (variable, register) not in self.bound:
            self.bound.append((variable, register))
        return self.bound.index((variable, register))

    def _kept(self, variable: int, keys: tuple[Op, ...]) -> KeptPlan:
        return KeptPlan(
            variable=variable,
            keys=tuple(self.columns.number(key) for key in keys),
            registers=tuple(self.columns.number(part) for part in self.registers[variable]),
            held=tuple((register, place) for place, (owner, register) in enumerate(self.bound) if owner == variable),
            key_texts=tuple(describe(key, self.query) for key in keys),
            register_texts=tuple(describe(part, self.query) for part in self.registers[variable]),
        )

    def _sum(self, terms: tuple[_Signed, ...]) -> str:
        text = ""
        for sign, part in terms:
            joint = (" + " if sign > 0 else " - ") if text else ("" if sign > 0 else "-")
            text += joint + describe(part, self.query)
        return text


def _variable(part: Op) -> int:
    """Return the variable whose event a part reads."""
    variable: int = next(leaves(part)).data[0]
    return variable


def _reads(part: Op, variable: int) -> bool:
    return part.name != "const" and _variable(part) == variable


def _event(leaf: Op) -> Op:
    return Op("event", leaf.dtype, (), leaf.data)


def _next(leaf: Op) -> Op | None:
    return Op("next", leaf.dtype, (), leaf.data) if leaf.name == "event" else None


def _moved(leaf: Op, variable: int) -> Op:
    return Op(leaf.name, leaf.dtype, (), (variable, *leaf.data[1:]))


def _of_event(leaf: Op, first: int) -> Op | None:
    """Rewrite an attribute of a single variable, an element or the next element as an attribute of the event."""
    if leaf.name == "q":
        return Op("event", leaf.dtype, (), (leaf.data[1], leaf.data[3]))
    if leaf.name == "elem":
        return Op("event" if leaf.data[1] == first else "next", leaf.dtype, (), (leaf.data[0], leaf.data[2]))
    return None


def _solve(expr: Op, variable: int) -> tuple[Op, tuple[_Signed, ...], bool] | None:
    """Solve an equality of int64 sums for the operand that reads only the variable's event.

    Returns that operand, the sum that it must equal, and whether both forms are equivalent. They are with one addition
    or subtraction: if it overflows, which gives null, no int64 equals the sum. With several operations a sum can fit
    int64 although an intermediate result does not.
    """
    if expr.name != "eq_i" or any(side.dtype != "i" for side in expr.args):
        return None
    terms: list[_Signed] = []
    operations = 0
    for side, sign in zip(expr.args, (1, -1), strict=True):
        side_terms, side_operations = _terms(side, sign)
        operations += side_operations
        terms += side_terms
    for _, part in terms:
        if part.name == "const":
            if part.data[0] is None:
                return None
        elif len(part.sources) != 1:
            return None
    solved = [
        term for term in terms if any(leaf.name == "event" and leaf.data[0] == variable for leaf in leaves(term[1]))
    ]
    if len(solved) != 1:
        return None
    terms.remove(solved[0])
    sign, part = solved[0]
    return part, tuple((-sign * other, value) for other, value in terms), operations <= 1


def _terms(expr: Op, sign: int) -> tuple[list[_Signed], int]:
    """Return the operands of a sum, and the number of operations that join them."""
    if expr.name == "neg_i":
        terms, operations = _terms(expr.args[0], -sign)
        return terms, operations + 1
    first, chain = expr.spine(lambda node: node.name not in ("add_i", "sub_i"))
    terms, operations = _terms(first, sign) if chain else ([(sign, expr)], 0)
    for node in chain:
        operand_terms, operand_operations = _terms(node.args[1], sign if node.name == "add_i" else -sign)
        terms += operand_terms
        operations += operand_operations + 1
    return terms, operations
