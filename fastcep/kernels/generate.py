"""Generate the source of a program's kernel: one fused loop over the rows that uses the functions of :mod:`primitives`.

The source depends on the program's operations, on the inputs that it reads and on the constants that are null, but not
on other values or on user-defined names. Programs that differ only in thresholds therefore share a kernel. A kernel
computes exactly what the interpreter (``_core/program/predicate.pyx``) computes for every row that counts.

A kernel has two loops: one for chunks without nulls, which the compiler can vectorise, and one with null flags. Filters
are ``k = k & …`` without a branch as long as the following operations are cheap.

Each operation is a function in ``OPERATIONS``, which takes the loop and the operands and returns the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Literal

from fastcep.kernels.operations import EXPENSIVE, OPERATIONS, Loop, Value, all_of, any_of, member, text, zone
from fastcep.plan.bytecode import CODE, WIDTH, Program
from fastcep.plan.text import TextCall

#: Calling mode of a program. ``predicate``: over the rows of a bucket or over elements, with events broadcast;
#: ``outputs``: the same for selected rows; ``column``: over selected events; ``whole``: over all rows of columns.
Role = Literal["predicate", "outputs", "column", "whole"]

_NAMES = {number: name for name, number in CODE.items()}
_MACHINE = ("end", "load", "const", "store", "filter")
#: Maximum number of operations; a longer program takes minutes to compile and gains little.
MAX_OPERATIONS = 300
PARAMETERS = "inputs, constants, zeros, rows, n, keep, outputs, output_nulls, offset, counter"


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Inputs of a program by access method: numbers of inputs read as scalars, with null bytes and with null bits."""

    scalars: tuple[int, ...]
    bytes: tuple[int, ...]
    bits: tuple[int, ...]
    gather: bool

    @classmethod
    def of(cls, program: Program, role: Role) -> _Inputs:
        events = "bytes" if role in ("column", "whole") else "scalars"
        access = {"row": "bits", "elem": "bytes", "out": "scalars", "event": events}

        def numbers(method: str) -> tuple[int, ...]:
            return tuple(number for number, (kind, _) in enumerate(program.inputs) if access[kind] == method)

        return cls(numbers("scalars"), numbers("bytes"), numbers("bits"), role in ("outputs", "column"))


def generate(program: Program, role: Role) -> str:
    """Return the source of the function ``kernel`` for ``program``, called as ``role``.

    Raises
    ------
    NotImplementedError
        If an operation has no generated form; the program is then interpreted.
    """
    names = [name for name, _, _ in _instructions(program)]
    if len(names) > MAX_OPERATIONS:
        raise NotImplementedError(f"a condition of {len(names):,} operations, more than {MAX_OPERATIONS}")
    if "filter" in names and "store" in names:
        raise NotImplementedError("a program with filters and stores")
    inputs = _Inputs.of(program, role)
    prologue = _Prologue(program, inputs)
    loops = [_loop(program, inputs, prologue, nullable) for nullable in (False, True)]
    filters = "filter" in names
    counts = any("lost" in line for loop in loops for line in loop)
    lines = [f"def kernel({PARAMETERS}):", *_indent(prologue.lines)]
    lines += _indent(["kept = 0"] * filters + ["lost = 0"] * counts)
    if program.inputs:
        lines += _indent([*_null_search(inputs), "if some_null:", *_indent(loops[1]), "else:", *_indent(loops[0])])
    else:
        lines += _indent(loops[0])
    lines += _indent(["count(counter, lost)"] * counts + ["return kept" if filters else "return n"])
    return "\n".join(lines) + "\n"


def _instructions(program: Program) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    for offset in range(0, len(program.code), WIDTH):
        code = program.code[offset : offset + WIDTH]
        yield _NAMES[code[0]], code[1], code[2:]


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


class _Prologue:
    """Values read once before the loops: pointers, broadcast values, constants."""

    def __init__(self, program: Program, inputs: _Inputs) -> None:
        self.lines: list[str] = []
        self._names: set[str] = set()
        for number in range(len(program.inputs)):
            self.lines.append(f"d{number} = values_of(inputs, {number})")
            if number in inputs.bits:
                self.lines.append(f"b{number} = bit_of(inputs, {number})")
            else:
                self.lines.append(f"n{number} = nulls_of(inputs, {number}, zeros)")
        if inputs.bits:
            self.lines.append(f"words = bits_of(inputs, {inputs.bits[0]})")
        stored = [destination for name, destination, _ in _instructions(program) if name == "store"]
        for number in sorted(set(stored)):
            self.lines.append(f"o{number} = output_of(outputs, {number}, offset)")
            self.lines.append(f"z{number} = output_null_of(output_nulls, {number}, offset)")

    def once(self, name: str, expression: str) -> str:
        """Assign ``expression`` to a name before the loops."""
        if name not in self._names:
            self._names.add(name)
            self.lines.append(f"{name} = {expression}")
        return name


