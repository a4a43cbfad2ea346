"""usage: ci/reuse_build.py TREE SOURCE -- copy compiled extensions of a source tree to an unpacked source distribution.

First check that the distribution has every file that the compilation needs, with the same content as in the tree.
Extensions that are missing in the tree, or older than their sources, are not copied; the build compiles them.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

SUFFIXES = {".pyx", ".pxd", ".pyi", ".h", ".py"}

tree, source = (Path(argument).resolve() for argument in sys.argv[1:])
for path in sorted((tree / "fastcep").rglob("*")):
    if path.suffix in SUFFIXES:
        copy = source / path.relative_to(tree)
        if not copy.is_file() or copy.read_bytes() != path.read_bytes():
            sys.exit(f"{copy.relative_to(source)} is missing from the source distribution, or differs")

suffix = sysconfig.get_config_var("EXT_SUFFIX")
library = source / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
generated = tree / "build" / "cython"
newest = max(path.stat().st_mtime for path in (tree / "fastcep" / "_core").rglob("*.p[yx][xd]"))
for path in sorted((tree / "fastcep" / "_core").rglob(f"*{suffix}")):
    module = path.relative_to(tree).with_name(path.name.removesuffix(suffix))
    c_code = generated / module.with_suffix(".c")
    if c_code.is_file() and path.stat().st_mtime >= newest:
        for origin, target in (
            (path, library / path.relative_to(tree)),
            (c_code, source / "build" / "cython" / module.with_suffix(".c")),
        ):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(origin, target)
            os.utime(target)
