"""The compiling process: ``python -m fastcep.kernels`` reads a job from standard input and fills the cache.

The job is one JSON object ``{"folder": …, "sources": {key: source}}``. Each kernel is reported by a line on standard
output: ``start KEY``, then ``done KEY`` or ``failed KEY reason``. Only one process per folder works at a time.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fastcep.kernels.cache import Cache, CacheError, Entry
from fastcep.kernels.identity import identity

#: Time limit of a job in seconds; ends a compiler that hangs.
_TIME_LIMIT = 900


def main() -> int:
    """Run the job; return the exit code."""
    with suppress(AttributeError):
        signal.alarm(_TIME_LIMIT)
    job: dict[str, Any] = json.load(sys.stdin)
    os.environ["NUMBA_OPT"] = "0"  # LLVM's passes run once, in compile_source
    os.environ["NUMBA_DISABLE_INTEL_SVML"] = "1"
    try:
        cache = Cache(Path(job["folder"]))
        with _exclusive(cache.folder):
            for key, source in job["sources"].items():
                print("start", key, flush=True)
                print(_compile(cache, key, source), flush=True)
            cache.trim()
    except (CacheError, OSError) as error:
        print("stop", error, flush=True)
        return 1
    return 0


def _compile(cache: Cache, key: str, source: str) -> str:
    """Compile one kernel unless another process has compiled it; return the line to report."""
    if (entry := cache.get(key)) is not None:
        return f"failed {key} {entry.error}" if entry.error else f"done {key}"
    from fastcep.kernels.compile import compile_source
    from fastcep.kernels.load import load

    try:
        symbol, code = compile_source(source, key)
        load({key: (symbol, code)})
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        cache.put(Entry(key, identity(), error=reason))
        return f"failed {key} {reason}"
    cache.put(Entry(key, identity(), symbol, code))
    return f"done {key}"


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so that processes that start together share the work; without locks they duplicate it."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
