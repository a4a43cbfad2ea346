"""List the files of an input: a file, a folder or a pattern."""

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
from fastcep.io.read.remedies import other_file
from fastcep.io.read.streams import STDIN, regular

__all__ = ["list_files"]


def list_files(name: str, options: Options) -> Iterator[str]:
    """Return the names of the files to read, in order.

    Parameters
    ----------
    name
        ``"-"``, a file, a folder, or a pattern with ``* ? [ ]``. A folder stands for all files in it and its subfolders
        whose endings name a format, in the order of their names, except empty files. Names that start with a dot or an
        underscore are skipped.
    options
        With a format, files of a folder are read whatever their endings.

    Raises
    ------
    DataError
        If a file does not exist, or a folder has no file to read.
    ValidationError
        If the format of a file is unknown.
    """
    if not name:
        raise DataError("found '' as the name of an input; give a path, or '.' for the current folder")
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
        files = [str(file) for file in _files_in(path) if options.format or of_name(file.name)]
        if not files:
            raise DataError(
                f"{name}: no file in this folder ends in {', '.join(ENDINGS)}; check the path, or give the "
                "format, such as format='csv' (--format csv)"
            )
        return (file for file in files if Path(file).stat().st_size)
    if not path.exists() and glob.has_magic(name):
        matching = sorted(glob.glob(name))
        if not matching:
            raise DataError(f"{name}: no file matches this pattern; check the folder and the ending")
        return (file for match in matching for file in list_files(match, options))
    if options.format is None and of_name(name) is None and (regular(name) or not path.exists()):
        raise ValidationError(
            f"cannot read {name!r}: expected a name that ends in {', '.join(ENDINGS)} (also .gz and .zst, except "
            f"Parquet), or '-'; {other_file(name)}"
        )
    if not path.exists():
        siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, siblings, 1)
        hint = f"; did you mean {str(path.parent / close[0])!r}?" if close else "; check the path"
        raise DataError(f"{name}: no such file{hint}")
    return iter((name,))


def _check_link(path: Path) -> None:
    """Reject a symbolic link to a missing file; OSError if the link leads back to itself."""
    try:
        path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise DataError(
                f"{path}: is a symbolic link to {os.readlink(path)!r}, which does not exist; fix the link"
            ) from None


def _unreadable(error: OSError, name: str) -> DataError:
    """Return the error for a path that the operating system cannot resolve."""
    path = error.filename or name
    if error.errno == errno.ELOOP:
        return DataError(f"{path}: is a symbolic link that leads back to itself; fix the link")
    return DataError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions")


def _files_in(folder: Path, parents: tuple[Path, ...] = ()) -> Iterator[Path]:
    ancestors = (*parents, folder.resolve())
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.startswith((".", "_")):
            continue
        _check_link(entry)
        if not entry.is_dir():
            if entry.is_file():
                yield entry
        elif entry.resolve() in ancestors:
            raise DataError(f"{entry}: is a symbolic link to a folder that contains it; fix the link")
        else:
            yield from _files_in(entry, ancestors)
