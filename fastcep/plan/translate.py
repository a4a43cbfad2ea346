"""Translate checked conditions of the AST into plan expressions over the *state view*: quantities and elements."""

from __future__ import annotations

from fastcep.plan.calendar import calendar
from fastcep.plan.ir import DTYPES, Earlier, Op, ValueSet, compare, const, promote, quantity, to_float
from fastcep.plan.special_forms import SPECIAL, special
from fastcep.plan.text import compare_texts, has_texts, text_call
from fastcep.query import ast
from fastcep.query.patterns import groups_of, pattern_variables
from fastcep.query.previous import previous_dtype
from fastcep.query.scalar_functions import TEXT_FUNCTIONS, TIME_FUNCTIONS
from fastcep.query.types import BUILTINS

_COMPARE = {"=": ("eq", False), "!=": ("ne", False), "<": ("lt", False), "<=": ("le", False),
            ">": ("lt", True), ">=": ("le", True)}  # fmt: skip
#: Maximum number of values of an IN that are compared one by one; more values become a hash set.
FEW_VALUES = 8
_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}


class Translator:
    """Translator of the expressions of one query.

    Parameters
    ----------
    query
        The checked query. Variables are numbered by their position in its pattern, followed by its repeated groups.
    """

    def __init__(self, query: ast.Query) -> None:
        self.query = query
        self.variables = pattern_variables(query.pattern)
        self.groups = [group for group in groups_of(query.pattern) if group.repeated]
        names = [*(variable.name for variable in self.variables), *(group.name for group in self.groups)]
        self.numbers = {name: number for number, name in enumerate(names)}

    def __call__(self, node: ast.Expr) -> Op:
        """Return ``node`` as an expression over quantities (``q``) and elements (``elem``)."""
        match node:
            case ast.Literal(value=value):
                if isinstance(value, bool):
                    return const(value, "b")
                kind = {int: "i", float: "f", str: "s"}.get(type(value), "i")
                return const(value, kind)
            case ast.DurationLiteral(nanoseconds=time) | ast.TimestampLiteral(nanoseconds=time):
                return const(time, "i")
            case ast.Attribute():
                return self._attribute(node)
            case ast.Aggregate():
                return self._aggregate(node)
            case ast.Unary(operator="NOT", operand=operand):
                return Op("not", "b", (self(operand),))
            case ast.Unary(operand=operand):
                number = self(operand)
                return Op("neg_f" if number.dtype == "f" else "neg_i", number.dtype, (number,))
            case ast.Binary():
                return self._binary(node)
            case ast.Membership(operand=operand, values=values, negated=negated):
                result = self._membership(self(operand), values)
                return Op("not", "b", (result,)) if negated else result
            case ast.Between(operand=operand, low=low, high=high):
                item = self(operand)
                above, below = _ordered("le", self(low), item), _ordered("le", item, self(high))
                return Op("and", "b", (above, below))
            case ast.Call(function=function, arguments=arguments):
                return self._call(function, [self(argument) for argument in arguments])
            case ast.UserCall(signature=signature, arguments=arguments):
                if has_texts(signature):
                    return text_call(signature, [self(argument) for argument in arguments], DTYPES[signature.result])
                pairs = zip(map(self, arguments), signature.parameters, strict=True)
                args = tuple(_converted(arg, DTYPES[dtype]) for arg, dtype in pairs)
                return Op("call", DTYPES[signature.result], args, (signature,))
        raise AssertionError(f"no translation of {type(node).__name__}")

    def dtype(self, variable: int, name: str) -> str:
        """Return the physical type of attribute ``name`` of ``variable``."""
        types = self.variables[variable].declaration.types
        return DTYPES[BUILTINS[name] if name in BUILTINS else self.query.schema.attributes(types[0])[name]]

    def _attribute(self, node: ast.Attribute) -> Op:
        variable = self.numbers[node.qualified_name]
        attr: str | Earlier = node.name
        if node.places:
            attr, dtype = Earlier(node.name, node.places), DTYPES[previous_dtype(node, self.query.schema)]
        else:
            dtype = self.dtype(variable, node.name)
        index = node.index
        if self.variables[variable].negated:
            return Op("neg", dtype, (), (variable, attr))
        if index is None:
            return quantity("first", dtype, variable, 0, attr)
        if index.kind == "relative":
            return Op("elem", dtype, (), (variable, index.offset, attr))
        if index.kind == "last":
            return quantity("last", dtype, variable, -index.offset, attr)
        if index.kind == "first" or index.offset == 0:
            return quantity("first", dtype, variable, 0, attr)
        return quantity("at", dtype, variable, index.offset, attr)

    def _aggregate(self, node: ast.Aggregate) -> Op:
        variable = self.numbers[node.qualified_name]
        raw = "i" if node.name is None else self.dtype(variable, node.name)

        def over_elements(kind: str, dtype: str) -> Op:
            if node.index is not None:
                return Op("run", dtype, (), (variable, node.index.offset, kind, raw, node.name or ""))
            return quantity(kind, dtype, variable, raw if node.name else 0, node.name or "")

        if node.name is None:
            return over_elements("count", "i")
        known = over_elements("known", "i")
        if node.function == "COUNT":
            return known
        if node.function in ("SUM", "MIN", "MAX"):
            return over_elements(node.function.lower(), raw)
        if node.function == "AVG":
            return Op("div_f", "f", (to_float(over_elements("sum", raw)), to_float(known)))
        return Op("stddev", "f", (over_elements("m2", "f"), known))

    def _binary(self, node: ast.Binary) -> Op:
        first, chain = node.spine()
        result = self(first)
        for link in chain:
            result = self._operation(link, result)
        return result

    def _operation(self, node: ast.Binary, left: Op) -> Op:
        """Translate an operation whose left operand is already translated."""
        right = self(node.right)
        if node.operator in ("AND", "OR"):
            return Op(node.operator.lower(), "b", (left, right))
        if node.operator in _COMPARE:
            name, swap = _COMPARE[node.operator]
            one, other = (right, left) if swap else (left, right)
            return compare(name, one, other) if name in ("eq", "ne") else _ordered(name, one, other)
        if node.operator in ("/", "^"):
            return Op("div_f" if node.operator == "/" else "pow_f", "f", (to_float(left), to_float(right)))
        left, right = promote(left, right)
        return Op(f"{_ARITHMETIC[node.operator]}_{left.dtype}", left.dtype, (left, right))

    def _membership(self, item: Op, values: tuple[ast.Literal, ...]) -> Op:
        """Translate membership: comparisons with a few values, or look-ups in sets of many values."""
        tests: list[Op]
        if len(values) <= FEW_VALUES:
            tests = [compare("eq", item, self(literal)) for literal in values]
        else:
            # An int64 is compared with integers as int64, and with other numbers as float64.
            known_values = [literal.value for literal in values if literal.value is not None]
            floats = [float(value) for value in known_values if item.dtype == "f" or isinstance(value, float)]
            integers = [value for value in known_values if item.dtype != "f" and not isinstance(value, float)]
            tests = [Op("in_i", "b", (item,), (ValueSet(integers),))] if integers else []
            if floats:
                floats = [value + 0.0 for value in floats]  # -0.0 becomes 0.0
                tests.append(Op("in_f", "b", (to_float(item),), (ValueSet(floats),)))
            if len(known_values) < len(values):
                tests.append(compare("eq", item, const(None, "i")))
        result, *others = tests
        for test in others:
            result = Op("or", "b", (result, test))
        return result

    def _call(self, function: str, args: list[Op]) -> Op:
        if function in SPECIAL:
            return special(function, args)
        if function in TIME_FUNCTIONS:
            return calendar(function, args)
        if function in TEXT_FUNCTIONS:
            return text_call(function, args, DTYPES[TEXT_FUNCTIONS[function][1]])
        if function in ("sqrt", "exp", "log"):
            return Op(function, "f", (to_float(args[0]),))
        if function == "abs":
            return Op("abs_" + args[0].dtype, args[0].dtype, (args[0],))
        if function == "floor":
            return args[0] if args[0].dtype == "i" else Op("floor", "f", (args[0],))
        if function == "avg":
            total = to_float(args[0])
            for arg in args[1:]:
                total = Op("add_f", "f", (total, to_float(arg)))
            return Op("div_f", "f", (total, const(float(len(args)), "f")))
        dtype = "f" if any(arg.dtype == "f" for arg in args) else "i"
        result = args[0] if dtype == "i" else to_float(args[0])
        for arg in args[1:]:
            result = Op(f"{function}_{dtype}", dtype, (result, arg if dtype == "i" else to_float(arg)))
        return result


def _ordered(name: str, left: Op, right: Op) -> Op:
    """Return ``left < right`` (lt) or ``left <= right`` (le); strings are ordered by their code points."""
    return (compare_texts if "s" in (left.dtype, right.dtype) else compare)(name, left, right)


def _converted(value: Op, dtype: str) -> Op:
    """Convert an argument to the dtype of a parameter: int64 becomes float64; the check rejects other differences."""
    return to_float(value) if dtype == "f" else value
