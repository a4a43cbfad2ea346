"""The parts of the catalogue: areas of mistakes, what a mistake gives, and the stored messages with their grades."""

from __future__ import annotations

import importlib
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: The areas; each has modules of its name in this folder, and a file of messages in `messages`.
AREAS = {
    "language": ("language_words", "language_patterns", "language_conditions"),
    "schema": ("schema",),
    "data": ("data",),
    "files": ("files",),
    "options": ("options",),
    "models": ("models",),
    "command": ("command",),
}
#: Areas that need Java; tests/spark compares their messages.
SPARK = {"spark": ("spark_frames",)}
POINTS = ("place", "expectation", "remedy")
STORE = Path(__file__).parent / "messages"

#: Parts of messages that depend on the version of a dependency, or on the size of stored data.
_VARYING = (
    (r"\b[0-9a-f]{16}\b", "CHECKSUM"),
    (r"[\d,]+ (of [\d,]+ )?bytes", "N bytes"),
    (r"give at least [\d,]+", "give at least N"),
    (r"read after [1-9]\d* rows", "read after N rows"),
    (r"\((Could not convert|only handle|Parquet magic|Compressed file|'int' object) [^)]*\)", "(REASON)"),
)

Act = Callable[[Path], object]


class Accepted(AssertionError):
    """A mistake gave no error and no warning."""


class Mistakes(dict[str, Act]):
    """Mistakes by name. Decorate a function of an empty folder with it; the name is the function's."""

    def __call__(self, act: Act) -> Act:
        name = act.__name__.replace("_", " ")
        assert name not in self, f"two mistakes are called {name!r}"
        self[name] = act
        return act


class CommandError(Exception):
    """The text that a command wrote to standard error before it failed."""


@dataclass(frozen=True)
class Answer:
    """The answer to a mistake: the name of the exception or warning, and its message."""

    error: str
    message: str


def mistakes(area: str) -> dict[str, Act]:
    """Return the mistakes of an area, in the order of its modules."""
    found: dict[str, Act] = {}
    for module in (AREAS | SPARK)[area]:
        for name, act in importlib.import_module(f"mistakes.{module}").MISTAKES.items():
            assert name not in found, f"two mistakes of {area} are called {name!r}"
            found[name] = act
    return found


def answer(act: Act, folder: Path) -> Answer:
    """Make a mistake in an empty folder, and return the answer; the name of the folder is left out.

    Raises
    ------
    Accepted
        Nothing was raised, and no warning given.
    """
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        try:
            act(folder)
        except CommandError as error:
            return Answer("command", _without(folder, str(error)))
        except Exception as error:
            return Answer(type(error).__name__, _without(folder, str(error)))
    if not given:
        raise Accepted("the mistake was accepted")
    return Answer(given[0].category.__name__, _without(folder, str(given[0].message)))


def stored(area: str) -> dict[str, dict[str, Any]]:
    """Return the stored entries of an area by name: ``error``, ``message`` (lines) and ``grade``."""
    path = STORE / f"{area}.json"
    entries: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return entries


def write(area: str, answers: dict[str, Answer]) -> list[str]:
    """Store the messages of an area; a changed one loses its grade. Return the names without a full grade."""
    before = stored(area)
    entries = {}
    for name, given in answers.items():
        entry = {"error": given.error, "message": given.message.splitlines(), "grade": []}
        old = before.get(name)
        if old is not None and all(old[key] == entry[key] for key in ("error", "message")):
            entry["grade"] = old["grade"]
        entries[name] = entry
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    text = re.sub(r'\[\s*((?:"(?:place|expectation|remedy)",?\s*)+)\]', _on_one_line, text)
    (STORE / f"{area}.json").write_text(text + "\n", encoding="utf-8")
    return [name for name, entry in entries.items() if entry["grade"] != list(POINTS)]


def _on_one_line(found: re.Match[str]) -> str:
    return f"[{' '.join(found[1].split())}]"


def _without(folder: Path, text: str) -> str:
    text = text.replace(f"{folder}/", "").replace(str(folder), "FOLDER")
    for pattern, replacement in _VARYING:
        text = re.sub(pattern, replacement, text)
    return text
