"""Compile plan expressions to the bytecode of tier 0 (``fastcep._core.program.predicate`` runs it over chunks).

An instruction is six int32: opcode, destination register, up to four operands. Registers hold a chunk of 8-byte
values with an optional null mask. Inputs are columns or broadcast scalars; the caller says which column an input is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastcep._core.program.predicate import OPCODES
from fastcep.errors import ValidationError
from fastcep.plan.ir import Op

# The evaluator's own list, so that bytecode and binary cannot disagree.
CODE = {name: number for number, name in enumerate(OPCODES)}
WIDTH = 6
MAX_REGISTERS = 48

#: Maps a sub-expression to its input ``(kind, number)``, or None when it has to be computed.
Resolve = Callable[[Op], tuple[str, int] | None]


@dataclass(frozen=True, slots=True)
class Program:
    """Bytecode with its constants and inputs.

    Attributes
    ----------
    code
        Flat int32 instructions, ``WIDTH`` each, the last one ``end``.
    constants
        Values of ``const`` and ``call``: numbers, None, strings and the `Signature` of users' functions; of ``in_i``
        and ``in_f`` the `ValueSet`. The engine gives strings and functions their words: a string's code, a function's
        address.
    inputs
        Per input ``(kind, number)``; kinds: ``row`` register of the source row, ``event`` column,
        ``out`` staged output, ``elem`` element column.
    registers
        Number of registers used.
    """

    code: tuple[int, ...]
    constants: tuple[Any, ...]
    inputs: tuple[tuple[str, int], ...]
    registers: int


class Compiler:
    """Build one :class:`Program`.

    Parameters
    ----------
    resolve
        Maps a sub-expression to its input ``(kind, number)``, or None when it has to be computed.
    """

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._code: list[int] = []
        self._constants: list[Any] = []
        self._inputs: dict[tuple[str, int], int] = {}
        self._used = 0

    def filter(self, expr: Op) -> None:
        """Keep only the rows for which ``expr`` is true; the program ends early when none is left."""
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
        # The first operands, which may be nested in each other thousands deep, have the same register.
        chain: list[Op] = []
        while (source := self._resolve(expr)) is None and expr.args and expr.name != "call":
            chain.append(expr)
            expr = expr.args[0]
        self._operand(expr, source, register)
        for node in reversed(chain):
            others = [self._value(arg, register + number) for number, arg in enumerate(node.args[1:], 1)]
            if node.name in ("in_i", "in_f"):
                self._constants.append(node.data[0])
                others = [len(self._constants) - 1]
            self._emit(node.name, register, register, *others)
        return register

    def _operand(self, expr: Op, source: tuple[str, int] | None, register: int) -> None:
        """Put an input, a constant or what a function returns into a register."""
        if source is not None:
            number = self._inputs.setdefault(source, len(self._inputs))
            self._emit("load", register, number)
        elif expr.name == "const":
            self._constants.append(expr.data[0])
            self._emit("const", register, len(self._constants) - 1)
        else:  # a call: the arguments are the registers from this one on
            for number, arg in enumerate(expr.args):
                self._value(arg, register + number)
            self._constants.append(expr.data[0])
            self._emit("call", register, len(self._constants) - 1, len(expr.args))

    def _emit(self, name: str, destination: int, *operands: int) -> None:
        padded = (*operands, 0, 0, 0, 0)[: WIDTH - 2]
        self._code += [CODE[name], destination, *padded]


def filtering(resolve: Resolve, conditions: Sequence[Op]) -> Program | None:
    """The program that keeps the rows for which all conditions are true; None without any."""
    if not conditions:
        return None
    compiler = Compiler(resolve)
    for condition in conditions:
        compiler.filter(condition)
    return compiler.finish()


def storing(resolve: Resolve, outputs: Sequence[tuple[int, Op]]) -> Program | None:
    """The program that writes each expression to its output; None without any."""
    if not outputs:
        return None
    compiler = Compiler(resolve)
    for output, expr in outputs:
        compiler.store(output, expr)
    return compiler.finish()
