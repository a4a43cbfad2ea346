"""Files of a checkpoint or an output folder, on a local disk, a shared file system or an object store."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from fastcep.errors import SnapshotError, ValidationError
from fastcep.io.write.target import sync_folder, write_blocks
from fastcep.stored import Check

__all__ = ["Files", "absolute"]


def absolute(folder: str | os.PathLike[str], option: str) -> str:
    """Return a folder as an absolute path or as the URI that it is.

    Raises
    ------
    ValidationError
        If it is not a text or a path, or is empty; the error names the option.
    """
    if not isinstance(folder, str | os.PathLike) or not str(folder):
        raise ValidationError(f"{option}={folder!r}: expected the path or URI of a folder")
    text = os.fspath(folder)
    return text.rstrip("/") if "://" in text else str(Path(text).absolute())


class Files:
    """The files of a folder, by their names relative to it.

    Parameters
    ----------
    folder
        Result of `absolute`.

    Raises
    ------
    ValidationError
        If no file system is known for the URI.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        scheme, separator, rest = folder.partition("://")
        uri = f"s3{separator}{rest}" if scheme in ("s3a", "s3n") else folder
        try:
            self._system, self._root = fs.FileSystem.from_uri(uri)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ValidationError(
                f"found the folder {folder!r}, expected a local path or a URI that pyarrow can open ({error}); mount "
                "the file system and pass its path"
            ) from None
        self._is_local = isinstance(self._system, fs.LocalFileSystem)

    def path(self, name: str) -> str:
        """Return the path of a file in the file system."""
        return f"{self._root}/{name}"

    def uri(self, name: str) -> str:
        """Return the URI of a file, also of a local one: Spark's default may be another file system."""
        return f"file://{self._root}/{name}" if self._is_local else f"{self.folder}/{name}"

    def exists(self, name: str) -> bool:
        """Return True if there is a file or folder of this name."""
        return bool(self._system.get_file_info(self.path(name)).type != fs.FileType.NotFound)

    def names(self, name: str = "") -> list[str]:
        """Return the names of the entries of a folder, sorted; none if it does not exist."""
        selector = fs.FileSelector(self.path(name).rstrip("/"), allow_not_found=True)
        return sorted(info.base_name for info in self._system.get_file_info(selector))

    def read(self, name: str) -> bytes:
        """Return the content of a file; FileNotFoundError if it does not exist."""
        with self._system.open_input_stream(self.path(name)) as file:
            return bytes(file.read())

    def read_record(self, name: str, check: Check, content: str, remedy: str) -> Any:
        """Return the JSON of a file; FileNotFoundError if it does not exist.

        Parameters
        ----------
        name
            The file.
        check
            Check of the values.
        content, remedy
            Parts of the error message: the record that is expected, and advice.

        Raises
        ------
        SnapshotError
            If it is damaged.
        """
        data = self.read(name)
        try:
            values = json.loads(data)
            check(values, "")
        except (ValueError, RecursionError) as error:
            raise SnapshotError(f"{self.uri(name)}: is not {content} ({error}); {remedy}") from None
        return values

    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        """Write a file that is complete as soon as it has its name; an existing one is replaced.

        Raises
        ------
        ValidationError
            If it cannot be written to a local disk.
        OSError
            If it cannot be written to another file system.
        """
        path = self.path(name)
        if not self._is_local:
            self._system.create_dir(path.rpartition("/")[0])
            with self._system.open_output_stream(path) as file:  # an object appears when it is complete
                file.write(data)
            return
        _make_folder(Path(path).parent)
        write_blocks(path, [data], sync=True)
        sync_folder(Path(path).parent)

    def copy(self, name: str, target: Files, target_name: str) -> None:
        """Copy a file to another folder, which may be on another file system."""
        target.write(target_name, self.read(name))

    def rename_folder(self, name: str, new_name: str) -> None:
        """Give a folder another name, under which there must be nothing."""
        self._system.move(self.path(name), self.path(new_name))
        if self._is_local:
            sync_folder(Path(self.path(new_name)).parent)

    def remove_folder(self, name: str) -> None:
        """Remove a folder with its files, if it exists."""
        if self.exists(name):
            self._system.delete_dir(self.path(name))


def _make_folder(folder: Path) -> None:
    """Make a local folder and those that contain it, and force their names to disk."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)
