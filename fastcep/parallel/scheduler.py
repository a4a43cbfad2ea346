"""Assign slices to instances, send them their events, receive their answers, and replace instances that die.

Everything happens in the calling thread, between two batches or while it waits. Nothing is sent to an instance that
cannot take it, so that neither side ever waits for the other one to receive.

Invariant: a slice that has not ended is run by exactly one instance, which gets all of its events in order; the events
are kept until it ends.
"""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from fastcep._core.matcher.signals import Signals
from fastcep.engine.instance_pool import InstanceCounts
from fastcep.errors import InstanceError
from fastcep.parallel.channel import PAUSE, packed, unpacked
from fastcep.parallel.instances import Instance, Starter
from fastcep.parallel.merger import Merger
from fastcep.parallel.splitter import Feed, Slice

__all__ = ["Scheduler"]

#: Number of instances that may die in succession without an answer, or with the same slice.
_MOST_DEATHS = 3
#: Number of feeds in a message, which must fit into a packet.
_MOST_FEEDS = 200


@dataclass(eq=False)
class _Piece:
    """Consecutive events as they are sent; ``slices`` is the number of slices that contain some and have not ended."""

    data: pa.Buffer
    size: int
    slices: int = 0


@dataclass(eq=False)
class _Assignment:
    """A slice that has not ended: its instance, everything sent to it, and how many instances have died with it."""

    instance: Instance
    sent: list[tuple[_Piece | None, dict[str, Any]]] = field(default_factory=list)
    deaths: int = 0


