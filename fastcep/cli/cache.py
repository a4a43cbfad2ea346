"""``fastcep cache``: the folder of compiled kernels."""

from __future__ import annotations

import json as _json
from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fastcep.errors import ValidationError
from fastcep.kernels.cache import Cache, CacheError, default_folder
from fastcep.kernels.identity import identity

__all__ = ["clear", "info"]


def info(*, json: bool) -> None:
    """Print the number and size of the compiled kernels, by compiler version and processor.

    Raises
    ------
    ValidationError
        If the folder cannot be used.
    """
    facts = _facts()
    if json:
        print(_json.dumps(facts))
        return
    print(f"folder   {facts['folder']}")
    print(f"kernels  {facts['kernels']:,} in {facts['bytes']:,} bytes")
    print(f"stale    {facts['stale']:,}: of another version or processor; removed when the folder is full")
    print(f"failed   {facts['failed']:,}: could not be compiled")
    print(f"refused  {facts['refused']:,}: damaged or foreign files")
    if facts["versions"]:
        table = Table("kernels", "bytes", "fastcep", "numba", "llvm", "processor", "")
        for entry in facts["versions"]:
            state = "current" if entry["current"] else "stale"
            texts = (entry["fastcep"], entry["numba"], entry["llvm"], entry["cpu"], state)
            table.add_row(f"{entry['kernels']:,}", f"{entry['bytes']:,}", *map(Text, texts))
        Console().print(table)


def clear() -> None:
    """Remove all compiled kernels and print their number.

    Raises
    ------
    ValidationError
        If the folder cannot be used.
    """
    cache = _open()
    print(f"removed {cache.clear():,} kernels from {cache.folder}")


def _open() -> Cache:
    try:
        return Cache(default_folder())
    except CacheError as error:
        raise ValidationError(str(error)) from error


def _facts() -> dict[str, Any]:
    cache = _open()
    current = identity()
    kernels: Counter[tuple[tuple[str, str], ...]] = Counter()
    sizes: Counter[tuple[tuple[str, str], ...]] = Counter()
    failed = refused = total = 0
    for _, status, entry in cache.entries():
        total += status.st_size
        if entry is None or entry.error:
            refused += entry is None
            failed += entry is not None
            continue
        version = tuple(sorted(entry.identity.items()))
        kernels[version] += 1
        sizes[version] += status.st_size
    versions = [
        {**dict(version), "kernels": number, "bytes": sizes[version], "current": dict(version) == current}
        for version, number in kernels.most_common()
    ]
    return {
        "folder": str(cache.folder),
        "kernels": sum(kernels.values()),
        "bytes": total,
        "stale": sum(number for version, number in kernels.items() if dict(version) != current),
        "failed": failed,
        "refused": refused,
        "versions": versions,
    }
