"""The command ``fastcep``: ``run``, ``explain``, ``datasets`` and ``demo``."""

from fastcep.cli.commands import app, main

__all__ = ["app", "main"]
