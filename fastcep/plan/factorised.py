"""The factorised store: events are kept, not partial matches; matches are enumerated when their last event comes.

What a query asks is read backwards here. The events of all variables but the last are *kept* in buckets, hashed by
what later events must equal. When an event of the last variable comes, *steps* lead back from it: from the earliest
event chosen so far to those before it, down to the first variable. A bucket ascends by position, so the walk finds the
matches in the order in which the row store would: by the last event but one, then the one before it, and so on.

Nothing is stored per partial match, so state and work do not grow with the pairs in the window but with its events; in
turn a step back may meet events that no first event precedes. Which of the two costs less the engine counts
(:mod:`fastcep.engine.store_trial`).

It serves a ``SEQ`` of single variables, and of Kleene variables ``+`` between two others, under skip-till-any-match, if
each condition is known of the event that is chosen and of those behind it. Equalities become keys: those that others
imply (of ``a.k = b.k`` and ``a.k = c.k`` that ``b.k = c.k``), because ``a`` is met last; and those that can be solved
for one variable (``a.v + b.v = c.v`` for ``a.v``).

The idea is that of factorised representations of query results (Olteanu and Závodný, "Size bounds for factorised
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
from fastcep.query import ast

__all__ = ["Factorised", "factorise", "has_choice"]

#: The nulls of a kept event stand in one word.
_MAX_REGISTERS = 64

#: Of the key of a step that is taken for many events at once, see ``_core/matcher/factorised.pxd``.
_MAX_WORDS = 8

_Signed = tuple[int, Op]  # an operand of a sum: 1 or -1, and what it is


@dataclass(frozen=True, slots=True)
class Factorised:
    """The parts of a plan.

    ``joins`` has per kept store its member and, for the partition key, the words of its keys over the event.
    """

    kept: tuple[KeptPlan, ...]
    steps: tuple[StepPlan, ...]
    joins: tuple[tuple[int, tuple[Op, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Condition:
    """A conjunct over ``event`` leaves; of two neighbours in a Kleene variable the later one is a ``next`` leaf."""

    expr: Op
    members: tuple[int, ...]

    @property
    def of_neighbours(self) -> bool:
        return any(leaf.name == "next" for leaf in leaves(self.expr))


@dataclass(frozen=True, slots=True)
class _Draft:
    """A step: how it joins (a word of the key, and the sum that it equals), and what it tests."""

    member: int
    again: bool
    keys: tuple[tuple[Op, tuple[_Signed, ...]], ...]
    tests: tuple[Op, ...]
    joins: bool = False  # see StepPlan; the word that is compared comes last
    compares: bool = False

    @property
    def hashed(self) -> tuple[Op, ...]:
        """The keys of its store."""
        keys = tuple(own for own, _ in self.keys)
        return keys[:-1] if self.compares else keys

    @property
    def source(self) -> int:
        """The member of the earliest event that is chosen already."""
        return self.member if self.again else self.member + 1


def factorise(query: ast.Query, places: Automaton, translate: Translator, columns: Columns) -> Factorised | str:
    """Plan ``query`` for the factorised store, or say why it has to be rows."""
    return _shape(query, places) or _Factoriser(query, places, translate, columns).plan()


def has_choice(query: ast.Query) -> bool:
    """Whether both stores are worth trying, if both can serve the query.

    Of two variables both keep the first one's events. A user's functions are not called twice for one event.
    """
    calls = query.where is not None and any(isinstance(node, ast.UserCall) for node in ast.walk(query.where))
    return isinstance(query.pattern, ast.Sequence) and len(query.pattern.members) > 2 and not calls


def _shape(query: ast.Query, places: Automaton) -> str:
    """Why pattern, window or policies ask for rows; empty if they do not."""
    pattern = query.pattern
    if not isinstance(pattern, ast.Sequence) or not all(isinstance(item, ast.Member) for item in pattern.members):
        return "its pattern is not a SEQ of variables"
    for member in pattern.members:
        assert isinstance(member, ast.Member)
        if member.minimum != 1 or (member.repeated and member.maximum is not None) or member.consecutive:
            return f"{member.variable} is optional, bounded or consecutive"
    if len(pattern.members) < 2 or places.leaves[0].repeated or places.leaves[-1].repeated:
        return "it does not begin with one single variable and end with another"
    if pattern.adjacent or query.strategy != "skip_till_any":
        return "an event must follow another directly, or advances what it extends"
    if query.select != "each" or query.consume != "zero" or query.after_match != "no skip" or query.limit is not None:
        return "its policies choose between matches, or end partial matches"
    if isinstance(query.window, ast.ExplicitWindow):
        return "events open or close its windows"
    return ""


class _Factoriser:
    def __init__(self, query: ast.Query, places: Automaton, translate: Translator, columns: Columns) -> None:
        self.query = query
        self.places = places
        self.translate = translate
        self.columns = columns
        self.last = len(places.leaves) - 1
        self.classes: list[list[tuple[int, Op]]] = []
        self.conditions: list[_Condition] = []
        self.stores: list[tuple[int, tuple[Op, ...]]] = []
        self.registers: list[list[Op]] = [[] for _ in places.leaves]
        self.bound: list[tuple[int, int]] = []

    def plan(self) -> Factorised | str:
        reason = self._same(self.query.partition)
        if reason:
            return reason
        for conjunct in ast.conjuncts(self.query.where):
            reason = self._same(conjunct.names) if isinstance(conjunct, ast.SameAttributes) else self._take(conjunct)
            if reason:
                return reason
        drafts = [self._draft(member, again) for member in range(self.last) for again in self._ways(member)]
        drafts[0] = self._joining(drafts[0])
        for draft in drafts:
            if (draft.member, draft.hashed) not in self.stores:
                self.stores.append((draft.member, draft.hashed))
            if draft.compares:
                self.registers[draft.member].append(draft.keys[-1][0])
        steps = tuple(self._step(draft, drafts) for draft in drafts)  # which finds the registers
        if any(len(registers) > _MAX_REGISTERS for registers in self.registers):
            return f"its conditions read more than {_MAX_REGISTERS} values of one variable"
        return Factorised(tuple(self._kept(*store) for store in self.stores), steps, tuple(self.stores))

    def _ways(self, member: int) -> tuple[bool, ...]:
        """Whether an event of the member is chosen from an event of its own: of a Kleene variable both ways."""
        return (False, True) if self.places.leaves[member].repeated else (False,)

    # ------------------------------------------------------------ conditions

    def _same(self, names: Sequence[str]) -> str:
        """``[k]``: all events agree in k."""
        for name in names:
            own = Op("event", self.translate.dtype(0, name), (), (0, name))  # of one type in all, or it is refused
            nodes = [(member, key_pair(*(_moved(own, member),) * 2)[0]) for member in range(self.last + 1)]
            if not self._merge(nodes):
                return f"{name} is equal to several values of one variable"
        return ""

    def _merge(self, nodes: Sequence[tuple[int, Op]]) -> bool:
        """Note that these are equal; False if two values of one variable would be, which no key says."""
        joined = [found for found in self.classes if any(node in found for node in nodes)]
        merged = list(dict.fromkeys([*(node for found in joined for node in found), *nodes]))
        if len({member for member, _ in merged}) < len(merged):
            return False
        self.classes = [found for found in self.classes if found not in joined] + [merged]
        return True

    def _take(self, conjunct: ast.Expr) -> str:
        """Note a conjunct; returns why the store cannot decide it, or nothing."""
        item = read_conjunct(conjunct, self.translate, self.places)
        text = describe(item.expr, self.query)
        found = list(leaves(item.expr))
        walked = {leaf.data[0] for leaf in found if leaf.name == "elem"}
        offsets = {leaf.data[1] for leaf in found if leaf.name == "elem"}
        if item.guard != TRUE or not item.mentioned:
            return f"it depends on more than events whether {text} applies"
        if any(leaf.name != "elem" and (leaf.name != "q" or leaf.data[0] != "first") for leaf in found):
            return f"{text} is about the whole of a Kleene variable"
        if any(leaf.name == "q" and self.places.leaves[leaf.data[1]].repeated for leaf in found):
            return f"{text} is about one element of a Kleene variable"
        if len(walked) > 1 or (offsets and max(offsets) - min(offsets) > 1):
            return f"{text} compares elements that are not neighbours"
        if len(item.mentioned) == 1 and len(offsets) < 2:
            return ""  # of the event alone: it is not kept otherwise
        first = min(offsets, default=0)
        condition = _Condition(transform(item.expr, lambda node: _of_event(node, first)), item.mentioned)
        if self._equate(condition):
            return ""
        if any(member < min(walked) for member in item.mentioned if walked):
            return f"{text} compares each element with an event before them"
        self.conditions.append(condition)
        return ""

    def _equate(self, condition: _Condition) -> bool:
        """Take an equality between two variables, of one type, into the classes of what is equal."""
        if condition.of_neighbours or condition.expr.name not in ("eq_i", "eq_f"):
            return False
        nodes: list[tuple[int, Op]] = []
        for side in condition.expr.args:
            members = {leaf.data[0] for leaf in leaves(side)}
            if len(members) != 1 or side.name == "i2f":
                return False
            nodes.append((members.pop(), key_pair(side, side)[0]))
        return self._merge(nodes)

    # ----------------------------------------------------------------- steps

    def _draft(self, member: int, again: bool) -> _Draft:
        keys: dict[Op, tuple[_Signed, ...]] = {}
        tests: list[Op] = []
        for group in self.classes:
            later = [(number, expr) for number, expr in group if number > member]
            for expr in [expr for number, expr in group if number == member]:
                if later:
                    keys.setdefault(expr, ((1, max(later, key=lambda node: node[0])[1]),))
                elif again:
                    keys.setdefault(expr, ((1, transform(expr, _next)),))
        for condition in self.conditions:
            if min(condition.members) != member or (condition.of_neighbours and not again):
                continue
            solved = _solve(condition.expr, member)
            if solved is not None and solved[0] not in keys:
                keys[solved[0]] = solved[1]
            else:
                solved = None
            if solved is None or not solved[2]:
                tests.append(condition.expr)
        return _Draft(member, again, tuple(sorted(keys.items(), key=lambda item: repr(item[0]))), tuple(tests))

    def _joining(self, draft: _Draft) -> _Draft:
        """Take a step to the first variable for many events at once, if at most one word differs between them."""
        if draft.tests or draft.source == self.last or self.places.leaves[draft.source].repeated:
            return draft
        differing = [key for key in draft.keys if any(_reads(part, draft.source) for _, part in key[1])]
        if len(draft.keys) > _MAX_WORDS or len(differing) > 1:
            return draft
        if differing and sum(_reads(part, draft.source) for _, part in differing[0][1]) > 1:
            return draft
        same = tuple(key for key in draft.keys if key not in differing)
        return replace(draft, keys=(*same, *differing), joins=True, compares=bool(differing))

    def _is_same(self, draft: _Draft, drafts: Sequence[_Draft]) -> bool:
        """Whether the step's key is the same for all elements of the Kleene variable that it comes from."""
        if draft.again or not self.places.leaves[draft.source].repeated:
            return False
        again = next(other for other in drafts if other.again and other.member == draft.source)
        kept = [own for own, terms in again.keys if terms == ((1, transform(own, _next)),)]
        parts = [part for _, terms in draft.keys for _, part in terms if part.name != "const"]
        return all(part in kept or _member(part) != draft.source for part in parts)

    def _step(self, draft: _Draft, drafts: Sequence[_Draft]) -> StepPlan:
        words = tuple(tuple(self._term(sign, part, draft) for sign, part in terms) for _, terms in draft.keys)

        def resolve(node: Op) -> tuple[str, int] | None:
            return self._input(node, draft.member)

        predicate = None
        if draft.tests:
            compiler = Compiler(resolve)
            for test in draft.tests:
                compiler.filter(test)
            predicate = compiler.finish()
        return StepPlan(
            source=draft.source,
            member=draft.member,
            kept=self.stores.index((draft.member, draft.hashed)),
            words=words,
            predicate=predicate,
            same=self._is_same(draft, drafts),
            joins=draft.joins,
            key_texts=tuple((describe(own, self.query), self._sum(terms)) for own, terms in draft.keys),
            predicate_texts=tuple(describe(test, self.query) for test in draft.tests),
        )

    def _term(self, sign: int, part: Op, draft: _Draft) -> Term:
        """Where a value of an event behind the step stands: the source's in its row."""
        if part.name == "const":
            return Term("const", part.data[0], sign)
        member = _member(part)
        if member == self.last:
            return Term("event", self.columns.number(part), sign)
        register = self._register(member, part)
        if member == draft.source:
            return Term("row", register, sign)
        return Term("out", self._held(member, register), sign)

    def _input(self, node: Op, member: int) -> tuple[str, int] | None:
        """What of a test is there already: parts that read one event."""
        if len(node.sources) != 1:
            return None
        ((name, number),) = node.sources
        if number == self.last:
            return "event", self.columns.number(node)
        register = self._register(number, node)
        return ("row", register) if (name, number) == ("event", member) else ("out", self._held(number, register))

    def _register(self, member: int, part: Op) -> int:
        """Number of a value that the member's kept events carry."""
        own = transform(part, lambda leaf: _event(leaf) if leaf.name == "next" else None)
        registers = self.registers[member]
        if own not in registers:
            registers.append(own)
        return registers.index(own)

    def _held(self, member: int, register: int) -> int:
        """Place among the values that stay at hand of an event which was chosen."""
        if (member, register) not in self.bound:
            self.bound.append((member, register))
        return self.bound.index((member, register))

    def _kept(self, member: int, keys: tuple[Op, ...]) -> KeptPlan:
        return KeptPlan(
            member=member,
            keys=tuple(self.columns.number(key) for key in keys),
            registers=tuple(self.columns.number(part) for part in self.registers[member]),
            held=tuple((register, place) for place, (owner, register) in enumerate(self.bound) if owner == member),
            key_texts=tuple(describe(key, self.query) for key in keys),
            register_texts=tuple(describe(part, self.query) for part in self.registers[member]),
        )

    def _sum(self, terms: tuple[_Signed, ...]) -> str:
        text = ""
        for sign, part in terms:
            joint = (" + " if sign > 0 else " - ") if text else ("" if sign > 0 else "-")
            text += joint + describe(part, self.query)
        return text


