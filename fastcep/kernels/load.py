"""Load object code with LLVM alone: a process that finds its kernels in the cache never imports Numba."""

from __future__ import annotations

import os
import threading
from typing import Any

from fastcep._core.program.predicate import SYMBOLS

#: Addresses of loaded kernels by key. Code is never unloaded: its address can be in use, and it is small and shared.
_addresses: dict[str, int] = {}
_linker: Any = None
_lock = threading.Lock()


def _renew_lock() -> None:
    """Replace the lock in the child of a fork, where the thread that may hold it does not exist."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def loaded(key: str) -> int | None:
    """Return the address of kernel ``key`` if this process has loaded it, otherwise None."""
    return _addresses.get(key)


def prepare() -> None:
    """Start LLVM and register the functions that kernels can call; an unknown function would end the process."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name, address in SYMBOLS.items():
        llvm.add_symbol(name, address)


def load(kernels: dict[str, tuple[str, bytes]]) -> dict[str, int]:
    """Load ``{key: (symbol, object code)}`` and return the addresses by key."""
    if not kernels:
        return {}
    with _lock:
        return _load(kernels)


def _load(kernels: dict[str, tuple[str, bytes]]) -> dict[str, int]:
    global _linker
    import llvmlite.binding as llvm

    if _linker is None:
        prepare()
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        _linker = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    new = {key: kernel for key, kernel in kernels.items() if key not in _addresses}
    for _, code in new.values():
        _linker.add_object_file(llvm.ObjectFileRef.from_data(code))
    _linker.finalize_object()
    for key, (symbol, _) in new.items():
        address = _linker.get_function_address(symbol)
        if not address:
            raise RuntimeError(f"the object code of kernel {key} has no symbol {symbol}")
        _addresses[key] = address
    return {key: _addresses[key] for key in kernels}
