"""What pyproject.toml cannot say: the Cython extensions and the switches for a checked build.

``FASTCEP_DEBUG=1``      bounds and initialisation checks on, C asserts on, symbols kept, barely optimised.
``FASTCEP_COMPILED=1``   the extensions have been compiled in place: install without compiling them again.
``FASTCEP_SANITIZE=...`` a value of the compiler's ``-fsanitize`` (``address``, ``undefined`` or both with a comma).
"""

import os
from glob import glob
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

CORE = "fastcep/_core"
COMPILED = os.environ.get("FASTCEP_COMPILED", "0") == "1"
DEBUG = os.environ.get("FASTCEP_DEBUG", "0") == "1"
SANITIZE = os.environ.get("FASTCEP_SANITIZE", "")
JOBS = os.cpu_count() or 1

# No -march=native: a wheel must run elsewhere. Columns of float64 and int64 share buffers, so no strict aliasing.
# No contraction to fused multiply-add: the same floats on every machine.
# -g0: no debug information, which Python's own flags ask for and which takes a third of the time.
compile_args = ["-ffp-contract=off", "-fno-strict-aliasing"]
compile_args += ["-O1", "-g", "-UNDEBUG", "-DFASTCEP_DEBUG=1"] if DEBUG else ["-O3", "-g0"]
link_args = []
if SANITIZE:
    compile_args += [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
    link_args += [f"-fsanitize={SANITIZE}"]

definitions = sorted(glob(f"{CORE}/*/*.pxd"))
headers = {path: Path(path).name for path in sorted(glob(f"{CORE}/*/*.h"))}
folders = sorted({str(Path(path).parent) for path in headers})
everywhere = "".join(Path(path).read_text(encoding="utf-8") for path in [*definitions, *headers])


def depends(source: str) -> list[str]:
    """What makes a source compile again: all definitions, and the headers that it, a definition or a header names."""
    text = everywhere + Path(source).read_text(encoding="utf-8")
    return definitions + [path for path, name in headers.items() if f'"{name}"' in text]


extensions = [
    Extension(
        ".".join(Path(source).with_suffix("").parts),
        [source],
        include_dirs=[*folders, numpy.get_include()],
        depends=depends(source),
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )
    for source in sorted(glob(f"{CORE}/*/*.pyx"))
    if not COMPILED
]

setup(
    ext_modules=cythonize(
        extensions,
        build_dir="build/cython-debug" if DEBUG else "build/cython",
        nthreads=JOBS,
        compiler_directives={
            "language_level": 3,
            "boundscheck": DEBUG,
            "initializedcheck": DEBUG,
            "wraparound": False,
            "cdivision": True,
        },
    ),
    # A switch changes the flags but no file's time, so a checked build compiles everything again.
    options={"build_ext": {"force": DEBUG or bool(SANITIZE), "parallel": JOBS}},
)