class Scheduler:
    """Runs slices in instances.

    Parameters
    ----------
    starter
        Starts the instances.
    merger
        Gets their answers.
    queries
        Number of queries.
    served
        Function that gets the number of events of each answer, and the time in ns that the instance took for them.

    Attributes
    ----------
    instances
        All instances, also those that are leaving.
    kept, kept_bytes
        Number and bytes of the events that are held for slices that have not ended.
    peak
        Largest number of partial matches in a slice that has ended.
    restarts
        Number of times that a slice was run again.
    """

    def __init__(
        self, starter: Starter, merger: Merger, queries: int, served: Callable[[int, int], None] | None = None
    ) -> None:
        self._starter, self._merger, self._queries, self._served = starter, merger, queries, served
        self._selector = selectors.DefaultSelector()
        self._slices: dict[int, _Assignment] = {}
        self._signals = Signals()
        self._owner = os.getpid()
        self._deaths = 0  # in succession, without an answer
        self.instances: list[Instance] = []
        self.kept = self.kept_bytes = self.peak = self.restarts = 0

    @property
    def outstanding(self) -> int:
        """Number of events that instances have not answered."""
        return sum(instance.outstanding for instance in self.instances)

    @property
    def newest(self) -> int:
        """Number of the newest slice that has not ended; -1 if there is none."""
        return max(self._slices, default=-1)

    @property
    def is_forked(self) -> bool:
        """True in a forked process."""
        return os.getpid() != self._owner

    @property
    def is_torn(self) -> bool:
        """True if the handler of a signal has ended a call in the middle, see `Signals.torn`."""
        return self._signals.torn

    @property
    def is_idle(self) -> bool:
        """True if all slices have ended."""
        return not self._slices

    # --------------------------------------------------------------- instances

    def counts(self) -> InstanceCounts:
        """Return the numbers of instances that are ready, starting and leaving."""
        leaving = sum(instance.is_leaving for instance in self.instances)
        ready = sum(instance.is_ready and not instance.is_leaving for instance in self.instances)
        return InstanceCounts(ready, len(self.instances) - leaving - ready, leaving)

    def resize(self, number: int) -> None:
        """Start instances, or let surplus ones leave, until ``number`` of them take new slices."""
        staying = [instance for instance in self.instances if not instance.is_leaving]
        for instance in self.instances:
            if instance.is_leaving and len(staying) < number:
                instance.is_leaving = False
                staying.append(instance)
        for _ in range(number - len(staying)):
            self._start()
        surplus = sorted(staying, key=lambda instance: (instance.is_ready, instance.outstanding))  # starting ones first
        for instance in surplus[: max(0, len(staying) - number)]:
            instance.is_leaving = True
            self._end_if_done(instance)

    def _start(self) -> None:
        instance = self._starter.start()
        self._selector.register(instance.channel, selectors.EVENT_READ, instance)
        self.instances.append(instance)

    def _end_if_done(self, instance: Instance) -> None:
        if instance.is_leaving and not instance.slices:
            instance.worker.stop()  # it has nothing to lose, and may need seconds to start
            self._remove(instance)

    def _remove(self, instance: Instance) -> str:
        self._selector.unregister(instance.channel)
        self.instances.remove(instance)
        return instance.end()

    def close(self) -> None:
        """End all instances; in a forked process, do nothing: they are those of its parent."""
        if self.is_forked:
            return
        with self._signals:
            for instance in self.instances:
                with suppress(KeyError, ValueError):
                    self._selector.unregister(instance.channel)
                instance.channel.close()
                instance.worker.stop()
            for instance in self.instances:  # all of them end at the same time
                instance.end()
            self.instances = []
            self._slices.clear()
            self._selector.close()

    # ----------------------------------------------------------------- sending

    def dispatch(self, events: pa.Table, feeds: Sequence[Feed]) -> None:
        """Send the next events of the stream to the instances that run their slices, to each instance once."""
        piece = _Piece(packed([events]), len(events), len({feed.slice.number for feed in feeds}))
        self.kept += piece.size
        self.kept_bytes += piece.data.size
        messages: dict[Instance, list[dict[str, Any]]] = {}
        for feed in feeds:
            assignment = self._assignment(feed.slice)
            header = _header(feed.slice, feed.first, feed.last, feed.ends)
            assignment.sent.append((piece, header))
            assignment.instance.outstanding += feed.last - feed.first
            messages.setdefault(assignment.instance, []).append(header)
        for instance, headers in messages.items():
            for first in range(0, len(headers), _MOST_FEEDS):  # rarely more than one message
                instance.post({"feeds": headers[first : first + _MOST_FEEDS]}, piece.data)

    def end(self, last: Slice, *, complete: bool) -> None:
        """End the stream with its last slice; see `Engine.flush` for ``complete``."""
        assignment = self._assignment(last)
        header = _header(last, 0, 0, True) | {"complete": complete}
        assignment.sent.append((None, header))
        assignment.instance.post({"feeds": [header]})

    def forget(self, begun: Slice) -> None:
        """Forget a slice that owns no match."""
        self._settle(begun.number)

    def _assignment(self, of: Slice) -> _Assignment:
        if of.number not in self._slices:
            self._slices[of.number] = _Assignment(self._assign(of.number))
        return self._slices[of.number]

    def _assign(self, number: int) -> Instance:
        """Assign a slice to the instance with the fewest outstanding events, if possible of those that have started."""
        staying = [instance for instance in self.instances if not instance.is_leaving]
        staying = [instance for instance in staying if instance.is_ready] or staying
        instance = min(staying, key=lambda instance: (instance.outstanding, len(instance.slices)))
        instance.slices.add(number)
        return instance

    # --------------------------------------------------------------- receiving

    def receive(self, timeout: float | None) -> None:
        """Take the answers that have come; if there is none, wait for the first one up to ``timeout`` s, None: forever.

        Raises
        ------
        InstanceError
            If a query failed, or if instances die repeatedly.
        """
        with self._signals:
            crowded = [instance for instance in self.instances if instance.channel.is_crowded and instance.has_unsent]
            for instance in self.instances:
                writes = instance.has_unsent and instance not in crowded
                self._selector.modify(
                    instance.channel, selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0), instance
                )
        if crowded:
            timeout = PAUSE if timeout is None else min(timeout, PAUSE)
        ready = self._selector.select(timeout)
        with self._signals:
            for key, events in ready:
                if events & selectors.EVENT_WRITE:
                    key.data.send()
                if events & selectors.EVENT_READ:
                    self._read(key.data)
            for instance in crowded:
                if instance in self.instances:
                    instance.send()

    def _read(self, instance: Instance) -> None:
        """Take all answers of an instance that have come; the last one may end it."""
        while instance in self.instances:
            try:
                message = instance.channel.receive()
            except BlockingIOError:
                return
            if message is None:
                self._replace(instance)
                return
            answer, data = message
            if "ready" in answer:
                instance.is_ready = True
                continue
            self._deaths = 0
            number = answer["slice"]
            if "error" in answer:
                raise InstanceError(
                    f"instance {instance.number}, slice {number} of the stream: {answer['error']}",
                    self._merger.take(),
                )
            instance.outstanding -= answer["events"]
            if self._served is not None:
                self._served(answer["events"], answer["nanoseconds"])
            if number not in self._slices:  # it was forgotten
                continue
            self._merger.add(number, None if data is None else unpacked(data, self._queries), answer["ends"])
            if answer["ends"]:
                self.peak = max(self.peak, answer["peak"])
                self._settle(number)

    def _settle(self, number: int) -> None:
        """Drop the events that were kept for a slice."""
        assignment = self._slices.pop(number, None)
        if assignment is None:
            return
        for piece in {id(piece): piece for piece, _ in assignment.sent if piece is not None}.values():
            piece.slices -= 1
            if piece.slices == 0:
                self.kept -= piece.size
                self.kept_bytes -= piece.data.size
        assignment.instance.slices.discard(number)
        self._end_if_done(assignment.instance)

    def _replace(self, dead: Instance) -> None:
        """Run the slices of an instance that has died in others."""
        how = self._remove(dead)
        self._deaths += 1
        if self._deaths > _MOST_DEATHS:
            message = f"{self._deaths} instances have died without an answer; the last one {how}"
            raise InstanceError(message, self._merger.take())
        if not dead.is_leaving or all(instance.is_leaving for instance in self.instances):
            try:
                self._start()
            except (OSError, RuntimeError) as error:  # no process, or no thread
                raise InstanceError(
                    f"instance {dead.number} {how}, and none can be started in its place: {error}", self._merger.take()
                ) from None
        for number in sorted(dead.slices):
            self._run_again(number, dead, how)

    def _run_again(self, number: int, dead: Instance, how: str) -> None:
        assignment = self._slices[number]
        assignment.deaths += 1
        if assignment.deaths >= _MOST_DEATHS:
            position = assignment.sent[0][1]["position"]
            raise InstanceError(
                f"{assignment.deaths} instances have died while they ran slice {number}, which begins at event "
                f"{position:,} of the stream; the last one, instance {dead.number}, {how}",
                self._merger.take(),
            )
        self.restarts += 1
        self._merger.restart(number)
        assignment.instance = instance = self._assign(number)
        for piece, header in assignment.sent:
            instance.outstanding += header["last"] - header["first"]
            instance.post({"feeds": [header]}, None if piece is None else piece.data)


def _header(of: Slice, first: int, last: int, ends: bool) -> dict[str, Any]:
    return {
        "slice": of.number, "position": of.position, "owns": of.number == 0, "start": of.start, "stop": of.stop,
        "first": first, "last": last, "ends": ends,
    }  # fmt: skip
