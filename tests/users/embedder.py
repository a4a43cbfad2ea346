"""Developer of a service: an engine in an asyncio loop, with late events, a latency bound and a changed query.

Orders and cancellations arrive one by one and up to five seconds late. Version 1 of the service looks for orders that
are cancelled within an hour. Version 2 allows two hours and has a second query; the matches of the old queries go on.

Each comment ``docs/PAGE#SECTION`` is a look-up: the section where the call on that line was found.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import fastcep as fc

SCHEMA = fc.Schema(  # docs/quickstart.md#a-dataframe-of-events
    {"Order": {"item": "int64", "price": "float64"}, "Cancel": {"item": "int64"}}, time="ts", type="kind", time_unit="s"
)
STATE = Path("engine.state")
seen: list[tuple[str, int]] = []


def cancelled(within: str) -> fc.Query:
    """Return the query of the orders that are cancelled."""
    text = f"PATTERN SEQ(Order o, Cancel c) WHERE [item] WITHIN {within} RETURN o.item AS item"
    return fc.parse(text, SCHEMA, name="cancelled")  # docs/quickstart.md#a-query


TWICE = fc.parse("PATTERN SEQ(Order o, Order p) WHERE [item] WITHIN 1h RETURN p.item AS item", SCHEMA, name="twice")
COSTLY = fc.parse("PATTERN SEQ(Order o) WHERE o.price > 99 WITHIN 1s RETURN o.item AS item", SCHEMA, name="costly")


def handle(matches: fc.Matches) -> None:
    """Report matches; a real service would send them somewhere."""
    for match in matches:  # docs/quickstart.md#matches
        seen.append((match.query, match["item"]))


async def serve(engine: fc.Engine, messages: AsyncIterator[dict[str, Any]]) -> None:
    """Pass each message to the engine; save the state when they end."""
    async for message in messages:
        kind = message.pop("kind")
        handle(engine.send(kind, **message))  # docs/quickstart.md#a-live-stream
    STATE.write_bytes(engine.snapshot())  # docs/reliability.md#snapshots
    metrics = engine.metrics()  # docs/api.md#metrics
    print(metrics["events"], "events,", metrics["held_events"], "held,", metrics["late_events"], "late")


async def source(*messages: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Yield messages as a queue or a socket would."""
    for message in messages:
        await asyncio.sleep(0)
        yield message


# Version 1. Late events are held back and sorted; if the service cannot keep up, it drops the least useful work.
first = fc.Engine(
    [cancelled("1h"), TWICE],
    allowed_lateness="5s",  # docs/time.md#out-of-order-input
    latency_bound="50ms",  # docs/quickstart.md#a-bound-on-the-latency
)
asyncio.run(
    serve(
        first,
        source(
            {"kind": "Order", "ts": 0, "item": 1, "price": 20.0},
            {"kind": "Order", "ts": 10, "item": 2, "price": 500.0},
            {"kind": "Cancel", "ts": 8, "item": 1},  # two seconds late
            {"kind": "Order", "ts": 60, "item": 3, "price": 30.0},
        ),
    )
)
assert seen == [("cancelled", 1)]

# Version 2. The order of the queries differs, one is changed, and one is new.
second = fc.Engine.restore(  # docs/reliability.md#deploying-a-changed-query
    STATE.read_bytes(), [COSTLY, TWICE, cancelled("2h")], on_change="replace"
)
asyncio.run(
    serve(
        second,
        source(
            {"kind": "Order", "ts": 70, "item": 2, "price": 700.0},
            {"kind": "Cancel", "ts": 2, "item": 3},  # too late
            {"kind": "Order", "ts": 6_000, "item": 4, "price": 5.0},
            {"kind": "Cancel", "ts": 7_000, "item": 2},
        ),
    )
)
handle(second.flush())  # docs/time.md#late-events
assert second.late()["item"].to_pylist() == [3]  # docs/time.md#late-events

# "twice" joins the order of item 2 before the restart with the one after it; "cancelled" starts again.
assert sorted(seen[1:]) == [("cancelled", 2), ("costly", 2), ("twice", 2)]
shedding = second.metrics()["shedding"]
assert shedding["estimated_recall"] == 1.0  # docs/quickstart.md#a-bound-on-the-latency
