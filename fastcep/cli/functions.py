"""``--functions FILE.py``: run a Python file that registers user functions."""

from __future__ import annotations

import sys
import traceback
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from fastcep.errors import ValidationError
from fastcep.query.user_functions.registry import functions

__all__ = ["load_functions"]


def load_functions(path: Path) -> None:
    """Import ``path`` as a module; it may import modules of its folder.

    Raises
    ------
    ValidationError
        If the file is not Python, fails, or registers no function.
    """
    name = f"fastcep_functions_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or not isinstance(spec.loader, SourceFileLoader):
        raise ValidationError(f"'{path}' is not a Python file; expected a file such as my_functions.py")
    module = module_from_spec(spec)
    before = functions()
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        # Not `exec_module`: it would run cached bytecode if the file was changed within a second to one of equal size.
        exec(spec.loader.source_to_code(path.read_bytes(), str(path)), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ValidationError(f"{_place(path, error)}: {_reason(error)}") from None
    finally:
        sys.path.remove(folder)
    after = functions()
    if all(function is before.get(label) for label, function in after.items()):
        raise ValidationError(
            f"'{path}' registers no function; put @fastcep.function('float64(float64)') before the def of each"
        )


def _place(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"'{error.filename}', line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"'{path}'" + (f", line {lines[-1]}" if lines else "")


def _reason(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"{error.msg}; the file must be Python: fix this line"
    return f"the file fails with {type(error).__name__}: {error}"
