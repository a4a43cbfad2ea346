"""Which files an input stands for: one, several, a pattern, a folder."""

from __future__ import annotations

import difflib
import glob
from collections.abc import Iterator
from pathlib import Path

from fastcep.errors import DataError, ValidationError
from fastcep.io.formats import ENDINGS, of_name
from fastcep.io.read.options import Options
from fastcep.io.read.streams import STDIN, regular

__all__ = ["list_files"]


def list_files(name: str, options: Options) -> Iterator[str]:
    """Name the files to read, in order.

    Parameters
    ----------
    name
        ``"-"``, a file, a folder, or a pattern with ``* ? [ ]``. Of a folder all files of known formats count, also
        those in folders inside, by name; what starts with a dot or an underscore does not, nor does an empty file.
    options
        With a format every file counts, whatever its ending.

    Raises
    ------
    DataError
        If there is no such file, or none in a folder.
    ValidationError
        If nothing tells the format of a file.
    """
    if not name:
        raise DataError("found '' as the name of an input; give a path, or '.' for the folder here")
    path = Path(name)
    if name == STDIN:
        return iter((name,))
    if path.is_dir():
        found = [str(file) for file in _inside(path) if options.format or of_name(file.name)]
        if not found:
            raise DataError(
                f"{name}: no file in this folder ends in {', '.join(ENDINGS)}; check the path, or say the format"
            )
        return (file for file in found if Path(file).stat().st_size)
    if not path.exists() and glob.has_magic(name):
        matching = sorted(glob.glob(name))
        if not matching:
            raise DataError(f"{name}: no file is called like this; check the pattern")
        return (file for match in matching for file in list_files(match, options))
    if options.format is None and of_name(name) is None and (regular(name) or not path.exists()):
        raise ValidationError(
            f"cannot read {name!r}: expected a name that ends in {', '.join(ENDINGS)} (also .gz and .zst, but of "
            "Parquet), or '-'; or say the format"
        )
    if not path.exists():
        around = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, around, 1)
        hint = f"; did you mean {str(path.parent / near[0])!r}?" if near else "; check the path"
        raise DataError(f"{name}: no such file{hint}")
    return iter((name,))


def _inside(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir(), key=lambda found: found.name):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            yield from _inside(entry)
        elif entry.is_file():
            yield entry
