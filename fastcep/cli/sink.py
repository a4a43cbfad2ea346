"""Where goes what an engine gives: matches to output and screen, late events to their file, counts to the summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from fastcep.cli.display import Display
    from fastcep.cli.summary import Summary
    from fastcep.engine import Engine, Matches

__all__ = ["LateEvents", "Sink", "Writes"]


class Writes(Protocol):
    """Takes tables, one behind the other, as a `MatchWriter` does."""

    def write(self, table: pa.Table, /) -> None: ...  # noqa: D102


class LateEvents:
    """Takes late events from the engine, so that they do not pile up there, and writes them if somebody wants them.

    Parameters
    ----------
    engine
        The engine.
    writer
        Where they go; None for nowhere.
    """

    def __init__(self, engine: Engine, writer: Writes | None) -> None:
        self._engine = engine
        self._writer = writer

    def collect(self) -> None:
        """Take those that came since the last call."""
        events = self._engine.late()
        if self._writer is not None:
            self._writer.write(events)


class Sink:
    """Takes what an engine gives.

    Parameters
    ----------
    engine
        The engine.
    summary
        Counts.
    writer
        Where matches are written; None for nowhere.
    late
        Where late events go.
    display
        Shows the first matches.
    """

    def __init__(
        self, engine: Engine, summary: Summary, writer: Writes | None, late: LateEvents, display: Display
    ) -> None:
        self._engine, self._summary, self._writer, self._late = engine, summary, writer, late
        self._display = display

    def take(self, matches: Matches) -> None:
        """Take what one call gave."""
        self._summary.add(self._engine, matches)
        self._late.collect()
        show = self._display.wants(len(matches))
        if show or self._writer is not None:
            table = matches.to_arrow()
            if self._writer is not None:
                self._writer.write(table)
            if show:
                self._display.print(table)
        self._display.update(self._summary)
