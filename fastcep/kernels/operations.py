"""Generators of operations: one function per bytecode operation, which writes its code (see :mod:`generate`).

To add an operation, write its function with the name in ``OPCODES``, plus an underscore if Python reserves the name.
Add it to ``EXPENSIVE`` if rejected rows should skip it. It must compute the same as in the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Value:
    """A value in the loop.

    Attributes
    ----------
    kind
        ``i`` int64, ``f`` float64, ``b`` bool, ``x`` eight bytes that ``read`` loads as either.
    null
        Expression of the null flag; ``"False"`` or ``"True"`` if it is constant.
    read
        Function that returns the expression of the value, as ``i`` or ``f`` for the kind ``x``.
    """

    kind: str
    null: str
    read: Callable[[str], str]
    name: str = ""


def any_of(*flags: str) -> str:
    """Return the disjunction of ``flags``, with constants folded."""
    if "True" in flags:
        return "True"
    variable_flags = list(dict.fromkeys(flag for flag in flags if flag != "False"))
    if len(variable_flags) > 1:
        return f"({' | '.join(variable_flags)})"
    return variable_flags[0] if variable_flags else "False"


def all_of(*flags: str) -> str:
    """Return the conjunction of ``flags``, with constants folded."""
    if "False" in flags:
        return "False"
    variable_flags = list(dict.fromkeys(flag for flag in flags if flag != "True"))
    if len(variable_flags) > 1:
        return f"({' & '.join(variable_flags)})"
    return variable_flags[0] if variable_flags else "True"


class Loop:
    """Lines of a loop's body.

    Parameters
    ----------
    alive
        Expression that is true if the row counts: ``k``, or ``True`` without filters.
    """

    def __init__(self, alive: str) -> None:
        self.lines: list[str] = []
        self.alive = alive
        self.pad = ""
        self._names = 0
        self._known: set[str] = set()

    @property
    def nested(self) -> bool:
        """Return whether the following lines are inside ``if k``."""
        return bool(self.pad)

    def nest(self) -> None:
        """Put the following lines into a branch for rows that still count."""
        self.lines.append("if k:")
        self.pad = "    "

    def cached(self, name: str, expression: str) -> str:
        """Assign ``expression`` to ``name`` at its first use."""
        if name not in self._known:
            self._known.add(name)
            self.lines.append(f"{self.pad}{name} = {expression}")
        return name

    def let(self, expression: str) -> str:
        """Assign ``expression`` to a new name, unless it is already a name or a constant."""
        if expression.isidentifier():
            return expression
        self._names += 1
        self.lines.append(f"{self.pad}v{self._names} = {expression}")
        return f"v{self._names}"

    def of(self, value: Value, kind: str) -> str:
        """Return ``value`` as ``i`` or ``f``."""
        if value.kind in ("x", kind):
            return value.read(kind)
        if kind == "i":
            return f"pick_i({value.read('b')}, 1, 0)" if value.kind == "b" else f"bits_i({value.read('f')})"
        return f"bits_f({self.of(value, 'i')})"

    def i(self, value: Value) -> str:
        """Return ``value`` as int64."""
        return self.of(value, "i")

    def f(self, value: Value) -> str:
        """Return ``value`` as float64."""
        return self.of(value, "f")

    def truth(self, value: Value) -> str:
        """Return the expression that ``value`` is not 0."""
        return value.read("b") if value.kind == "b" else self.let(f"({self.i(value)} != 0)")

    def negated(self, flag: str) -> str:
        """Return ``not flag``."""
        return {"False": "True", "True": "False"}.get(flag) or self.let(f"(not {flag})")

    def chosen(self, flag: str, one: str, other: str) -> str:
        """Return ``one if flag else other`` for flags."""
        if flag in ("True", "False"):
            return one if flag == "True" else other
        return any_of(all_of(flag, one), all_of(self.negated(flag), other)) if one != other else one

    def result(self, kind: str, expression: str, null: str = "False") -> Value:
        """Return a computed value."""
        name = self.let(expression)
        return Value(kind, self.let(null) if null not in ("True", "False") else null, lambda _: name)

    def checked(self, expression: str, bad: str, *nulls: str) -> Value:
        """Return an int64 that is null if ``bad``; this is counted if the row counts and no operand is null."""
        null = any_of(*nulls)
        name = self.let(bad)
        counted = all_of(self.alive, name, self.negated(self.let(null) if null not in ("True", "False") else null))
        if counted != "False":
            self.lines.append(f"{self.pad}lost += {counted}")
        return self.result("i", expression, any_of(name, null))


# ----------------------------------------------------------------------- conversions and logic


def i2f(e: Loop, a: Value) -> Value:
    return e.result("f", f"to_f({e.i(a)})", a.null)


def not_(e: Loop, a: Value) -> Value:
    return e.result("b", f"(not {e.truth(a)})", a.null)


def and_(e: Loop, a: Value, b: Value) -> Value:
    return _logic(e, a, b, "&", e.negated)


def or_(e: Loop, a: Value, b: Value) -> Value:
    return _logic(e, a, b, "|", lambda flag: flag)


def _logic(e: Loop, a: Value, b: Value, sign: str, decides: Callable[[str], str]) -> Value:
    """Return three-valued SQL logic: a deciding operand (false for AND, true for OR) takes precedence over null."""
    x, y = e.truth(a), e.truth(b)
    null = any_of(a.null, b.null)
    if null != "False":
        for value, flag in ((a, x), (b, y)):
            null = all_of(null, e.negated(e.let(all_of(decides(flag), e.negated(value.null)))))
    known_true = {"a": all_of(x, e.negated(a.null)), "b": all_of(y, e.negated(b.null))}
    return e.result("b", f"({known_true['a']} {sign} {known_true['b']})", null)


def guard(e: Loop, a: Value, b: Value) -> Value:
    applies = e.let(all_of(e.truth(a), e.negated(a.null)))
    return e.result("b", any_of(e.negated(applies), e.truth(b)), all_of(applies, b.null))


def select(e: Loop, a: Value, b: Value, c: Value) -> Value:
    first = e.let(all_of(e.truth(a), e.negated(a.null)))
    kind = "f" if "f" in (b.kind, c.kind) else "i"
    return e.result(kind, f"pick_{kind}({first}, {e.of(b, kind)}, {e.of(c, kind)})", e.chosen(first, b.null, c.null))


def known_i(e: Loop, a: Value) -> Value:
    return e.result("b", e.negated(a.null))


def known_f(e: Loop, a: Value) -> Value:
    return e.result("b", all_of(e.negated(a.null), f"({e.f(a)} == {e.f(a)})"))


def key_f(e: Loop, a: Value) -> Value:
    x = e.f(a)
    return e.result("f", f"add_f({x}, 0.0)", any_of(a.null, f"({x} != {x})"))


# ----------------------------------------------------------------------- integers


def add_i(e: Loop, a: Value, b: Value) -> Value:
    x, y = e.i(a), e.i(b)
    r = e.let(f"wrap_add({x}, {y})")
    return e.checked(r, f"((({x} ^ {r}) & ({y} ^ {r})) < 0)", a.null, b.null)


def sub_i(e: Loop, a: Value, b: Value) -> Value:
    x, y = e.i(a), e.i(b)
    r = e.let(f"wrap_sub({x}, {y})")
    return e.checked(r, f"((({x} ^ {y}) & ({x} ^ {r})) < 0)", a.null, b.null)


def mul_i(e: Loop, a: Value, b: Value) -> Value:
    x, y = e.i(a), e.i(b)
    return e.checked(f"wrap_mul({x}, {y})", f"mul_overflows({x}, {y})", a.null, b.null)


def floordiv_i(e: Loop, a: Value, b: Value) -> Value:
    x, y = e.i(a), e.i(b)
    quotient, _ = _divide(e, x, y)
    bad = f"(({y} == 0) | (({y} == -1) & ({x} == MIN)))"
    return e.checked(f"pick_i({y} == -1, wrap_sub(0, {x}), {quotient})", bad, a.null, b.null)


def mod_i(e: Loop, a: Value, b: Value) -> Value:
    x, y = e.i(a), e.i(b)
    quotient, divisor = _divide(e, x, y)
    return e.checked(f"wrap_sub({x}, wrap_mul({quotient}, {divisor}))", f"({y} == 0)", a.null, b.null)


def _divide(e: Loop, x: str, y: str) -> tuple[str, str]:
    """Return floored quotient and divisor; the divisors 0 and -1, which could trap, are replaced by 1."""
    divisor = e.let(f"pick_i(({y} == 0) | ({y} == -1), 1, {y})")
    quotient, remainder = e.let(f"divide({x}, {divisor})"), e.let(f"remainder({x}, {divisor})")
    rounds_down = f"({remainder} != 0) & (({x} < 0) != ({divisor} < 0))"
    return e.let(f"wrap_sub({quotient}, pick_i({rounds_down}, 1, 0))"), divisor


def neg_i(e: Loop, a: Value) -> Value:
    x = e.i(a)
    return e.checked(f"wrap_sub(0, {x})", f"({x} == MIN)", a.null)


def abs_i(e: Loop, a: Value) -> Value:
    x = e.i(a)
    return e.checked(f"pick_i({x} < 0, wrap_sub(0, {x}), {x})", f"({x} == MIN)", a.null)


def min_i(e: Loop, a: Value, b: Value) -> Value:
    x, y = e.i(a), e.i(b)
    return e.result("i", f"pick_i({y} < {x}, {y}, {x})", any_of(a.null, b.null))


def max_i(e: Loop, a: Value, b: Value) -> Value:
    x, y = e.i(a), e.i(b)
    return e.result("i", f"pick_i({y} > {x}, {y}, {x})", any_of(a.null, b.null))


# ----------------------------------------------------------------------- floats


def _binary(function: str) -> Callable[[Loop, Value, Value], Value]:
    def operation(e: Loop, a: Value, b: Value) -> Value:
        return e.result("f", f"{function}({e.f(a)}, {e.f(b)})", any_of(a.null, b.null))

    return operation


def _unary(function: str) -> Callable[[Loop, Value], Value]:
    def operation(e: Loop, a: Value) -> Value:
        return e.result("f", f"{function}({e.f(a)})", a.null)

    return operation


def _extreme(e: Loop, x: str, y: str, sign: str) -> str:
    """Return minimum (``<``) or maximum (``>``); NaN if either operand is."""
    return f"pick_f(({x} != {x}) | ({y} != {y}), add_f({x}, {y}), pick_f({y} {sign} {x}, {y}, {x}))"


def min_f(e: Loop, a: Value, b: Value) -> Value:
    return e.result("f", _extreme(e, e.f(a), e.f(b), "<"), any_of(a.null, b.null))


def max_f(e: Loop, a: Value, b: Value) -> Value:
    return e.result("f", _extreme(e, e.f(a), e.f(b), ">"), any_of(a.null, b.null))


# ----------------------------------------------------------------------- comparisons


def _compare(sign: str, kind: str) -> Callable[[Loop, Value, Value], Value]:
    def operation(e: Loop, a: Value, b: Value) -> Value:
        return e.result("b", f"({e.of(a, kind)} {sign} {e.of(b, kind)})", any_of(a.null, b.null))

    return operation


def member(e: Loop, a: Value, number: int, kind: str) -> Value:
    """Return the test that a value is in the set that is constant ``number``."""
    word = e.i(a) if kind == "i" else f"bits_i(add_f({e.f(a)}, 0.0))"
    return e.result("b", f"(fastcep_member(constants, {number}, {word}) != 0)", a.null)


def text(e: Loop, a: Value, number: int) -> Value:
    """Return the entry of a string in the table of a text function, whose address is constant ``number``."""
    entry = e.let(f"fastcep_text(constants, {number}, {e.i(a)}, pick_i({a.null}, 1, 0))")
    return e.result("i", f"load_i({entry}, 1)", f"(load_i({entry}, 0) != 1)")


def zone(e: Loop, a: Value, number: int) -> Value:
    """Return local time minus UTC at a time, in the time zone whose table is at the address in constant ``number``."""
    return e.result("i", f"fastcep_zone(constants, {number}, {e.i(a)})", a.null)


# ----------------------------------------------------------------------- running aggregates: (old, known count, value)


def agg_known(e: Loop, known: Value, value: Value) -> Value:
    return e.result("i", f"wrap_add({e.i(known)}, pick_i({e.negated(value.null)}, 1, 0))")


def _aggregate(e: Loop, kind: str, old: Value, known: Value, value: Value, new: str, null: str) -> Value:
    """Return ``new``, or the old aggregate if the value is null, or the value if it is the first."""
    before, number = e.of(old, kind), e.of(value, kind)
    first = e.let(f"({e.i(known)} == 0)")
    later_null = e.chosen(first, "False", null)
    chosen = f"pick_{kind}({first}, {number}, {new})"
    return e.result(kind, f"pick_{kind}({value.null}, {before}, {chosen})", e.chosen(value.null, old.null, later_null))


def agg_sum_i(e: Loop, old: Value, known: Value, value: Value) -> Value:
    x, y = e.i(old), e.i(value)
    total = e.let(f"wrap_add({x}, {y})")
    overflows = f"((({x} ^ {total}) & ({y} ^ {total})) < 0)"
    becomes_null = e.let(all_of(e.negated(value.null), e.negated(old.null), f"({e.i(known)} != 0)", overflows))
    lost = all_of(e.alive, becomes_null)
    if lost != "False":
        e.lines.append(f"{e.pad}lost += {lost}")
    return _aggregate(e, "i", old, known, value, total, any_of(old.null, becomes_null))


def agg_sum_f(e: Loop, old: Value, known: Value, value: Value) -> Value:
    return _aggregate(e, "f", old, known, value, f"add_f({e.f(old)}, {e.f(value)})", old.null)


def agg_min_i(e: Loop, old: Value, known: Value, value: Value) -> Value:
    x, y = e.i(old), e.i(value)
    return _aggregate(e, "i", old, known, value, f"pick_i({y} < {x}, {y}, {x})", old.null)


def agg_max_i(e: Loop, old: Value, known: Value, value: Value) -> Value:
    x, y = e.i(old), e.i(value)
    return _aggregate(e, "i", old, known, value, f"pick_i({y} > {x}, {y}, {x})", old.null)


def agg_min_f(e: Loop, old: Value, known: Value, value: Value) -> Value:
    return _aggregate(e, "f", old, known, value, _extreme(e, e.f(old), e.f(value), "<"), old.null)


def agg_max_f(e: Loop, old: Value, known: Value, value: Value) -> Value:
    return _aggregate(e, "f", old, known, value, _extreme(e, e.f(old), e.f(value), ">"), old.null)


def agg_mean(e: Loop, old: Value, known: Value, value: Value) -> Value:
    count = e.i(known)
    mean = e.let(f"pick_f({count} == 0, 0.0, {e.f(old)})")
    new = f"add_f({mean}, div_f(sub_f({e.f(value)}, {mean}), to_f(wrap_add({count}, 1))))"
    return e.result("f", f"pick_f({value.null}, {e.f(old)}, {new})", all_of(value.null, old.null))


def agg_m2(e: Loop, old: Value, mean: Value, known: Value, value: Value) -> Value:
    count, number = e.i(known), e.f(value)
    before = e.let(f"pick_f({count} == 0, 0.0, {e.f(mean)})")
    deviation = e.let(f"sub_f({number}, {before})")
    after = f"add_f({before}, div_f({deviation}, to_f(wrap_add({count}, 1))))"
    new = f"add_f(pick_f({count} == 0, 0.0, {e.f(old)}), mul_f({deviation}, sub_f({number}, {after})))"
    return e.result("f", f"pick_f({value.null}, {e.f(old)}, {new})", all_of(value.null, old.null))


def stddev(e: Loop, m2: Value, known: Value) -> Value:
    count = e.i(known)
    null = any_of(m2.null, f"({count} < 2)")
    return e.result("f", f"sqrt(div_f({e.f(m2)}, to_f(wrap_sub({count}, 1))))", null)


_PLAIN: tuple[Callable[..., Value], ...] = (
    i2f, not_, and_, or_, guard, select, known_i, known_f, key_f,
    add_i, sub_i, mul_i, floordiv_i, mod_i, neg_i, abs_i, min_i, max_i, min_f, max_f,
    agg_known, agg_sum_i, agg_sum_f, agg_min_i, agg_max_i, agg_min_f, agg_max_f, agg_mean, agg_m2, stddev,
)  # fmt: skip
#: Operations by the name of their opcode.
OPERATIONS: dict[str, Callable[..., Value]] = {function.__name__.rstrip("_"): function for function in _PLAIN} | {
    "add_f": _binary("add_f"), "sub_f": _binary("sub_f"), "mul_f": _binary("mul_f"), "div_f": _binary("div_f"),
    "floordiv_f": _binary("fastcep_floordiv"), "mod_f": _binary("fastcep_mod"), "pow_f": _binary("fastcep_pow"),
    "exp": _unary("fastcep_exp"), "log": _unary("fastcep_log"), "sqrt": _unary("sqrt"), "floor": _unary("floor"),
    "neg_f": _unary("neg_f"), "abs_f": _unary("abs_f"),
} | {
    f"{name}_{kind}": _compare(sign, kind)
    for name, sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<=")) for kind in "if"
}  # fmt: skip

#: Operations that rejected rows skip.
EXPENSIVE = frozenset("floordiv_i mod_i floordiv_f mod_f pow_f exp log in_i in_f text zone".split())  # noqa: SIM905
