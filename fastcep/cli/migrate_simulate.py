"""``fastcep migrate``: simulate the transfer of partial states before a deadline."""

from __future__ import annotations

import json as json_module
from typing import Any

from rich.console import Console
from rich.table import Table

from fastcep import migration
from fastcep.events.units import NANOSECONDS

__all__ = ["simulate"]

_POINTS = 20


def simulate(
    *,
    states: int,
    utility: str,
    sizes: str,
    method: str,
    deadline: str | None,
    bandwidth: str,
    latency: str,
    resume: str,
    epsilon: float,
    seed: int,
    event_rate: float | None = None,
    event_size: str = "100B",
    service: str = "0s",
    track: str = "single",
    json: bool = False,
) -> migration.Transfer:
    """Simulate a transfer, and print how much utility arrives in which share of the full time.

    Parameters
    ----------
    states, utility, sizes, seed
        See `fastcep.migration.scenario`.
    method, deadline, bandwidth, latency, resume, epsilon, event_rate, event_size, service, track
        See `fastcep.migration.simulate`.
    json
        Print one JSON object instead of a table.

    Raises
    ------
    ValidationError, DataError, OSError
        If an option is wrong, SimPy is not installed, or the file of sizes is wrong or cannot be read.
    """
    drawn = migration.scenario(utility, sizes, states, seed)
    transfer = migration.simulate(
        drawn,
        method,
        bandwidth=bandwidth,
        deadline=deadline,
        latency=latency,
        resume=resume,
        epsilon=epsilon,
        seed=seed,
        event_rate=event_rate,
        event_size=event_size,
        service=service,
        track=track,
    )
    result = _as_json(transfer, method, utility, sizes)
    if json:
        print(json_module.dumps(result))
    else:
        _print(result)
    return transfer


def _as_json(transfer: migration.Transfer, method: str, utility: str, sizes: str) -> dict[str, Any]:
    plan = transfer.plan
    shares = [point / _POINTS for point in range(_POINTS + 1)]
    return {
        "states": len(plan.order), "bytes": transfer.total_size, "total_utility": transfer.total_utility,
        "sizes": sizes, "method_used": plan.method, "capacity": plan.capacity,
        "planned": {
            "states": len(plan.selected), "bytes": plan.size, "utility": plan.utility, "upper_bound": plan.upper_bound,
        },
        "received": {
            "states": len(transfer.received), "bytes": int(transfer.size[-1]) if len(transfer.size) else 0,
            "utility": transfer.received_utility, "utility_share": transfer.utility_share(1.0),
        },
        "deadline_seconds": transfer.deadline / NANOSECONDS["s"],
        "full_seconds": transfer.full_time / NANOSECONDS["s"],
        "time_share_of_80_percent": transfer.time_share(0.8),
        "rows": [
            {
                "method": method, "utility": utility, "time_share": share,
                "utility_share": transfer.utility_share(share),
            }
            for share in shares
        ],
        **({} if transfer.events is None else {"events": _events(transfer.events)}),
    }  # fmt: skip


def _events(flow: migration.EventFlow) -> dict[str, Any]:
    def seconds(time: float | None) -> float | None:
        return None if time is None or time == float("inf") else time / NANOSECONDS["s"]

    return {
        "freeze_seconds": seconds(flow.freeze), "resumed_seconds": seconds(flow.resumed),
        "caught_up_seconds": seconds(flow.caught_up), "most_buffered": flow.most_buffered,
        "by_old_host": flow.by_old, "by_new_host": flow.by_new, "output_share": flow.output_share,
    }  # fmt: skip


def _print(result: dict[str, Any]) -> None:
    table = Table("time", "utility", box=None)
    for row in result["rows"][:: _POINTS // 10]:
        table.add_row(f"{row['time_share']:.0%}", f"{row['utility_share']:.1%}")
    Console().print(table)
    planned, received = result["planned"], result["received"]
    print(
        f"{result['method_used']}: {planned['states']:,} of {result['states']:,} states planned, {planned['bytes']:,} "
        f"of {result['capacity']:,} bytes"
    )
    print(
        f"received {received['states']:,} states and {received['utility_share']:.1%} of the utility in "
        f"{result['deadline_seconds']:.3f} s; all take {result['full_seconds']:.3f} s"
    )
    share = result["time_share_of_80_percent"]
    print("80% of the utility: " + ("not received" if share is None else f"after {share:.1%} of that time"))
    events = result.get("events")
    if events is not None and events["resumed_seconds"] is None:
        print("the old host was lost before the new host knew of the migration; outputs end")
    elif events is not None:
        print(
            f"no output for {events['freeze_seconds']:.3f} s; the new host resumed after "
            f"{events['resumed_seconds']:.3f} s and caught up after "
            f"{events['caught_up_seconds']:.3f} s, with up to {events['most_buffered']:,} events buffered; "
            f"expected share of the outputs: {events['output_share']:.1%}"
        )
