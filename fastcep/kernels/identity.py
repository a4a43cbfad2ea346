"""What a compiled kernel depends on besides its source: versions, the words it is written in, the processor."""

from __future__ import annotations

import hashlib
import json
import pkgutil
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def identity() -> dict[str, str]:
    """Versions of fastcep, Numba and LLVM, a hash of the code that compiles, LLVM's name and features of this CPU."""
    import llvmlite.binding as llvm

    words = hashlib.blake2b(digest_size=8)
    for name in ("primitives.py", "compile.py"):
        words.update(pkgutil.get_data("fastcep.kernels", name) or b"")
    cpu, features = processor()
    return {
        "fastcep": _fastcep(),
        "words": words.hexdigest(),
        "numba": version("numba"),
        "llvmlite": version("llvmlite"),
        "llvm": ".".join(map(str, llvm.llvm_version_info)),
        "cpu": cpu,
        "features": hashlib.blake2b(features.encode(), digest_size=8).hexdigest(),
    }


def processor() -> tuple[str, str]:
    """LLVM's name and features of this CPU; features "" where LLVM cannot tell them, the name then decides."""
    import llvmlite.binding as llvm

    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:
        features = ""
    return llvm.get_host_cpu_name(), features


def _fastcep() -> str:
    try:
        return version("fastcep")
    except PackageNotFoundError:
        return "source tree"


def key_of(source: str) -> str:
    """Name of the kernel that ``source`` compiles to, here and now."""
    text = json.dumps([source, identity()], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
