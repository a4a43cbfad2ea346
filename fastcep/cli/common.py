"""Options that several commands share, and the translation of errors to exit codes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from fastcep.cli import completion
from fastcep.errors import FastcepError

__all__ = [
    "ClockCosts",
    "DataSet",
    "Delimiter",
    "Encoding",
    "Events",
    "ExplainFormat",
    "Format",
    "Functions",
    "Index",
    "Json",
    "Kind",
    "Literal",
    "Master",
    "QueryFile",
    "QueryName",
    "QueueShare",
    "Shedder",
    "Shedders",
    "Sort",
    "Spark",
    "exit_codes",
    "load_functions",
]

QueryFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE.cep", help="Schema and queries.", exists=True, dir_okay=False, readable=True,
        autocompletion=completion.query_files,
    ),
]  # fmt: skip
QueryName = Annotated[
    str | None,
    typer.Option(
        "--query", metavar="NAME", help="Only this query of the file.", autocompletion=completion.queries
    ),
]  # fmt: skip
Events = Annotated[
    list[str],
    typer.Option(
        "--input", metavar="PATH|-", help="Events: file, folder, pattern, - for standard input.",
        autocompletion=completion.paths,
    ),
]  # fmt: skip
Format = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT", help="Input format: csv, jsonl, parquet or arrow.", autocompletion=completion.input_formats
    ),
]  # fmt: skip
Delimiter = Annotated[str | None, typer.Option(metavar="CHAR", help="Delimiter of CSV fields; a comma.")]
Encoding = Annotated[str, typer.Option(metavar="NAME", help="Text encoding of CSV and JSON lines.")]
Sort = Annotated[bool, typer.Option("--sort", help="Sort the input by time first.")]
ClockCosts = Annotated[
    str,
    typer.Option(
        metavar="NAME|FILE", help="Costs of the virtual clock: measured, paper, or a file of fastcep calibrate.",
        autocompletion=completion.cost_tables,
    ),
]
Index = Annotated[
    str,
    typer.Option(
        metavar="full|key|off", help="Equalities that index partial matches.",
        autocompletion=completion.one_of("full", "key", "off"),
    ),
]  # fmt: skip
Functions = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.py", help="Python file that registers functions.", exists=True, dir_okay=False, readable=True
    ),
]
DataSet = Annotated[str, typer.Argument(metavar="NAME", autocompletion=completion.data_sets)]
ExplainFormat = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="text (the default), json, mermaid, dot or svg.",
        autocompletion=completion.explain_formats,
    ),
]  # fmt: skip
Shedder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Load shedder: none, hybrid, hyi, hys, ri, si, rs, pm-bl, bl, …; auto.",
        autocompletion=completion.shedders,
    ),
]  # fmt: skip
Shedders = Annotated[
    str,
    typer.Option(
        metavar="NAMES", help="Shedders to evaluate, such as ri,rs,oracle.", autocompletion=completion.shedder_lists
    ),
]  # fmt: skip
Kind = Annotated[
    str,
    typer.Option(metavar="NAME", help="Kind of model: hybrid, pspice or espice.", autocompletion=completion.kinds),
]  # fmt: skip
Spark = Annotated[bool, typer.Option("--spark", help="Run on Spark; needs fastcep[spark] and Java.")]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="With --spark: master URL; local[*], all cores here.")
]
QueueShare = Annotated[
    str | None,
    typer.Option("--f", metavar="SHARE|auto", help="espice: share of the longest queue at which shedding begins; 0.8."),
]
Literal = Annotated[bool, typer.Option("--literal", help="espice: follow the paper to the letter.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")]


@contextmanager
def exit_codes() -> Iterator[None]:
    """Translate exceptions to exit codes.

    User errors print a red message and exit with 2. Ctrl-C exits with 130, SIGTERM with 143. If the reader of standard
    output closes it (``| head``), the command exits with 141 without a message, as if by SIGPIPE. Other exceptions
    are bugs and keep their traceback.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warning
            yield
    except (FastcepError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        from rich.console import Console
        from rich.text import Text

        from fastcep.cli.messages import in_options

        Console(stderr=True, soft_wrap=True).print(Text(f"error: {in_options(error)}", style="red"))
        raise typer.Exit(2) from None
    except BrokenPipeError:
        import os
        import sys

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would report an error at exit
        raise typer.Exit(141) from None
    except KeyboardInterrupt as error:
        from fastcep.cli.interruption import exit_code

        raise typer.Exit(exit_code(error)) from None


def _warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning without the source line that raised it."""
    typer.echo(f"warning: {message}", err=True)


def load_functions(functions: Path | None) -> None:
    """Load the file of the user's functions, if there is one."""
    if functions is not None:
        from fastcep.cli.functions import load_functions as load

        load(functions)
