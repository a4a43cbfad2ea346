"""Errors in the words of a command line: each message names the option, what is expected, and what to write."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from fastcep.events.hints import suggestion

__all__ = ["Commands"]

#: typer has a click of its own from some version on, so its exceptions are found through typer.
_UsageError: Any = typer.BadParameter.__mro__[1]


class Commands(TyperGroup):
    """A group of commands with such messages."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of the group itself."""
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            raise _explained(error, ctx) from None

    def invoke(self, ctx: Any) -> Any:
        """Parse the rest of the command line, and run the command."""
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            raise _explained(error, ctx) from None


def _explained(error: Any, group: Any) -> Any:
    """Return an error with a remedy in its message; an error that is not known here is returned as it is."""
    path = group.command_path + (f" {group.invoked_subcommand}" if group.invoked_subcommand else "")
    text = _text(error, type(error).__name__, path if error.ctx is None else error.ctx.command_path)
    return error if text is None else _UsageError(text, ctx=error.ctx)


def _text(error: Any, kind: str, command: str) -> str | None:
    param, message = getattr(error, "param", None), str(getattr(error, "message", "") or "")
    if kind == "NoSuchOption":
        names = _options(error.ctx)
        close = [name for name in names if name.startswith(error.option_name)]
        close = close or get_close_matches(error.option_name, names, 1)
        hint = f"did you mean {' or '.join(close[:3])}?" if close else f"{command} --help lists the options"
        return f"{error.option_name}: there is no such option; {hint}"
    if kind == "BadOptionUsage" and "requires an argument" in message:
        return f"{error.option_name}: expected a value after it; {command} --help describes it"
    if kind == "MissingParameter" and param is not None:
        example = f"{_option(param)} {_value(param)}".strip()
        place = _option(param) or _value(param)
        return f"{place} is missing, expected {example}{_help(param)}; add it: {command} {_call(error.ctx)}"
    if kind == "BadParameter" and param is not None:
        return _bad_value(param, message)
    unknown = re.match(r"No such command ['\"](.*?)['\"]", message)
    if unknown is not None and error.ctx is not None:
        commands = error.ctx.command.list_commands(error.ctx)
        return f"there is no command {unknown[1]!r}{suggestion(unknown[1], commands)}"
    extra = re.match(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", message)
    if extra is not None:
        option = "--input" if "--input" in _options(error.ctx) else "--output"
        return (
            f"{extra[1]}: expected nothing after the other arguments; remove it, or write an option before it, such as "
            f"{option} {extra[1].split()[0]}"
        )
    return None


def _bad_value(param: Any, message: str) -> str | None:
    """Return the message for a value that an option or an argument does not take."""
    place = _option(param) or _value(param)
    if "integer" in message or "greater than" in message or "in the range" in message:
        bound = re.search(r"(?:greater than or equal to |x\s*>=\s*|(?=\d+\s*<=))(\d+)", message)
        example = param.default if isinstance(param.default, int) else 1
        least = "" if bound is None else f", at least {int(bound[1]):,}"
        return f"{place}: expected a whole number{least}; write for example {place} {example}"
    if "number" in message or "float" in message:
        return f"{place}: expected a number; write for example {place} 0.5"
    missing = re.search(r"['\"](.*)['\"] does not exist", message)
    if missing is not None:
        path = Path(missing[1])
        names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        close = get_close_matches(path.name, names, 1)
        hint = f"did you mean '{path.parent / close[0]}'?" if close else "check the path"
        return f"{place}: there is no file '{missing[1]}'; {hint}"
    return None


def _call(ctx: Any) -> str:
    """Return the required arguments and options of a command, as they are written."""
    required = [param for param in ctx.command.params if param.required]
    return " ".join(f"{_option(param)} {_value(param)}".strip() for param in required)


def _options(ctx: Any) -> list[str]:
    return [] if ctx is None else [name for param in ctx.command.params for name in param.opts if name.startswith("--")]


def _option(param: Any) -> str:
    """Return the long name of an option; empty for an argument."""
    return next((name for name in param.opts if name.startswith("--")), "")


def _value(param: Any) -> str:
    return str(param.metavar or "VALUE").partition("|")[0]


def _help(param: Any) -> str:
    text = str(getattr(param, "help", "") or "").partition(".")[0]
    return f": {text[:1].lower()}{text[1:]}" if text else ""
