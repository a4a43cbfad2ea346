"""Results of an engine: write and print matches, write late events, count both in the summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from fastcep.cli.display import Display
    from fastcep.cli.summary import Summary
    from fastcep.engine import Engine, Matches

__all__ = ["LateEvents", "Sink", "TableWriter"]


class TableWriter(Protocol):
    """Writer of consecutive tables with the interface of `MatchWriter`."""

    def write(self, table: pa.Table, /) -> None: ...  # noqa: D102


class LateEvents:
    """Late events of an engine: removed from it regularly, so that they do not accumulate, and written if wanted.

    Parameters
    ----------
    engine
        Engine that set the events aside.
    writer
        Writer of the events; None discards them.
    """

    def __init__(self, engine: Engine, writer: TableWriter | None) -> None:
        self._engine = engine
        self._writer = writer

    def collect(self) -> None:
        """Remove the late events since the last call from the engine, and write them."""
        events = self._engine.late()
        if self._writer is not None:
            self._writer.write(events)


class Sink:
    """Receiver of the results of an engine.

    Parameters
    ----------
    engine
        Engine that returns the matches.
    summary
        Summary to update.
    writer
        Writer of matches; None writes none.
    late
        Receiver of late events.
    display
        Printer of the first matches and of progress.
    """

    def __init__(
        self, engine: Engine, summary: Summary, writer: TableWriter | None, late: LateEvents, display: Display
    ) -> None:
        self._engine, self._summary, self._writer, self._late = engine, summary, writer, late
        self._display = display

    def take(self, matches: Matches) -> None:
        """Process the matches of one call of the engine."""
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
