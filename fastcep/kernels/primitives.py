"""Primitives of generated source, as Numba intrinsics: loads and stores, wrapping integers, plain IEEE floats.

Only the compiling process imports this module. Loads of inputs and stores of results carry alias scopes, so the loops
vectorise without run-time checks: a kernel never writes what it reads, except ``keep``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_I64, _I32, _I8, _F64 = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.DoubleType()
#: Type of every pointer argument of a kernel.
POINTER: Any = types.CPointer(types.int64)
INT, FLOAT, BOOL = types.int64, types.float64, types.boolean
#: Layout of ``Input`` in predicate.pxd.
_DATA, _NULLS, _BITS, _BIT, _INPUT = 0, 8, 16, 24, 32

Emit = Callable[..., Any]


def _primitive(result: Any, *operands: Any) -> Callable[[Emit], Any]:
    """Return a decorator that turns a function ``(builder, *values) -> value`` into an intrinsic of fixed types."""

    def make(emit: Emit) -> Any:
        names = ", ".join(f"a{number}" for number in range(len(operands)))

        def typing(*_: Any) -> Any:
            def lower(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
                value = emit(builder, *values)
                return ir.Constant(ir.LiteralStructType(()), None) if value is None else value

            return result(*operands), lower

        scope: dict[str, Any] = {"typing": typing}
        exec(f"def {emit.__name__}(context, {names}):\n    return typing()", scope)
        return intrinsic(scope[emit.__name__])

    return make


def _scope(instruction: Any, builder: Any, scope: str, disjoint_scope: str) -> Any:
    module = builder.module
    domain = module.add_metadata(["fastcep"])
    for kind, name in (("alias.scope", scope), ("noalias", disjoint_scope)):
        instruction.set_metadata(kind, module.add_metadata([module.add_metadata([name, domain])]))
    return instruction


def _at(builder: Any, pointer: Any, index: Any, kind: Any) -> Any:
    return builder.gep(builder.bitcast(pointer, kind.as_pointer()), [index])


def _read(builder: Any, pointer: Any, index: Any, kind: Any) -> Any:
    return _scope(builder.load(_at(builder, pointer, index, kind)), builder, "in", "out")


def _write(builder: Any, value: Any, pointer: Any, index: Any, kind: Any) -> None:
    _scope(builder.store(value, _at(builder, pointer, index, kind)), builder, "out", "in")


def _field(builder: Any, inputs: Any, number: Any, offset: int, kind: Any) -> Any:
    """Load a field of ``Input`` number ``number``."""
    byte_offset = builder.add(builder.mul(number, ir.Constant(_I64, _INPUT)), ir.Constant(_I64, offset))
    address = builder.gep(builder.bitcast(inputs, _I8.as_pointer()), [byte_offset])
    return builder.load(builder.bitcast(address, kind.as_pointer()))


# ----------------------------------------------------------------------- memory


@_primitive(POINTER, POINTER, INT)
def values_of(builder: Any, inputs: Any, number: Any) -> Any:
    return _field(builder, inputs, number, _DATA, _I64.as_pointer())


@_primitive(POINTER, POINTER, INT, POINTER)
def nulls_of(builder: Any, inputs: Any, number: Any, zeros: Any) -> Any:
    """Return the null bytes of an input, or zeros if it has none."""
    nulls = _field(builder, inputs, number, _NULLS, _I64.as_pointer())
    is_missing = builder.icmp_unsigned("==", nulls, ir.Constant(_I64.as_pointer(), None))
    return builder.select(is_missing, zeros, nulls)


@_primitive(POINTER, POINTER, INT)
def bits_of(builder: Any, inputs: Any, number: Any) -> Any:
    return _field(builder, inputs, number, _BITS, _I64.as_pointer())


@_primitive(INT, POINTER, INT)
def bit_of(builder: Any, inputs: Any, number: Any) -> Any:
    bit = builder.zext(_field(builder, inputs, number, _BIT, _I32), _I64)
    return builder.shl(ir.Constant(_I64, 1), bit)


@_primitive(BOOL, INT, INT)
def has_bit(builder: Any, word: Any, bit: Any) -> Any:
    return builder.icmp_signed("!=", builder.and_(word, bit), ir.Constant(_I64, 0))


@_primitive(POINTER, POINTER, INT, INT)
def output_of(builder: Any, outputs: Any, number: Any, offset: Any) -> Any:
    base = builder.load(_at(builder, outputs, number, _I64.as_pointer()))
    return builder.gep(base, [offset])


@_primitive(POINTER, POINTER, INT, INT)
def output_null_of(builder: Any, outputs: Any, number: Any, offset: Any) -> Any:
    base = builder.load(_at(builder, outputs, number, _I8.as_pointer()))
    return builder.bitcast(builder.gep(base, [offset]), _I64.as_pointer())


@_primitive(INT, POINTER, INT)
def load_i(builder: Any, pointer: Any, index: Any) -> Any:
    return _read(builder, pointer, index, _I64)


@_primitive(FLOAT, POINTER, INT)
def load_f(builder: Any, pointer: Any, index: Any) -> Any:
    return _read(builder, pointer, index, _F64)


@_primitive(INT, POINTER, INT)
def load_row(builder: Any, pointer: Any, index: Any) -> Any:
    return builder.sext(_read(builder, pointer, index, _I32), _I64)


@_primitive(BOOL, POINTER, INT)
def load_b(builder: Any, pointer: Any, index: Any) -> Any:
    return builder.icmp_unsigned("!=", _read(builder, pointer, index, _I8), ir.Constant(_I8, 0))


@_primitive(BOOL, POINTER, INT)
def load_keep(builder: Any, pointer: Any, index: Any) -> Any:
    byte = _scope(builder.load(_at(builder, pointer, index, _I8)), builder, "out", "in")
    return builder.icmp_unsigned("!=", byte, ir.Constant(_I8, 0))


@_primitive(types.void, POINTER, INT, INT)
def put_i(builder: Any, pointer: Any, index: Any, value: Any) -> None:
    _write(builder, value, pointer, index, _I64)


@_primitive(types.void, POINTER, INT, FLOAT)
def put_f(builder: Any, pointer: Any, index: Any, value: Any) -> None:
    _write(builder, value, pointer, index, _F64)


@_primitive(types.void, POINTER, INT, BOOL)
def put_b(builder: Any, pointer: Any, index: Any, value: Any) -> None:
    _write(builder, builder.zext(value, _I8), pointer, index, _I8)


@_primitive(types.void, POINTER, INT)
def count(builder: Any, pointer: Any, increment: Any) -> None:
    builder.store(builder.add(builder.load(pointer), increment), pointer)


# ----------------------------------------------------------------------- values


@_primitive(INT, BOOL, INT, INT)
def pick_i(builder: Any, flag: Any, one: Any, other: Any) -> Any:
    return builder.select(flag, one, other)


@_primitive(FLOAT, BOOL, FLOAT, FLOAT)
def pick_f(builder: Any, flag: Any, one: Any, other: Any) -> Any:
    return builder.select(flag, one, other)


@_primitive(INT, FLOAT)
def bits_i(builder: Any, value: Any) -> Any:
    return builder.bitcast(value, _I64)


@_primitive(FLOAT, INT)
def bits_f(builder: Any, value: Any) -> Any:
    return builder.bitcast(value, _F64)


@_primitive(FLOAT, INT)
def to_f(builder: Any, value: Any) -> Any:
    return builder.sitofp(value, _F64)


@_primitive(BOOL, INT, INT)
def mul_overflows(builder: Any, one: Any, other: Any) -> Any:
    return builder.extract_value(builder.smul_with_overflow(one, other), 1)


def _instruction(name: str, method: str, kind: Any, operands: int) -> Any:
    """Return a primitive that is one LLVM instruction."""

    def emit(builder: Any, *values: Any) -> Any:
        return getattr(builder, method)(*values)

    emit.__name__ = name
    return _primitive(kind, *[kind] * operands)(emit)


def _library(name: str, function: str) -> Any:
    """Return a primitive that is one LLVM intrinsic of a float."""

    def emit(builder: Any, value: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic(function, [_F64]), [value])

    emit.__name__ = name
    return _primitive(FLOAT, FLOAT)(emit)


_INTEGER = {"wrap_add": "add", "wrap_sub": "sub", "wrap_mul": "mul", "divide": "sdiv", "remainder": "srem"}
_REAL = {"add_f": "fadd", "sub_f": "fsub", "mul_f": "fmul", "div_f": "fdiv"}
_EXACT = {"sqrt": "llvm.sqrt", "floor": "llvm.floor", "abs_f": "llvm.fabs"}
_CALLED = {"fastcep_exp": 1, "fastcep_log": 1, "fastcep_pow": 2, "fastcep_floordiv": 2, "fastcep_mod": 2}

#: All primitives by name: the namespace in which generated source is compiled.
PRIMITIVES: dict[str, Any] = {
    "MIN": -(2**63),
    **{primitive.__name__: primitive for primitive in (
        values_of, nulls_of, bits_of, bit_of, has_bit, output_of, output_null_of, load_i, load_f, load_row, load_b,
        load_keep, put_i, put_f, put_b, count, pick_i, pick_f, bits_i, bits_f, to_f, mul_overflows,
    )},
    **{name: _instruction(name, method, INT, 2) for name, method in _INTEGER.items()},
    **{name: _instruction(name, method, FLOAT, 2) for name, method in _REAL.items()},
    "neg_f": _instruction("neg_f", "fneg", FLOAT, 1),
    **{name: _library(name, function) for name, function in _EXACT.items()},
    **{name: types.ExternalFunction(name, FLOAT(*[FLOAT] * operands)) for name, operands in _CALLED.items()},
    "fastcep_text": types.ExternalFunction("fastcep_text", POINTER(POINTER, INT, INT, INT)),
    "fastcep_zone": types.ExternalFunction("fastcep_zone", INT(POINTER, INT, INT)),
    "fastcep_member": types.ExternalFunction("fastcep_member", INT(POINTER, INT, INT)),
}  # fmt: skip
