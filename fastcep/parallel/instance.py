"""An instance: a process or a thread that runs the slices it is assigned.

It takes messages in order and answers each feed with the matches found in it. It ends when the other end of its channel
is closed, for whatever reason.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import pyarrow as pa

from fastcep.errors import FastcepError
from fastcep.parallel.channel import Channel, packed, unpacked
from fastcep.parallel.slice_run import SliceRun
from fastcep.query import ast, parse_document

__all__ = ["serve"]

#: Characters of an error message that are sent.
_MESSAGE = 10_000


def serve(channel: Channel, queries: list[ast.Query] | None = None) -> None:
    """Run slices until the other end closes the channel, or asks to stop.

    Parameters
    ----------
    channel
        Connection to the engine.
    queries
        Queries over plain events, and those that find windows longer than slices allow; None: the first message has
        their text.
    """
    try:
        _Instance(channel, queries).run()
    except ConnectionError:
        pass  # the other end is closed
    finally:
        channel.close()


class _Instance:
    def __init__(self, channel: Channel, queries: list[ast.Query] | None) -> None:
        self._channel, self._queries = channel, queries
        self._options: dict[str, Any] = {}
        self._count = 0
        self._runs: dict[int, SliceRun] = {}
        self._stores: list[str] | None = None

    def run(self) -> None:
        while (message := self._channel.receive()) is not None:
            header, data = message
            if "options" in header:
                self._options, self._count = header["options"], header["queries"]
                if self._queries is None:
                    self._queries = list(parse_document(bytes(data).decode()).queries)
                self._channel.send_in_time({"ready": True})
            elif "feeds" in header:
                self._feed(header["feeds"], None if data is None else unpacked(data, 1)[0])
            else:
                return

    def _feed(self, feeds: list[dict[str, Any]], events: pa.Table | None) -> None:
        for feed in feeds:
            number = feed["slice"]
            start = perf_counter_ns()
            try:
                tables = self._matches(feed, events)
                answer = {"slice": number, "events": feed["last"] - feed["first"], "ends": feed["ends"]}
                answer["nanoseconds"] = perf_counter_ns() - start
                if feed["ends"]:
                    run = self._runs.pop(number)
                    answer["peak"], self._stores = run.peak, run.stores
                self._channel.send_in_time(answer, packed(tables) if any(map(len, tables)) else None)
            except ConnectionError:
                raise
            except Exception as error:  # the engine raises it
                text = str(error) if isinstance(error, FastcepError) else f"{type(error).__name__}: {error}"
                self._channel.send_in_time({"slice": number, "error": text[:_MESSAGE]})
                return

    def _matches(self, feed: dict[str, Any], events: pa.Table | None) -> list[pa.Table]:
        number = feed["slice"]
        if number not in self._runs:
            assert self._queries is not None
            queries, watches = self._queries[: self._count], self._queries[self._count :]
            self._runs[number] = SliceRun(
                queries, watches, self._options, self._stores, feed["position"], feed["owns"]
            )
        run = self._runs[number]
        if feed["start"] is not None:
            run.start(feed["start"])
        run.stop = feed["stop"]
        found = []
        if events is not None and feed["last"] > feed["first"]:
            found.append(run.process(events.slice(feed["first"], feed["last"] - feed["first"])))
        if feed["ends"]:
            found.append(run.end(feed.get("complete", True)))
        return [pa.concat_tables(of_query) for of_query in zip(*found, strict=True)]
