"""The command ``fastcep`` and its subcommands."""

from fastcep.cli.commands import app, main

__all__ = ["app", "main"]
