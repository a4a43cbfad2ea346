"""Compile plan expressions to the bytecode of tier 0, which ``fastcep._core.program.predicate`` runs over chunks.

An instruction is six int32: opcode, destination register, up to four operands. A register holds a chunk of 8-byte
values with an optional null mask. Inputs are columns or broadcast scalars; the caller maps expressions to inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastcep._core.program.predicate import OPCODES
from fastcep.errors import ValidationError
from fastcep.plan.ir import Op

# The list of the evaluator itself, so that bytecode and binary always agree.
CODE = {name: number for number, name in enumerate(OPCODES)}
WIDTH = 6
MAX_REGISTERS = 48
#: Operations with a constant as second operand: a `ValueSet`, a `TextCall`, a time zone.
LOOKUPS = ("in_i", "in_f", "text", "zone")

#: Function from a sub-expression to its input ``(kind, number)``, or None if it must be computed.
Resolve = Callable[[Op], tuple[str, int] | None]


@dataclass(frozen=True, slots=True)
class Program:
    """Bytecode with its constants and inputs.

    Attributes
    ----------
    code
        Flat int32 instructions, ``WIDTH`` each, the last one ``end``.
    constants
        Operands of ``const`` and ``call`` (numbers, None, strings, and the `Signature` of user-defined functions), and
        of ``in_i`` and ``in_f`` (a `ValueSet`), ``text`` and ``call`` (a `TextCall`). The engine replaces strings by
        their codes, and functions and tables by their addresses.
    inputs
        Per input ``(kind, number)``. The kind is ``row`` (register of the source row), ``event`` (column), ``out``
        (output computed before) or ``elem`` (column of an element).
    registers
        Number of registers used.
    """

    code: tuple[int, ...]
    constants: tuple[Any, ...]
    inputs: tuple[tuple[str, int], ...]
    registers: int


class Compiler:
    """Builder of a :class:`Program`.

    Parameters
    ----------
    resolve
        Function from a sub-expression to its input ``(kind, number)``, or None if it must be computed.
    """

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._code: list[int] = []
        self._constants: list[Any] = []
        self._inputs: dict[tuple[str, int], int] = {}
        self._used = 0

    def filter(self, expr: Op) -> None:
        """Keep only the rows for which ``expr`` is true; the program ends early if no row is left."""
        self._emit("filter", 0, self._value(expr, 0))

    def store(self, output: int, expr: Op) -> None:
        """Write ``expr`` to output ``output``."""
        self._emit("store", output, self._value(expr, 0))

    def finish(self) -> Program:
        """Return the program."""
        self._emit("end", 0)
        return Program(tuple(self._code), tuple(self._constants), tuple(self._inputs), max(1, self._used))

    def _value(self, expr: Op, register: int) -> int:
        if register >= MAX_REGISTERS:
            raise ValidationError(f"a condition is nested deeper than {MAX_REGISTERS} levels; split it into several")
        self._used = max(self._used, register + 1)
        # First operands can be nested thousands of levels deep; they share one register.
        chain: list[Op] = []
        while (source := self._resolve(expr)) is None and expr.args and expr.name != "call":
            chain.append(expr)
            expr = expr.args[0]
        self._operand(expr, source, register)
        for node in reversed(chain):
            others = [self._value(arg, register + number) for number, arg in enumerate(node.args[1:], 1)]
            if node.name in LOOKUPS:
                self._constants.append(node.data[0])
                others = [len(self._constants) - 1]
            self._emit(node.name, register, register, *others)
        return register

    def _operand(self, expr: Op, source: tuple[str, int] | None, register: int) -> None:
        """Load an input or a constant, or call a function, into a register."""
        if source is not None:
            number = self._inputs.setdefault(source, len(self._inputs))
            self._emit("load", register, number)
        elif expr.name == "const":
            self._constants.append(expr.data[0])
            self._emit("const", register, len(self._constants) - 1)
        else:  # a call: its arguments are in consecutive registers, starting at this one
            for number, arg in enumerate(expr.args):
                self._value(arg, register + number)
            self._constants.append(expr.data[0])
            self._emit("call", register, len(self._constants) - 1, len(expr.args))

    def _emit(self, name: str, destination: int, *operands: int) -> None:
        padded = (*operands, 0, 0, 0, 0)[: WIDTH - 2]
        self._code += [CODE[name], destination, *padded]


def filter_program(resolve: Resolve, conditions: Sequence[Op]) -> Program | None:
    """Return a program that keeps the rows for which all conditions are true; None without conditions."""
    if not conditions:
        return None
    compiler = Compiler(resolve)
    for condition in conditions:
        compiler.filter(condition)
    return compiler.finish()


def store_program(resolve: Resolve, outputs: Sequence[tuple[int, Op]]) -> Program | None:
    """Return a program that writes each expression to its output; None without outputs."""
    if not outputs:
        return None
    compiler = Compiler(resolve)
    for output, expr in outputs:
        compiler.store(output, expr)
    return compiler.finish()
