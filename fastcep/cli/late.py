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
        """Return the options of the engine.

        Raises
        ------
        ValidationError
            If the options contradict each other or the input.
        """
        if self.output is not None and self.allowed is None and self.idle is None:
            raise ValidationError("--late needs --allowed-lateness: without it the input must be in order")
        if self.idle is not None and list(sources) != ["-"]:
            raise ValidationError("--idle-timeout is for standard input only; use it with --input - alone, or omit it")
        if self.idle is not None and sort:
            raise ValidationError("--idle-timeout has no effect with --sort, which reads all input first; omit one")
        if self.output is not None and str(self.output) == "-":
            raise ValidationError("--late -: late events cannot be written to standard output; give a file")
        options = {"late_limit": max(1_000_000, batch_rows)}
        return options | {"allowed_lateness": self.allowed, "idle_timeout": self.idle}

    @property
    def ordered(self) -> bool:
        """True if the input must be in order."""
        return self.allowed is None and self.idle is None

    def live(self, on_quiet: Callable[[], None]) -> Live:
        """Return how to wait for standard input; with an idle timeout, `on_quiet` is called when it is idle."""
        return Live() if self.idle is None else Live(parse_duration(self.idle) / 1e9, on_quiet)

    def report(self, count: int) -> None:
        """Print the number of late events on standard error, unless they are written to a file."""
        if count and self.output is None:
            print(
                f"late events, excluded from all matches: {count:,}; write them with --late PATH, or raise "
                "--allowed-lateness",
                file=sys.stderr,
            )
