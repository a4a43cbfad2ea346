"""Words that the shell completes: names of data sets, shedders, queries and others, and files.

``fastcep --install-completion`` installs the completion. Each function gets the beginning of a word and returns the
words that it can become.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import typer

__all__ = [
    "cost_tables", "data_sets", "detectors", "explain_formats", "input_formats", "kinds", "one_of", "paths", "queries",
    "query_files", "shedder_lists", "shedders",
]  # fmt: skip


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Return a function that completes one of some words."""

    def complete(incomplete: str) -> list[str]:
        return _beginning(words, incomplete)

    return complete


def data_sets(incomplete: str) -> list[str]:
    """Complete the name of a data set."""
    from fastcep.datasets import list_datasets

    return _beginning((entry.name for entry in list_datasets()), incomplete)


def shedders(incomplete: str) -> list[str]:
    """Complete the name of a shedder."""
    from fastcep.overload.names import SHEDDERS

    return _beginning(("auto", "none", *SHEDDERS), incomplete)


def shedder_lists(incomplete: str) -> list[str]:
    """Complete the last name in a list of shedders and references with commas."""
    from fastcep.overload.names import REFERENCES, SHEDDERS

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _beginning((*SHEDDERS, *REFERENCES), last)]


def detectors(incomplete: str) -> list[str]:
    """Complete the name of a detector."""
    from fastcep.shedding.names import DETECTORS

    return _beginning(DETECTORS, incomplete)


def kinds(incomplete: str) -> list[str]:
    """Complete the kind of a model."""
    from fastcep.overload.names import MODELS

    return _beginning(MODELS, incomplete)


def input_formats(incomplete: str) -> list[str]:
    """Complete the name of a file format."""
    from fastcep.io.formats import FORMATS

    return _beginning(FORMATS, incomplete)


def explain_formats(incomplete: str) -> list[str]:
    """Complete the format of an explanation."""
    from fastcep.plan.explain import FORMATS

    return _beginning(FORMATS, incomplete)


def cost_tables(incomplete: str) -> list[str]:
    """Complete the name of a cost table, or a file."""
    return _beginning(("measured", "paper"), incomplete) + _entries(incomplete, ".json")


def queries(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a query in the file that is already written."""
    import warnings

    from fastcep.errors import FastcepError, QueryWarning
    from fastcep.query import parse_file

    # An option without its value ends the parsing, and leaves the words before it as they are.
    file = ctx.params.get("file") or next((word for word in ctx.args if not word.startswith("-")), None)
    if file is None:
        return []
    with warnings.catch_warnings():  # the command reports warnings and errors
        warnings.simplefilter("ignore", QueryWarning)
        try:
            return _beginning((query.name for query in parse_file(file).queries), incomplete)
        except (FastcepError, OSError):
            return []


def query_files(incomplete: str) -> list[str]:
    """Complete the path of a .cep file."""
    return _entries(incomplete, ".cep")


def paths(incomplete: str) -> list[str]:
    """Complete the path of a file or folder."""
    return _entries(incomplete, "")


def _entries(incomplete: str, ending: str) -> list[str]:
    """Return the folders, and the files with an ending, whose path begins with a text; folders end in a slash."""
    folder, slash, beginning = incomplete.rpartition("/")
    place = Path(folder or slash or ".").expanduser()
    try:
        entries = sorted(place.iterdir())
    except OSError:
        return []
    found = []
    for entry in entries:
        hidden = entry.name.startswith(".") and not beginning.startswith(".")
        if entry.name.startswith(beginning) and not hidden and (entry.is_dir() or entry.name.endswith(ending)):
            found.append(f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}")
    return found
