"""Check the header of a snapshot: its fields and their values (docs/reliability.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastcep.engine.state.keygroups import GROUPS
from fastcep.engine.state.validation import MOST_EVENTS, NUMBERS
from fastcep.events.units import INT64_MAX, INT64_MIN
from fastcep.overload.costs import OPERATIONS
from fastcep.stored import (
    AMOUNT,
    COUNT,
    FLAG,
    INT64,
    TEXT,
    Misfit,
    anything,
    by_name,
    listed,
    one_of,
    or_null,
    record,
    sequence,
    whole,
)  # fmt: skip

__all__ = ["check_header"]

_PRICES = record({"name": TEXT}, dict.fromkeys(OPERATIONS, AMOUNT))

_OPTIONS = record(
    {
        "attributes": FLAG,
        "allowed_lateness": or_null(TEXT),
        "idle_timeout": or_null(TEXT),
        "late_limit": COUNT,
        "memory_limit": or_null(COUNT),
        "on_memory_limit": TEXT,
        "timed_out": FLAG,
        "timed_out_limit": COUNT,
    },
    {
        "store": TEXT,
        "index": TEXT,
        "latency_bound": or_null(AMOUNT),
        "cost_table": _PRICES,
        "clock": one_of("virtual", "wall"),
    },
)

_QUERY = record(
    {"since": whole(0, MOST_EVENTS), "numbers": record(NUMBERS), "shedding": anything},
    {"slide": or_null(INT64), "bounds": listed(record(NUMBERS))},
)

_ORDER = record({
    "watermark": whole(INT64_MIN, INT64_MAX + 1),
    "arrived": whole(0, MOST_EVENTS),
    "late": COUNT,
    "sources": listed(sequence(or_null(TEXT), or_null(INT64))),
})  # fmt: skip

_HEADER = record(
    {
        "identity": TEXT,
        "text": TEXT,
        "options": _OPTIONS,
        "groups": or_null(listed(whole(0, GROUPS - 1))),
        "position": whole(0, MOST_EVENTS),
        "time": or_null(INT64),
        "sequence": or_null(INT64),
        "queries": listed(_QUERY),
    },
    {
        "stores": listed(one_of("rows", "factorised")),
        "classes": listed(or_null(listed(anything))),
        "functions": by_name(TEXT),
        "foreign_events": COUNT,
        "order": _ORDER,
        "control": or_null(by_name(anything)),  # checked by the overload control
    },
)


def check_header(header: Mapping[str, Any]) -> None:
    """Check that an engine may have written a header.

    Raises
    ------
    Misfit
        A field is invalid. The message has its name, its value and the expected value.
    """
    _HEADER(dict(header), "")
    groups, position, query_count = header["groups"], header["position"], len(header["queries"])
    if groups is not None and groups != sorted(set(groups)):
        raise Misfit("groups", f"{groups}", "each group once, in ascending order")
    for name in ("stores", "classes"):
        if len(header.get(name, header["queries"])) != query_count:
            raise Misfit(name, f"{len(header[name])} entries", f"{query_count}, one for each query")
    if position and header["time"] is None:
        raise Misfit("time", "null", f"a time, as there were {position} events")
    latest = max(header["time"] or 0, 0)  # a matcher that has seen no event is at time 0
    if "order" in header:
        latest = max(latest, header["order"]["watermark"])
    for number, query in enumerate(header["queries"]):
        if query["since"] > position:
            raise Misfit(f"queries[{number}].since", f"{query['since']}", f"at most the position, {position}")
        matchers = {"numbers": query["numbers"]}
        matchers |= {f"bounds[{bound}]": numbers for bound, numbers in enumerate(query.get("bounds", ()))}
        for name, numbers in matchers.items():
            prefix = f"queries[{number}].{name}"
            if numbers["last"] > max(position - 1, 0):  # 0 before the first event
                raise Misfit(f"{prefix}.last", f"{numbers['last']}", f"less than the position, {position}")
            for field in ("now", "blind"):
                if numbers[field] > latest:
                    raise Misfit(f"{prefix}.{field}", f"{numbers[field]}", f"at most {latest}, the time")
