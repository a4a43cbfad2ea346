"""The options of ``fastcep run`` for streams that are out of order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastcep.errors import ValidationError
from fastcep.events import parse_duration
from fastcep.io import Live

__all__ = ["Lateness"]


@dataclass(frozen=True)
class Lateness:
    """The options ``--allowed-lateness``, ``--late`` and ``--idle-timeout``; None: not given."""

    allowed: str | None = None
    output: Path | None = None
    idle: str | None = None

    def options(self, sources: Sequence[str], sort: bool, batch_rows: int) -> dict[str, Any]:
        """Give the engine's options.

        Raises
        ------
        ValidationError
            If the options do not fit each other or the input.
        """
        for option, value in (("--late", self.output), ("--idle-timeout", self.idle)):
            if value is not None and self.allowed is None:
                raise ValidationError(f"{option} needs --allowed-lateness: without it the input must be in order")
        if self.idle is not None and list(sources) != ["-"]:
            raise ValidationError("--idle-timeout is for standard input alone, --input -; files do not fall silent")
        if self.idle is not None and sort:
            raise ValidationError("--idle-timeout has no use with --sort, which reads all input first; leave one out")
        if self.output is not None and str(self.output) == "-":
            raise ValidationError("--late - : late events go to a file; give its name")
        options = {"late_limit": max(1_000_000, batch_rows)}
        return options | {"allowed_lateness": self.allowed, "idle_timeout": self.idle}

    def live(self, on_quiet: Callable[[], None]) -> Live | None:
        """How to wait for standard input, if it is to be waited for; `on_quiet` is called when it is silent."""
        return None if self.idle is None else Live(parse_duration(self.idle) / 1e9, on_quiet)

    def report(self, count: int) -> None:
        """Say on standard error how many late events there were, if nobody kept them."""
        if count and self.output is None:
            print(
                f"late events, which are in no match: {count:,}; keep them with --late PATH, or raise "
                "--allowed-lateness",
                file=sys.stderr,
            )
