"""``fastcep explain``: describe how the engine evaluates the queries of a file."""

from __future__ import annotations

from pathlib import Path

from fastcep.cli.run import load
from fastcep.engine import Engine
from fastcep.errors import ValidationError
from fastcep.io.write.target import write_text

__all__ = ["explain"]

_ENDINGS = {
    ".txt": "text",
    ".json": "json",
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".dot": "dot",
    ".gv": "dot",
    ".svg": "svg",
}


def explain(file: Path, *, name: str | None = None, format: str | None = None, output: Path | None = None) -> None:
    """Print or write the explanation.

    Parameters
    ----------
    file
        The ``.cep`` file.
    name
        Name of the only query, None for all.
    format
        ``text``, ``json``, ``mermaid``, ``dot`` or ``svg``. None: the ending of `output` decides; text without it.
    output
        File to write; None prints.

    Raises
    ------
    FastcepError
        If a query or the format is wrong, or the file cannot be written.
    """
    form = format
    if form is None:
        form = "text" if output is None else _ENDINGS.get(output.suffix.lower())
        if form is None:
            raise ValidationError(
                f"unknown format of '{output}': expected a name that ends in {', '.join(_ENDINGS)}, or --format"
            )
    explanation = Engine(load(file, name)[1]).explain(form)
    if output is None:
        print(explanation)
    else:
        write_text(output, explanation + "\n")
