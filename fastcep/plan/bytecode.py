"""Compile plan expressions to the bytecode of tier 0 (``fastcep._core.predicate`` runs it over chunks).

An instruction is six int32: opcode, destination register, up to four operands. Registers hold a chunk of 8-byte
values with an optional null mask. Inputs are columns or broadcast scalars; the caller says which column an input is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastcep.errors import ValidationError
from fastcep.plan.ir import Op

#: Operation names in opcode order; ``fastcep/_core/predicate.pyx`` has the same list.
OPCODES = (
    "end", "load", "const", "store", "filter",
    "i2f", "not", "and", "or", "guard", "select", "known_i", "known_f", "key_f",
    "add_i", "sub_i", "mul_i", "floordiv_i", "mod_i", "neg_i", "abs_i", "min_i", "max_i",
    "add_f", "sub_f", "mul_f", "floordiv_f", "mod_f", "neg_f", "abs_f", "min_f", "max_f",
    "div_f", "pow_f", "sqrt", "exp", "log", "floor",
    "eq_i", "ne_i", "lt_i", "le_i", "eq_f", "ne_f", "lt_f", "le_f",
    "agg_known", "agg_sum_i", "agg_sum_f", "agg_min_i", "agg_min_f", "agg_max_i", "agg_max_f",
    "agg_mean", "agg_m2", "stddev",
)  # fmt: skip
CODE = {name: number for number, name in enumerate(OPCODES)}
WIDTH = 6
MAX_REGISTERS = 48


@dataclass(frozen=True, slots=True)
class Program:
    """Bytecode with its constants and inputs.

    Attributes
    ----------
    code
        Flat int32 instructions, ``WIDTH`` each, the last one ``end``.
    constants
        Values of ``const``; strings are interned by the engine.
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

    def __init__(self, resolve: Callable[[Op], tuple[str, int] | None]) -> None:
        self._resolve = resolve
        self._code: list[int] = []
        self._constants: list[Any] = []
        self._inputs: list[tuple[str, int]] = []
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
        source = self._resolve(expr)
        if source is not None:
            if source not in self._inputs:
                self._inputs.append(source)
            self._emit("load", register, self._inputs.index(source))
        elif expr.name == "const":
            self._constants.append(expr.data[0])
            self._emit("const", register, len(self._constants) - 1)
        else:
            operands = [self._value(arg, register + number) for number, arg in enumerate(expr.args)]
            self._emit(expr.name, register, *operands)
        return register

    def _emit(self, name: str, destination: int, *operands: int) -> None:
        padded = (*operands, 0, 0, 0, 0)[: WIDTH - 2]
        self._code += [CODE[name], destination, *padded]
