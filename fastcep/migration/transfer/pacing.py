"""Measure the bandwidth of a link from acknowledgements, and limit the data that is on its way.

The new host acknowledges every frame. While data is always on its way, the bytes that are acknowledged per second are
the bandwidth, or what the slower host can process. The measurement covers the last `_SPAN` seconds, so the bytes that a
token bucket passes at once at the start do not count for long; while the rate grows, it covers a round trip.

The window of unacknowledged bytes is `_GAIN` times bandwidth · round trip, plus two frames (one is on the link while
the other is acknowledged), plus the bytes of `SLACK`, because a busy host acknowledges late. Without slack, late
answers would make the window smaller, and so the rate, and so the window. So data waits for at most some 30 ms in
buffers of the system and routers, and less near the deadline. A gain above 1 finds out if the link has become faster.
Until it no longer finds that (`_ROUNDS` round trips without growth), the gain is `_FIRST_GAIN`, which doubles the rate
in each round trip, as TCP does.
"""

from __future__ import annotations

import math
from collections import deque

__all__ = ["FRAME_TIME", "PACKET", "SLACK", "Meter"]

#: Time that a frame should take on the link, in seconds.
FRAME_TIME = 0.005
#: Time for which data may wait before the link, in seconds, unless the deadline is near.
SLACK = 0.02
#: Bytes of a frame for which headers take little of the link: one packet.
PACKET = 1400
#: Window before anything is measured, in bytes: TCP's first window.
_FIRST_WINDOW = 14_000
_SPAN = 0.3
_SHORTEST = 0.002  # time of a measurement that takes less
_SOUND, _FRAMES = 0.02, 4  # a measurement over this time, in s, and as many frames is reliable
_FIRST_GAIN, _GAIN = 2.0, 1.25
_GROWTH, _ROUNDS = 1.2, 3
_FORGET = 0.5  # time constant of the highest rate, in s; the window follows a falling rate more slowly than the plan


class Meter:
    """Bandwidth of a link, and bytes on their way.

    Times are seconds of any clock; bytes are those of payloads, so that the headers count as time.

    Parameters
    ----------
    round_trip
        Shortest time from sending a small message to its answer.
    bandwidth
        Bandwidth in bytes/s that the user gives, until one is measured; None: unknown.

    Attributes
    ----------
    round_trip
        The shortest that was seen.
    sent, acknowledged
        Bytes so far.
    """

    def __init__(self, round_trip: float, bandwidth: float | None = None) -> None:
        self.round_trip = round_trip
        self.sent = 0
        self.acknowledged = 0
        self._given = bandwidth
        self._samples: deque[tuple[float, int]] = deque()
        self._sending: deque[tuple[float, int]] = deque()
        self._rate: float | None = None
        self._is_measured = False
        self._acknowledged_at = float("-inf")
        self._best = 0.0
        self._peak, self._rated_at = bandwidth or 0.0, 0.0
        self._round_end = float("-inf")
        self._rounds = 0
        self._settled_at: float | None = None

    @property
    def outstanding(self) -> int:
        """Bytes that are sent, but not acknowledged."""
        return self.sent - self.acknowledged

    @property
    def latency(self) -> float:
        """Time in one direction."""
        return self.round_trip / 2

    @property
    def measured(self) -> float | None:
        """Measured bandwidth in bytes/s; None before there is a measurement."""
        return self._rate

    @property
    def bandwidth(self) -> float | None:
        """Bandwidth in bytes/s; a reliable measurement, or the given one, or any measurement; None if unknown."""
        return self._rate if self._is_measured or self._given is None else self._given

    @property
    def is_measured(self) -> bool:
        """True if `bandwidth` is measured, not given."""
        return self._is_measured or self._given is None

    @property
    def is_sound(self) -> bool:
        """True if the bandwidth is reliable: given by the user, or measured for long enough."""
        return self._is_measured or self._given is not None

    @property
    def is_growing(self) -> bool:
        """True while the bandwidth may be far higher than measured, because the window has not yet grown."""
        return self._given is None and self._settled_at is None

    @property
    def is_known(self) -> bool:
        """True if the bandwidth is given, or is measured without the bytes that a link passes at once at the start.

        These count during the first measurement after the bandwidth has stopped growing.
        """
        if self._given is not None:
            return True
        span = max(_SPAN, 2 * self.round_trip)
        return self._settled_at is not None and self._acknowledged_at - self._settled_at >= 2 * span

    def send(self, now: float, count: int) -> None:
        """Count bytes that are sent."""
        if not self.outstanding:  # the link was idle: the next bytes arrive from now on
            self._samples.clear()
            self._samples.append((now + self.round_trip, self.acknowledged))
        self.sent += count
        self._sending.append((now, self.sent))

    def acknowledge(self, now: float, total: int) -> None:
        """Measure with an acknowledgement of `total` bytes since the start."""
        self.acknowledged, self._acknowledged_at = total, now
        while self._sending and self._sending[0][1] <= total:
            self.round_trip = min(self.round_trip, now - self._sending.popleft()[0])
        samples = self._samples
        samples.append((now, total))
        span = max(_SPAN, 2 * self.round_trip) if self._settled_at is not None else max(_SOUND, self.round_trip)
        while len(samples) > _FRAMES + 1 and samples[1][0] <= now - span:
            samples.popleft()
        start, first = samples[0]
        is_sound = now - start >= _SOUND and len(samples) > _FRAMES
        if self._is_measured and not is_sound:
            return
        self._is_measured = is_sound
        if self._rated_at:
            self._peak *= math.exp((self._rated_at - now) / _FORGET)
        self._rate = (total - first) / max(now - start, _SHORTEST)
        self._peak, self._rated_at = max(self._peak, self._rate if is_sound else 0.0), now
        if is_sound and now >= self._round_end:
            self._round_end = now + self.round_trip
            self._rounds = 0 if self._rate > _GROWTH * self._best else self._rounds + 1
            self._best = max(self._best, self._rate)
            if self._settled_at is None and self._rounds >= _ROUNDS:
                self._settled_at = now

    @property
    def frame(self) -> int:
        """Bytes that take about `FRAME_TIME` on the link; a quarter of the first window if that is unknown."""
        if self.bandwidth is None or not self.is_sound:
            return _FIRST_WINDOW // 4
        return max(1, int(self.bandwidth * FRAME_TIME))

    def has_room(self, count: int, slack: float = SLACK) -> bool:
        """Return whether a frame of `count` bytes may be sent now, if data may wait for `slack` seconds."""
        if not self.outstanding:
            return True
        if not self.is_sound:
            return self.sent + count <= _FIRST_WINDOW + 2 * self.acknowledged
        gain = _FIRST_GAIN if self._settled_at is None else _GAIN
        window = (gain * self.round_trip + slack) * self._peak + 2 * max(min(self.frame, slack * self._peak), count)
        return self.outstanding + count <= window

    def room(self, now: float, limit: float) -> float:
        """Return the bytes that arrive until a time if they are sent from now on; infinite if that is unknown.

        The frames on their way leave the link one after another: the first one after the last that is acknowledged.
        """
        if not self.bandwidth:
            return float("inf")
        free, end = self._acknowledged_at - self.round_trip, self.acknowledged
        for sent_at, total in self._sending:
            free = max(free, sent_at) + (total - end) / self.bandwidth
            end = total
        return (limit - self.latency - max(now, free)) * self.bandwidth
