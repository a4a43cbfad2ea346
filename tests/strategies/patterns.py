"""Hypothesis strategies for valid patterns: plain sequences, and all operators nested in each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import strategies as st

from fastcep.events import Schema
from fastcep.query import ast
from fastcep.query.patterns import is_nullable, positive_variables, trailing_silence

Draw = Callable[..., Any]

SINGLE, OPTIONAL, KLEENE, BOUNDS = "T x", "T? x", "T+ x[]", "T{m,n} x[]"
SEQ, AND, OR, ANY, NEG, APERIODIC, PERIODIC = "SEQ", "AND", "OR", "ANY", "NEG", "APERIODIC", "PERIODIC"
GROUP, OPTIONAL_GROUP = "(…)+ g[]", "(…)? g"
OUTER = (SEQ, AND, OR, ANY, GROUP, OPTIONAL_GROUP, APERIODIC, PERIODIC)
INNER = (SEQ, AND, OR, ANY, NEG, OPTIONAL, KLEENE, BOUNDS, GROUP, OPTIONAL_GROUP, APERIODIC, PERIODIC)

WHOLE = (SEQ, AND, OR, ANY, APERIODIC, PERIODIC)  # what may be a whole pattern

NEG_IN_SEQ = "`NEG` without `FOR t` is a part of a `SEQ` only"
ANY_OF_TYPES = "`ANY` is over types: `ANY(n, T1 x1, …)`, or `ANY(n, T x[])`"
NO_LOOP_IN_GROUP = "a group holds neither a Kleene variable nor a group, at any depth"
EMPTY_ROUND = "a round of a group must bind an event, so beside `T? x` there is something else: `(SEQ(A a, B? b))+ g[]`"
EMPTY_PART = "`E1` and `E2` of `APERIODIC`, and `E1` of `PERIODIC`, must bind an event"
PERIODIC_IS_ALL = "`PERIODIC` is the whole pattern"


def refusal(outer: str, inner: str) -> str | None:
    """Return the reason why ``inner`` cannot be a direct part of ``outer``; None if it can."""
    if outer == ANY:
        return ANY_OF_TYPES
    if inner == PERIODIC:
        return PERIODIC_IS_ALL
    if inner == NEG:
        return None if outer == SEQ else NEG_IN_SEQ
    if outer in (GROUP, OPTIONAL_GROUP):
        if inner in (KLEENE, BOUNDS, GROUP, OPTIONAL_GROUP):
            return NO_LOOP_IN_GROUP
        return EMPTY_ROUND if inner == OPTIONAL else None
    if outer in (APERIODIC, PERIODIC) and inner in (OPTIONAL, OPTIONAL_GROUP):
        return EMPTY_PART
    return None


@st.composite
def patterns(draw: Draw, schema: Schema, most: int = 4) -> ast.Sequence:
    """Draw one to ``most`` variables in order, of single types or unions, at most three of them repeated."""
    variables = []
    repeated = 0
    for name in "abcd"[: draw(st.integers(1, most))]:
        types = tuple(draw(st.lists(st.sampled_from(schema.type_names), min_size=1, max_size=2, unique=True)))
        kind = draw(st.sampled_from(["one", "one", "one", "?", "+", "+", "*", "{}"] if repeated < 3 else ["one", "?"]))
        minimum, maximum, starred = quantifier(draw, kind)
        repeated += starred
        variables.append(ast.Variable(types, name, minimum, maximum, starred))
    return ast.Sequence(tuple(variables))


def quantifier(draw: Draw, kind: str) -> tuple[int, int | None, bool]:
    """Draw the bounds of a variable, and whether it is repeated."""
    if kind == "one":
        return 1, 1, False
    if kind == "?":
        return 0, 1, False
    if kind == "{}":
        minimum = draw(st.integers(0, 2))
        return minimum, draw(st.sampled_from([None, max(minimum, 1), minimum + 1, minimum + 2])), True
    return int(kind == "+"), None, True


@st.composite
def nested_patterns(draw: Draw, schema: Schema, window: ast.Window, most: int = 5) -> ast.Pattern:
    """Draw nested operators with at most ``most`` variables, valid for the window."""
    make = Patterns(draw, schema, window, most)
    return make.top(make.pick(*make.tops()))


@st.composite
def pair_patterns(draw: Draw, schema: Schema, window: ast.Window, outer: str, inner: str) -> ast.Pattern:
    """Draw a pattern in which ``inner`` is a direct part of ``outer``."""
    why = refusal(outer, inner)
    if why is not None:
        raise ValueError(f"{inner} in {outer} is refused: {why}")
    make = Patterns(draw, schema, window, 5)
    if outer == PERIODIC or (outer not in (GROUP, OPTIONAL_GROUP) and make.pick(True, True, False)):
        return make.top(outer, inner)
    return make.top(make.pick(SEQ, AND, OR), outer, inner)


@st.composite
def negated_patterns(draw: Draw, schema: Schema, window: ast.Window) -> ast.Pattern:
    """Draw a SEQ with a negation in it, often at an edge if the window allows that."""
    return Patterns(draw, schema, window, 4).top(SEQ, NEG)


class Patterns:
    """Draws the parts of one pattern, for a window. Some windows allow a negation at an edge, some PERIODIC."""

    def __init__(self, draw: Draw, schema: Schema, window: ast.Window, most: int) -> None:
        self.draw = draw
        self.schema = schema
        self.ticks = isinstance(window, ast.TimeWindow)
        self.edges = isinstance(window, ast.TimeWindow | ast.ExplicitWindow)
        self.waits = isinstance(window, ast.TimeWindow | ast.Unbounded)  # for NEG FOR with nothing bound after it
        self.bounded = False  # inside APERIODIC or PERIODIC
        self.left = most  # variables that may still be made
        self.kept = 0  # of these, needed for parts still to come
        self.loops = 2  # Kleene variables and groups that may still be made
        self.names = iter("abcde")
        self.negated = iter("nmopq")
        self.groups = iter("ghij")

    def pick(self, *options: Any) -> Any:
        """Draw one of the options; shrinks to the first."""
        return self.draw(st.sampled_from(options))

    def tops(self) -> list[str]:
        """Return the operators that a whole pattern may be."""
        return [SEQ, SEQ, AND, OR, ANY, SEQ, APERIODIC, *([PERIODIC] if self.ticks else [])]

    def top(self, *kinds: str) -> ast.Pattern:
        """Draw a whole pattern; of several kinds, each is a direct part of the one before."""
        return self.build(list(kinds), 3, grouped=False, solid=False, top=True)

    @contextmanager
    def keep(self, count: int) -> Iterator[None]:
        """Reserve ``count`` variables for later parts."""
        self.kept += count
        yield
        self.kept -= count

    def single(self, name: str | None = None) -> ast.Variable:
        """Draw ``T x``."""
        self.left -= 1
        types = tuple(self.draw(st.lists(st.sampled_from(self.schema.type_names), min_size=1, max_size=1)))
        if self.pick(False, False, False, True):
            types = tuple(dict.fromkeys([*types, self.pick(*self.schema.type_names)]))
        return ast.Variable(types, next(self.names) if name is None else name)

    def part(self, depth: int, grouped: bool, solid: bool) -> ast.Pattern:
        """Draw any part of a pattern except a negation. ``solid``: it must bind an event; ``grouped``: in a group."""
        kinds = [SINGLE, SINGLE, SINGLE]
        if not solid:
            kinds += [OPTIONAL]
        if self.loops and not grouped:
            kinds += [KLEENE, BOUNDS]
        if depth > 0 and self.left - self.kept >= 2:
            kinds += [OR, AND, ANY, SEQ, APERIODIC]
            if self.loops and not grouped:
                kinds += [GROUP, GROUP, *([] if solid else [OPTIONAL_GROUP])]
        return self.build([self.pick(*kinds)], depth, grouped, solid)

    def parts(self, kinds: list[str], depth: int, grouped: bool, solid: list[bool]) -> list[ast.Pattern]:
        """Draw several parts, one of the required kind (if there is one)."""
        place = self.draw(st.integers(0, len(solid) - 1))
        made = []
        for number, firm in enumerate(solid):
            with self.keep(len(solid) - 1 - number):
                if kinds and number == place:
                    made.append(self.build(kinds, depth - 1, grouped, firm))
                else:
                    # The required part needs variables, so the parts beside it are simple.
                    with self.keep(least(kinds) - 1 if number < place else 0):
                        made.append(self.part(0 if kinds else depth - 1, grouped, firm))
        return made

    def build(self, kinds: list[str], depth: int, grouped: bool, solid: bool, top: bool = False) -> ast.Pattern:
        """Draw a pattern of kind ``kinds[0]``, with the other kinds in it."""
        kind, *rest = kinds
        room = min(3, self.left - self.kept - least(rest) + 1)
        if kind in (SINGLE, OPTIONAL, KLEENE, BOUNDS):
            return self.variable(kind, solid)
        if kind in (GROUP, OPTIONAL_GROUP):
            return self.group(kind, rest, depth, solid)
        if kind == ANY:
            return self.any_of(grouped)
        if kind in (APERIODIC, PERIODIC):
            return self.until(kind, rest, depth, grouped)
        if kind == SEQ and rest == [NEG]:
            return self.negate([], depth, grouped, top, surely=True)
        count = self.pick(*range(2, room + 1), 1)
        if kind == SEQ:
            solids = [solid and number == 0 for number in range(count)]
            parts = self.parts(rest, depth, grouped, solids)
            return self.negate(parts, depth, grouped, top, surely=False)
        if kind == AND:
            return ast.Conjunction(tuple(self.parts(rest, depth, grouped, [solid, *[False] * (count - 1)])))
        assert kind == OR, kind
        return ast.Disjunction(tuple(self.parts(rest, depth, grouped, [solid] * count)))

    def variable(self, kind: str, solid: bool) -> ast.Variable:
        """Draw a variable with a quantifier."""
        one = self.single()
        if kind == SINGLE:
            return one
        words = {OPTIONAL: "?", KLEENE: self.pick("+", "+", "+" if solid else "*"), BOUNDS: "{}"}
        minimum, maximum, repeated = quantifier(self.draw, words[kind])
        if solid:
            minimum = max(minimum, 1)
        self.loops -= repeated
        return ast.Variable(one.types, one.name, minimum, maximum, repeated)

    def group(self, kind: str, rest: list[str], depth: int, solid: bool) -> ast.Group:
        """Draw a group of any parts that are allowed in it and bind an event."""
        self.loops -= 1
        name = next(self.groups)
        if rest:
            inner = self.build(rest, depth - 1, grouped=True, solid=True)
        else:
            inner = self.part(depth - 1, grouped=True, solid=True)
            inner = ast.Sequence((inner,)) if isinstance(inner, ast.Variable) else inner  # required by the grammar
        if kind == OPTIONAL_GROUP:
            return ast.Group(inner, name, 0, 1, False)
        minimum, maximum, repeated = quantifier(self.draw, self.pick("+", "+", "+" if solid else "*", "{}"))
        return ast.Group(inner, name, max(minimum, int(solid)), maximum, repeated)

    def any_of(self, grouped: bool) -> ast.AnyOf:
        """Draw some of a list of types, or several events of one."""
        if not grouped and self.loops and self.pick(False, False, True):
            one = self.single()
            self.loops -= 1
            count = self.pick(2, 1, 3)
            keys = set.intersection(*(set(self.schema.attributes(name)) for name in one.types))
            distinct = self.pick(None, "k", *sorted(keys))
            return ast.AnyOf(count, (ast.Variable(one.types, one.name, count, count, True),), distinct)
        most = max(1, min(3, self.left - self.kept))
        variables = tuple(self.single() for _ in range(self.pick(*range(min(2, most), most + 1))))
        return ast.AnyOf(self.draw(st.integers(1, len(variables))), variables)

    def until(self, kind: str, rest: list[str], depth: int, grouped: bool) -> ast.Pattern:
        """Draw ``APERIODIC`` or ``PERIODIC``."""
        outer, self.bounded = self.bounded, True
        with self.keep(1):
            if kind == PERIODIC:
                (opening,) = self.parts(rest, depth, grouped, [True])
                self.bounded = outer
                return ast.Periodic(opening, self.pick(2, 1, 3, 5), self.single(next(self.negated)))
            opening, body = self.parts(rest, depth, grouped, [True, True])
        self.bounded = outer
        return ast.Aperiodic(opening, body, self.single(next(self.negated)))

    def negate(self, parts: list[ast.Pattern], depth: int, grouped: bool, top: bool, surely: bool) -> ast.Sequence:
        """Draw a sequence, perhaps with negations between parts; ``surely``: at least one, with parts for it."""
        if surely:
            edges = top and self.edges and self.pick(False, True)
            with self.keep(1):
                parts = self.parts([], min(depth, 1), grouped, [True] if edges else [True, True])
        count = self.pick(1, 1, 2) if surely else self.pick(0, 1)
        if not grouped and not self.bounded and self.pick(False, False, True):
            self.silence(parts, surely)
            count, surely = count - 1, False
        for _ in range(max(0, count)):
            places = [place for place in range(len(parts) + 1) if (top and self.edges) or inside(parts, place)]
            if not places or (self.left <= self.kept and not surely):
                break
            surely = False
            places += [len(parts)] * (2 if top and self.edges else 0)
            if trailing_silence(ast.Sequence(tuple(parts))) is not None:  # a match cannot wait for both
                places = [place for place in places if not all(map(is_nullable, parts[place:]))]
            if not places:
                break
            one = self.single(next(self.negated))
            parts.insert(self.pick(*places), ast.Negation(one.types, one.name))
        return ast.Sequence(tuple(parts))

    def silence(self, parts: list[ast.Pattern], surely: bool) -> None:
        """Insert ``NEG N n FOR t``, alone or in an OR or AND, where an event is bound before it, if there is room."""
        places = [
            place
            for place in range(len(parts) + 1)
            if not all(map(is_nullable, parts[:place])) and (self.waits or inside(parts, place))
        ]
        if not places or (self.left <= self.kept and not surely):
            return
        one = self.single(next(self.negated))
        part: ast.Pattern = ast.Negation(one.types, one.name, self.pick(2, 1, 3, 5))
        if self.left > self.kept and self.pick(False, False, True):
            beside = [self.single(), part]
            part = self.pick(ast.Disjunction, ast.Conjunction)(tuple(beside[:: self.pick(1, -1)]))
        parts.insert(self.pick(*places, places[-1]), part)


def least(kinds: list[str]) -> int:
    """Return the number of variables that the first kind needs with the others in it; 1 for none."""
    if not kinds:
        return 1
    kind, *rest = kinds
    return {APERIODIC: 2, PERIODIC: 1, NEG: 3}.get(kind, 0) + least(rest)


def inside(parts: list[ast.Pattern], place: int) -> bool:
    """Return True if an event is surely bound both before and after a place."""
    return not all(map(is_nullable, parts[:place])) and not all(map(is_nullable, parts[place:]))


def most_events(pattern: ast.Pattern) -> int:
    """Return the maximum length of a stream for which the reference matcher is quick."""
    variables = positive_variables(pattern)
    loops = sum(variable.repeated for variable in variables)
    if isinstance(pattern, ast.Sequence) and all(isinstance(part, ast.Variable) for part in pattern.patterns):
        return {0: 9, 1: 9, 2: 8}.get(loops, 6)
    others = max(0, len(variables) - loops - 1)
    return max(count for count in range(4, 10) if count == 4 or (loops + 1) ** count * count**others <= 5000)