def _null_search(inputs: _Inputs) -> list[str]:
    """Return the lines that test whether any input of the chunk is null."""
    lines = [f"some_null = {any_of(*(f'load_b(n{number}, 0)' for number in inputs.scalars))}"]
    row = "load_row(rows, i)" if inputs.gather else "i"
    if inputs.bits:
        lines += ["null_bits = 0", "for i in range(n):", f"    null_bits |= load_i(words, {row})"]
        lines += [f"some_null |= has_bit(null_bits, b{number})" for number in inputs.bits]
    for number in inputs.bytes:
        lines += ["for i in range(n):", f"    some_null |= load_b(n{number}, {row})"]
    return lines


def _loop(program: Program, inputs: _Inputs, prologue: _Prologue, nullable: bool) -> list[str]:
    """Return the lines of the loop over the rows; ``nullable`` states whether inputs can be null."""
    instructions = list(_instructions(program))
    filters = sum(name == "filter" for name, _, _ in instructions)
    loop = Loop("k" if filters else "True")
    registers: dict[int, Value] = {}
    row = "j" if inputs.gather else "i"
    if inputs.gather:
        loop.lines.append("j = load_row(rows, i)")
    if filters:
        loop.lines.append("k = load_keep(keep, i)")

    def load(number: int) -> Value:
        if number in inputs.scalars:
            null = prologue.once(f"m{number}", f"load_b(n{number}, 0)") if nullable else "False"
            return Value(
                "x", null, lambda kind: prologue.once(f"s{number}{kind}", f"load_{kind}(d{number}, 0)"), f"s{number}"
            )
        null = "False"
        if nullable and number in inputs.bits:
            null = loop.cached(f"m{number}", f"has_bit({loop.cached('w', f'load_i(words, {row})')}, b{number})")
        elif nullable:
            null = loop.cached(f"m{number}", f"load_b(n{number}, {row})")
        return Value("x", null, lambda kind: loop.cached(f"a{number}{kind}", f"load_{kind}(d{number}, {row})"))

    for name, destination, operands in instructions:
        if name == "end":
            break
        if name in EXPENSIVE and filters and not loop.nested:
            loop.nest()
        if name == "load":
            registers[destination] = load(operands[0])
        elif name == "const":
            number = operands[0]
            null = "True" if program.constants[number] is None else "False"
            registers[destination] = Value("x", null, _constant(prologue, number))
        elif name == "filter":
            value = registers[operands[0]]
            loop.lines.append(loop.pad + f"k = {all_of('k', loop.truth(value), loop.negated(value.null))}")
        elif name == "store":
            value = registers[operands[0]]
            kind = "f" if value.kind == "f" else "i"
            loop.lines.append(loop.pad + f"put_{kind}(o{destination}, i, {loop.of(value, kind)})")
            loop.lines.append(loop.pad + f"put_b(z{destination}, i, {value.null})")
        elif name in ("in_i", "in_f"):
            registers[destination] = member(loop, registers[operands[0]], operands[1], name[-1])
        elif name == "text":
            if any(program.constants[operands[1]].signatures()):
                raise NotImplementedError("a user-defined function; bytecode evaluates such conditions")
            registers[destination] = text(loop, registers[operands[0]], operands[1])
        elif name == "zone":
            registers[destination] = zone(loop, registers[operands[0]], operands[1])
        else:
            operation = OPERATIONS.get(name)
            if operation is None:
                operation_text = "a user-defined function" if name == "call" else f"operation {name}"
                if name == "call" and isinstance(program.constants[operands[0]], TextCall):
                    operation_text = "a function of strings and other values"
                raise NotImplementedError(f"{operation_text}; bytecode evaluates such conditions")
            argument_registers = operands[: len(signature(operation).parameters) - 1]
            registers[destination] = operation(loop, *(registers[number] for number in argument_registers))
    if filters:
        loop.lines += ["put_b(keep, i, k)", "kept += k"]
    return ["for i in range(n):", *_indent(loop.lines)]


def _constant(prologue: _Prologue, number: int) -> Callable[[str], str]:
    return lambda kind: prologue.once(f"c{number}{kind}", f"load_{kind}(constants, {number})")


__all__ = ["PARAMETERS", "Role", "generate"]
