"""Heartbeats of devices: report a device that sends none for 30 s, and notice when it returns.

`NEG` at the end of a pattern waits until the window has passed without the event. Such a match needs the time to go on:
here the heartbeats of the other devices do that. If all devices may fall silent, call `engine.advance(now)`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import fastcep as fc

SCHEMA = fc.Schema({"Beat": {"device": "string"}}, time="ts", time_unit="s")
SILENT = fc.parse(
    "PATTERN SEQ(Beat a, NEG Beat n) WHERE n.device = a.device WITHIN 30s RETURN a.device AS device",
    SCHEMA, name="silent",
)  # fmt: skip
BACK = fc.parse(
    """
    PATTERN SEQ(Beat a, Beat b) WHERE b.time - a.time > 30s WITHIN 1h PARTITION BY device
    STRATEGY partition_contiguity RETURN a.device AS device, (b.time - a.time) / 1s AS seconds
    """,
    SCHEMA, name="back",
)  # fmt: skip


def heartbeats(devices: int = 20, minutes: int = 20, seed: int = 4) -> pa.Table:
    """Return a heartbeat of each device every 10 s; two devices fall silent, and one of them comes back."""
    draw = np.random.default_rng(seed)
    ts = np.arange(0, 60 * minutes, 10).repeat(devices)
    device = np.tile(np.arange(devices), len(ts) // devices)
    broken, paused = draw.choice(devices, 2, replace=False)
    lost = (device == broken) & (ts >= 300) | (device == paused) & (ts >= 600) & (ts < 660)
    names = np.char.add("sensor-", device.astype(str))
    return pa.Table.from_pydict({"ts": ts[~lost], "device": names[~lost]})


def alarms(stream: pa.Table, batch_size: int = 50) -> Iterator[str]:
    """Yield a line for each device that falls silent or returns, as soon as it is known."""
    engine = fc.Engine([SILENT, BACK])
    for start in range(0, len(stream), batch_size):
        for match in engine.process(stream.slice(start, batch_size)):
            if match.query == "silent":
                yield f"{match.detected_at} {match['device']} has been silent for 30 s"
            else:
                yield f"{match.detected_at} {match['device']} is back after {match['seconds']} s"


def main() -> None:
    """Print the alarms."""
    for line in alarms(heartbeats()):
        print(line)


if __name__ == "__main__":
    main()