def _member(part: Op) -> int:
    """The one variable whose event a part reads."""
    member: int = next(leaves(part)).data[0]
    return member


def _reads(part: Op, member: int) -> bool:
    return part.name != "const" and _member(part) == member


def _event(leaf: Op) -> Op:
    return Op("event", leaf.dtype, (), leaf.data)


def _next(leaf: Op) -> Op | None:
    return Op("next", leaf.dtype, (), leaf.data) if leaf.name == "event" else None


def _moved(leaf: Op, member: int) -> Op:
    return Op(leaf.name, leaf.dtype, (), (member, *leaf.data[1:]))


def _of_event(leaf: Op, first: int) -> Op | None:
    """An attribute of a single variable, of an element or of the one after it, as that of the event."""
    if leaf.name == "q":
        return Op("event", leaf.dtype, (), (leaf.data[1], leaf.data[3]))
    if leaf.name == "elem":
        return Op("event" if leaf.data[1] == first else "next", leaf.dtype, (), (leaf.data[0], leaf.data[2]))
    return None


def _solve(expr: Op, member: int) -> tuple[Op, tuple[_Signed, ...], bool] | None:
    """Solve an equality of int64 sums for what reads only the member's event.

    Returns that, the sum that it equals, and whether both say the same. They do with one addition or subtraction: where
    it overflows, which makes it null, no int64 is equal to the sum. With more of them a sum may fit whose parts do not.
    """
    if expr.name != "eq_i" or any(side.dtype != "i" for side in expr.args):
        return None
    terms: list[_Signed] = []
    operations = 0
    for side, sign in zip(expr.args, (1, -1), strict=True):
        parts, inside = _terms(side, sign)
        operations += inside
        terms += parts
    for _, part in terms:
        if part.name == "const":
            if part.data[0] is None:
                return None
        elif len(part.sources) != 1:
            return None
    own = [term for term in terms if any(leaf.name == "event" and leaf.data[0] == member for leaf in leaves(term[1]))]
    if len(own) != 1:
        return None
    terms.remove(own[0])
    sign, part = own[0]
    return part, tuple((-sign * other, value) for other, value in terms), operations <= 1


def _terms(expr: Op, sign: int) -> tuple[list[_Signed], int]:
    """The operands of a sum, and by how many operations they are joined."""
    if expr.name == "neg_i":
        terms, operations = _terms(expr.args[0], -sign)
        return terms, operations + 1
    first, chain = expr.spine(lambda node: node.name not in ("add_i", "sub_i"))
    terms, operations = _terms(first, sign) if chain else ([(sign, expr)], 0)
    for node in chain:
        more, inside = _terms(node.args[1], sign if node.name == "add_i" else -sign)
        terms += more
        operations += inside + 1
    return terms, operations
