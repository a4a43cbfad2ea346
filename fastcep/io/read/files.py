"""Which files an input stands for: one, several, a pattern, a folder."""

from __future__ import annotations

import difflib
import errno
import glob
import os
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
    if name == STDIN:
        return iter((name,))
    try:
        return _files(name, options)
    except OSError as error:
        raise _unreadable(error, name) from error


def _files(name: str, options: Options) -> Iterator[str]:
    path = Path(name)
    _check_link(path)
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


def _check_link(path: Path) -> None:
    """Refuse a symbolic link that leads nowhere; OSError if it leads in a circle."""
    try:
        path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise DataError(
                f"{path}: is a symbolic link to {os.readlink(path)!r}, which does not exist; mend the link"
            ) from None


def _unreadable(error: OSError, name: str) -> DataError:
    """Make the error on a path that the system does not let us follow."""
    path = error.filename or name
    if error.errno == errno.ELOOP:
        return DataError(f"{path}: is a symbolic link that leads back to itself; mend the link")
    return DataError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions")


def _inside(folder: Path, around: tuple[Path, ...] = ()) -> Iterator[Path]:
    here = (*around, folder.resolve())
    for entry in sorted(folder.iterdir(), key=lambda found: found.name):
        if entry.name.startswith((".", "_")):
            continue
        _check_link(entry)
        if not entry.is_dir():
            if entry.is_file():
                yield entry
        elif entry.resolve() in here:
            raise DataError(f"{entry}: is a symbolic link to a folder that it is in; mend the link")
        else:
            yield from _inside(entry, here)
