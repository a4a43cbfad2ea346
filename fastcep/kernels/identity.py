"""Identity of the compilation, on which kernels depend besides their source: versions, primitives, processor."""

from __future__ import annotations

import hashlib
import json
import pkgutil
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def identity() -> dict[str, str]:
    """Return versions of fastcep, Numba and LLVM, a hash of the compiling code, and LLVM's description of the CPU."""
    import llvmlite.binding as llvm

    compiling_code = hashlib.blake2b(digest_size=8)
    for name in ("primitives.py", "compile.py"):
        compiling_code.update(pkgutil.get_data("fastcep.kernels", name) or b"")
    cpu, features = processor()
    return {
        "fastcep": _fastcep_version(),
        "words": compiling_code.hexdigest(),
        "numba": version("numba"),
        "llvmlite": version("llvmlite"),
        "llvm": ".".join(map(str, llvm.llvm_version_info)),
        "cpu": cpu,
        "features": hashlib.blake2b(features.encode(), digest_size=8).hexdigest(),
    }


def processor() -> tuple[str, str]:
    """Return LLVM's name and features of this CPU; features are empty where LLVM does not report them."""
    import llvmlite.binding as llvm

    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:
        features = ""
    return llvm.get_host_cpu_name(), features


def _fastcep_version() -> str:
    try:
        return version("fastcep")
    except PackageNotFoundError:
        return "source tree"


def key_of(source: str) -> str:
    """Return the name of the kernel that ``source`` compiles to with this identity."""
    text = json.dumps([source, identity()], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
