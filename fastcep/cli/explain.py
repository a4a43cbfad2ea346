"""``fastcep explain``: how the engine answers the queries of a file."""

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
        The only query, or None for all.
    format
        ``text``, ``json``, ``mermaid``, ``dot`` or ``svg``; None goes by the ending of `output`, or is text.
    output
        Where to write; None prints.

    Raises
    ------
    FastcepError
        If the queries or the format are wrong, or the file cannot be written.
    """
    form = format
    if form is None:
        form = "text" if output is None else _ENDINGS.get(output.suffix.lower())
        if form is None:
            raise ValidationError(
                f"cannot tell the format of '{output}': expected a name that ends in {', '.join(_ENDINGS)}, or --format"
            )
    told = Engine(load(file, name)[1]).explain(form)
    if output is None:
        print(told)
    else:
        write_text(output, told + "\n")
