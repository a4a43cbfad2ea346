"""``fastcep run`` on streams that are out of order: its options, and the file of the events that come too late."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastcep.errors import ValidationError
from fastcep.events import parse_duration
from fastcep.io import open_live, open_source

if TYPE_CHECKING:
    from fastcep.engine import Engine
    from fastcep.events import Schema
    from fastcep.io import MatchWriter, Source

__all__ = ["LateEvents", "Lateness"]


@dataclass(frozen=True)
class Lateness:
    """The options ``--allowed-lateness``, ``--late`` and ``--idle-timeout``; None: not given."""

    allowed: str | None = None
    output: Path | None = None
    idle: str | None = None

    def options(self, source: str, output: str | None, batch_rows: int) -> dict[str, Any]:
        """Give the engine's options.

        Raises
        ------
        ValidationError
            If the options do not fit each other, the input or the output.
        """
        for option, value in (("--late", self.output), ("--idle-timeout", self.idle)):
            if value is not None and self.allowed is None:
                raise ValidationError(f"{option} needs --allowed-lateness: without it the input must be in order")
        if self.idle is not None and source != "-":
            raise ValidationError(f"--idle-timeout is for standard input, --input -; '{source}' does not fall silent")
        matches = None if output is None or output == "-" else Path(output).resolve()
        if self.output is not None and self.output.resolve() == matches:
            raise ValidationError(f"--late and --output are both '{output}'; give two names")
        options = {"late_limit": max(1_000_000, batch_rows)}
        return options | {"allowed_lateness": self.allowed, "idle_timeout": self.idle}

    def open(self, source: str, schema: Schema, batch_rows: int, on_quiet: Callable[[], None]) -> Source:
        """Open the input; ``on_quiet`` is called whenever it has been silent for ``--idle-timeout``."""
        if self.idle is None:
            return open_source(source, schema, chunk_rows=batch_rows)
        return open_live(schema, wait=parse_duration(self.idle) / 1e9, on_quiet=on_quiet, chunk_rows=batch_rows)


class LateEvents:
    """Takes late events from the engine, so that they do not pile up there, and writes them if somebody wants them.

    Parameters
    ----------
    engine
        The engine.
    writer
        Where they go; None for nowhere.
    """

    def __init__(self, engine: Engine, writer: MatchWriter | None) -> None:
        self._engine = engine
        self._writer = writer

    def collect(self) -> None:
        """Take those that came since the last call."""
        events = self._engine.late()
        if self._writer is not None:
            self._writer.write(events)

    def report(self) -> None:
        """Say on standard error how many there were, if nobody kept them."""
        count = self._engine.metrics()["late_events"]
        if count and self._writer is None:
            print(
                f"late events, which are in no match: {count:,}; keep them with --late PATH, or raise "
                "--allowed-lateness",
                file=sys.stderr,
            )
