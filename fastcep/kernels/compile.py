"""Compile generated source to machine code: Numba types and lowers the function, LLVM optimises it for this processor.

Only the compiling process (``python -m fastcep.kernels``) imports this module. The function has no Python wrapper: the
object code has one symbol, called by Numba's native convention ``int32 f(int64 *kept, void **unused, arguments…)``.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core import compiler
from numba.core.registry import cpu_target

from fastcep.kernels.generate import PARAMETERS
from fastcep.kernels.identity import processor
from fastcep.kernels.load import prepare
from fastcep.kernels.primitives import INT, POINTER, PRIMITIVES

compile_extra: Any = compiler.compile_extra
prepare()
_ARGUMENTS = tuple(INT if name in ("n", "offset") else POINTER for name in PARAMETERS.split(", "))


def compile_source(source: str, name: str) -> tuple[str, bytes]:
    """Compile the function ``kernel`` of ``source``.

    Parameters
    ----------
    source
        Output of :func:`fastcep.kernels.generate.generate`.
    name
        Unique identifier, which becomes part of the symbol.

    Returns
    -------
    tuple
        Symbol and object code.

    Raises
    ------
    RuntimeError
        If the code calls a function that is missing in a process without Numba.
    """
    scope: dict[str, Any] = dict(PRIMITIVES)
    exec(compile(source.replace("def kernel(", f"def k{name}(", 1), f"<kernel {name}>", "exec"), scope)
    flags: Any = compiler.Flags()
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.nrt = False
    flags.error_model = "numpy"
    result = compile_extra(
        cpu_target.typing_context, cpu_target.target_context, scope[f"k{name}"], _ARGUMENTS, INT, flags, {}
    )
    module = llvm.parse_assembly(result.library.get_llvm_str())
    machine = target_machine()
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(module, passes)
    symbol = str(result.fndesc.llvm_func_name)
    foreign = [f.name for f in module.functions if f.is_declaration and not f.name.startswith(("llvm.", "fastcep_"))]
    if foreign:
        raise RuntimeError(f"the kernel calls {', '.join(foreign)}")
    return symbol, machine.emit_object(module)


def target_machine() -> Any:
    """Return an LLVM target machine for this processor, whose code can be loaded anywhere in memory."""
    cpu, features = processor()
    target = llvm.Target.from_default_triple()
    # The same as Numba: position-independent x86 code finds constants by a table that the linker keeps per object.
    x86 = target.triple.startswith(("x86_64", "i386", "i686"))
    return target.create_target_machine(
        cpu=cpu,
        features=features,
        opt=3,
        reloc="static" if x86 else "default",
        codemodel="jitdefault",
        jit=True,
    )
