"""Write the stored results of `bench.degree` into docs/degree.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.section import Section, wrapped

__all__ = ["SECTION", "text", "write"]

SECTION = Section(
    Path(__file__).resolve().parents[2] / "docs/degree.md", "<!-- results of bench.degree -->",
    "<!-- end of the results -->",
)  # fmt: skip

_POLICIES = {"paper": "the paper's loop", "window": "horizon with the window", "cpu": "CPU rule"}
_DIVISIONS = {"shared": "shared queue", "turn": "windows in turn", "fewest": "windows to the fewest"}


def write(results: dict[str, Any]) -> None:
    """Write the page."""
    SECTION.write(text(results))


def text(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    environment = results["environment"]
    parts = [
        f"{environment['machine']}, two shared cores, Python {environment['python']}, {environment['date']}; "
        "`python -m bench.degree`, all but the live run with simulated time and fixed seeds."
    ]
    for name, of in (
        ("traffic", _traffic), ("approximations", _approximations), ("day", _day), ("streams", _streams),
        ("live", _live),
    ):  # fmt: skip
        if name in results:
            parts += of(results[name])
    return wrapped(parts)


def _traffic(runs: list[dict[str, Any]]) -> list[str]:
    table = [
        "| rate | division | policy | samples | mean service | queue, 95 % | time within 15 | degree | instances |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for of in runs:
        key = tuple(of[name] for name in ("scenario", "division", "policy", "samples", "mean"))
        cells.setdefault(key, []).append(of)
    for (scenario, division, policy, samples, mean), seeds in cells.items():
        queues = ", ".join(f"{of['p95']:,}" for of in seeds)
        within = min(of["within"] for of in seeds)
        low, high = min(of["degree"][0] for of in seeds), max(of["degree"][1] for of in seeds)
        used = sum(of["instances"] for of in seeds) / len(seeds)
        table.append(
            f"| {scenario} | {_DIVISIONS[division]} | {_POLICIES[policy]} | {f'{samples:,}' if samples else ''} | "
            f"{mean:.1f} | {queues} | {within:.1%} | {low} to {high} | {used:.1f} |"
        )
    return [
        "### The traffic scenario",
        "*Queue, 95 %*: its length that was not exceeded at 95 % of the times, for each of three seeds; the limit is "
        "15. *Time within 15*: of the worst seed. *Degree*: smallest and largest number of ready instances. "
        "*Instances*: mean number of all, also those that are starting or leaving. A run begins with 8; *mean service* "
        "is a share of the 99th percentile.",
        "\n".join(table),
        "![Service time by rate](images/degree/profile.svg)",
        "![Queue, constant rate](images/degree/static_queue.svg)",
        "![Instances, constant rate](images/degree/static_instances.svg)",
        "![Queue, rush hour](images/degree/dynamic_queue.svg)",
        "![Instances, rush hour](images/degree/dynamic_instances.svg)",
    ]


def _approximations(cases: dict[str, Any]) -> list[str]:
    table = [
        "| case | degree | predicted | queue, 95 %, three seeds | time within 15, worst |", "|---|---:|---:|---:|---:|",
    ]  # fmt: skip
    for name, seeds in cases.items():
        runs = list(seeds.values())
        table.append(
            f"| {name} | {runs[0]['degree'][0]} | {runs[0]['predicted']:.3f} | "
            f"{', '.join(str(of['p95']) for of in runs)} | {min(of['within'] for of in runs):.1%} |"
        )
    return ["### Bounds", "\n".join(table), "![Queue with bounds](images/degree/approximations.svg)"]


def _day(of: dict[str, Any]) -> list[str]:
    return [
        "### A day",
        "Vehicles whose rate follows that of the bike trips of a Tuesday, windows in turn, 400 samples: the queue had "
        f"at most 15 events for {of['within']:.1%} of the time (95 % of the time at most {of['p95']}), with "
        f"{of['degree'][0]} to {of['degree'][1]} instances, {of['instances']:.1f} on average.",
        "![A day](images/degree/day.svg)",
    ]


def _streams(cases: dict[str, Any]) -> list[str]:
    table = [
        "| arrivals | slices | kept in the next slice | share, mean | share, worst | predicted | instances | used |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name, seeds in cases.items():
        runs = list(seeds.values())
        used: dict[str, int] = {}
        for of in runs:
            for way, count in of["used"].items():
                used[way] = used.get(way, 0) + count
        ways = ", ".join(f"{way} {count}" for way, count in sorted(used.items(), key=lambda item: -item[1]))
        slices = sum(of["slices"] for of in runs)
        known = [of for of in runs if "kept" in of]
        if not known:
            table.append(f"| {name} | {slices} | | | | | | {ways} |")
            continue
        kept, mean, predicted = (sum(of[key] for of in known) / len(known) for key in ("kept", "mean", "predicted"))
        low, high = min(of["instances"][0] for of in known), max(of["instances"][1] for of in known)
        table.append(
            f"| {name} | {slices} | {kept:.0%} | {mean:.3f} | {min(of['worst'] for of in known):.3f} | "
            f"{predicted:.3f} | {low} to {high} | {ways} |"
        )
    return [
        "### Streams that nobody tuned to",
        "The degree is computed from 1,600 times between events, and evaluated on the next 1,600, with a service time "
        "that keeps four instances busy. *Kept*: slices in which at most 15 events were there for 95 % of the time; "
        "*share*: that share of the time. *Used*: family of the arrivals, or `trace`; *not reachable*: slices for "
        "which no number of instances is sufficient, because too many events arrive at once.",
        "\n".join(table),
        "Where the arrivals stay of the same kind, the limit is kept in nine of ten slices or more, and the prediction "
        "is near or below the share that follows. The waves, the growing rate and the Google trace change their rate "
        "from one slice to the next, up to a factor of several hundred in the trace: there the prediction is wrong, "
        "because the last slice says nothing about it. A loop needs a forecast for that, and shorter slices.",
    ]


def _live(of: dict[str, Any]) -> list[str]:
    changes = ", ".join(f"{count} at {time:.0f} s" for time, count in of["changes"])
    return [
        "### Live",
        f"Processes on this machine, {of['events']:,} events in {3 * of['seconds']:.0f} s, at {of['rates'][0]:,}, "
        f"{of['rates'][1]:,} and again {of['rates'][2]:,} events/s; one instance takes "
        f"{of['events_per_second_of_one']:,}. Number of ready processes: 1, then {changes}. At most "
        f"{of['buffer_limit']:,} events should wait; 95 % of the time at most "
        f"{', '.join(f'{at:,}' for at in of['p95'])} waited in the three parts, and never more than "
        f"{of['most']:,}. The {of['matches']:,} matches are "
        f"{'those of one engine, in the same order' if of['equal'] else 'NOT those of one engine'}.",
        "![Live](images/degree/live.svg)",
    ]
