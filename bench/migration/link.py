"""Measure migrations before a deadline on limited TCP links: ``python -m bench.migration.link [--quick] [--page]``.

The old host, the link and the new host are three processes. The link is a proxy in user space
(`bench.migration.limited_link`), and where the system allows network namespaces, also ``tc tbf`` on a virtual cable
between two of them. For each run: the utility that arrived, as a share of the plan of the old host, the share that
arrived in time, this share of the plan for the known bandwidth and latency, and the number of states that arrived after
the deadline. Results go to ``results/migration_link.json`` and docs/transfer.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.queries import RESULTS, store
from bench.section import Section, wrapped
from fastcep.migration import States, capacity_of, plan, receive, scenario, send

ROOT = Path(__file__).resolve().parents[2]
KEY = "the key of the benchmark"
SECTION = Section(
    ROOT / "docs/transfer.md", "<!-- results of bench.migration.link -->", "<!-- end of the results -->"
)  # fmt: skip
_STATE = struct.Struct("<II")
#: Share of the bytes on a cable that states take in frames of one packet: the rest are headers.
_PAYLOAD = 1400 / (1400 + 21 + 66)


class SyntheticStates:
    """Partial states of given sizes, without an operator."""

    kind = "synthetic"
    position = 0

    def __init__(self, states: States) -> None:
        self.states = states

    def base(self) -> bytes:
        return b""

    def encode(self, numbers: Any) -> bytes:
        sizes = self.states.size[numbers].tolist()
        parts = zip(numbers.tolist(), sizes, strict=True)
        return b"".join(_STATE.pack(number, size) + bytes(size - _STATE.size) for number, size in parts)


class SyntheticAssembly:
    """Collects the numbers of states."""

    def __init__(self, base: bytes, options: Mapping[str, Any]) -> None:
        self.numbers: list[int] = []

    def add(self, batch: bytes | memoryview) -> Any:
        numbers, start = [], 0
        while start < len(batch):
            number, size = _STATE.unpack_from(batch, start)
            numbers.append(number)
            start += size
        self.numbers += numbers
        return np.array(numbers, np.int64)

    def build(self) -> list[int]:
        return self.numbers


def states_of(name: str, seed: int) -> States:
    """Return 8,000 states with sizes of trips, or 40 large ones; ``trips10`` and ``large10`` are ten times larger."""
    if name.endswith("10"):
        states = states_of(name.removesuffix("10"), seed)
        return States(10 * states.size, states.utility)
    if name == "large":
        random = np.random.default_rng(seed)
        size = random.lognormal(9.5, 0.7, 40).astype(np.int64) + 100
        return States(size, size**1.5)
    return scenario(utility="skew10", sizes="trips", states=8000, seed=seed)


def new_host(address: str) -> None:
    """Be the new host; print the address, then the states that arrived and how many of them were late."""
    received = receive(
        address, key=KEY, assemblies={"synthetic": SyntheticAssembly},
        on_listening=lambda place: print(json.dumps({"address": place}), flush=True),
    )  # fmt: skip
    print(json.dumps({"states": received.states.tolist(), "late": received.late}), flush=True)


def old_host(address: str, options: dict[str, Any]) -> None:
    """Be the old host; print the report."""
    report = send(SyntheticStates(states_of(options.pop("states"), options.pop("seed"))), address, key=KEY, **options)
    print(json.dumps(report.to_dict() | {"unsent": None, "unconfirmed": None}), flush=True)


@contextmanager
def child(*command: str, prefix: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """Start ``python -m …``, in a network namespace if there is a prefix; end it afterwards."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    arguments = [*prefix, sys.executable, "-m", *command]
    with subprocess.Popen(
        arguments, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    content: dict[str, Any] = json.loads(process.stdout.readline())
    return content


def result(
    case: dict[str, Any], seed: int, new: dict[str, Any], report: dict[str, Any], rate: float, delay: float
) -> dict[str, Any]:
    """Return the measured figures of a run; the last states that arrived are the late ones."""
    states = states_of(case["states"], seed)
    in_time = new["states"][: len(new["states"]) - new["late"]]
    utility, received = float(states.utility[in_time].sum()), float(states.utility[new["states"]].sum())
    ideal = plan(states, capacity_of(f"{case['deadline']}ms", int(rate), f"{int(1e6 * delay)}us")).utility
    return case | {
        "seed": seed, "states_received": len(new["states"]), "late": new["late"],
        "of_plan": received / report["planned_utility"], "in_time": utility / report["planned_utility"],
        "of_ideal": utility / ideal,
        "bandwidth": report["bandwidth"], "latency_ms": report["latency"] / 1e6, "plans": report["plans"],
        "confirmed_states": report["confirmed_states"],
    }  # fmt: skip


def over_proxy(case: dict[str, Any], seed: int) -> dict[str, Any]:
    """Run a case over the proxy."""
    link = {"rate": case["rate"], "delay": case["delay_ms"] / 1e3}
    options = {"states": case["states"], "seed": seed, "deadline": f"{case['deadline']}ms"} | case["options"]
    with child("bench.migration.link", "--new", "127.0.0.1:0") as new:
        link["target"] = said(new)["address"]
        with child("bench.migration.limited_link", json.dumps(link)) as proxy:
            host, port = said(proxy)["address"]
            with child("bench.migration.link", "--old", f"{host}:{port}", json.dumps(options)) as old:
                report, received = said(old), said(new)
    return result(case, seed, received, report, case["rate"], case["delay_ms"] / 1e3)


@contextmanager
def namespaces(rate: int) -> Iterator[bool]:
    """Connect two network namespaces by a cable with a token bucket; yield whether the system allows it."""
    commands = [
        "ip netns add fastcep-old", "ip netns add fastcep-new",
        "ip link add fcold type veth peer name fcnew",
        "ip link set fcold netns fastcep-old", "ip link set fcnew netns fastcep-new",
        "ip -n fastcep-old addr add 10.213.0.1/30 dev fcold", "ip -n fastcep-new addr add 10.213.0.2/30 dev fcnew",
        "ip -n fastcep-old link set fcold up", "ip -n fastcep-new link set fcnew up",
        f"ip netns exec fastcep-old tc qdisc add dev fcold root tbf rate {rate * 8}bit burst 4kb latency 400ms",
    ]  # fmt: skip
    try:
        yield all(
            shutil.which(command.split()[0]) is not None
            and subprocess.run(command.split(), capture_output=True, check=False).returncode == 0
            for command in commands
        )
    finally:
        for name in ("fastcep-old", "fastcep-new"):
            if shutil.which("ip"):
                subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def over_tc(case: dict[str, Any], seed: int) -> dict[str, Any] | None:
    """Run a case over ``tc tbf``; None where that is not allowed."""
    options = {"states": case["states"], "seed": seed, "deadline": f"{case['deadline']}ms"} | case["options"]
    if "bandwidth" in options:
        options["bandwidth"] = int(_PAYLOAD * options["bandwidth"])
    with namespaces(case["rate"]) as allowed:
        if not allowed:
            return None
        old_prefix, new_prefix = (("ip", "netns", "exec", f"fastcep-{side}") for side in ("old", "new"))
        with child("bench.migration.link", "--new", "10.213.0.2:4100", prefix=new_prefix) as new:
            host, port = said(new)["address"]
            command = ("bench.migration.link", "--old", f"{host}:{port}", json.dumps(options))
            with child(*command, prefix=old_prefix) as old:
                report, received = said(old), said(new)
    return result(case, seed, received, report, _PAYLOAD * case["rate"], 0.0)


def cases(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield the cases: about half of the states fit."""
    for name, deadline in (("trips", 5_000), ("large", 4_000)):
        for rate, states in ((100_000, name), (1_000_000, f"{name}10")):
            for delay in (0, 20):
                for options in ({}, {"bandwidth": rate}):
                    yield {
                        "states": states, "rate": rate, "deadline": deadline, "delay_ms": delay, "options": options
                    }  # fmt: skip
                if quick:
                    return


def table(results: Mapping[str, Any]) -> str:
    """Return the stored results as Markdown: the worst run of each case."""
    environment, seeds = results["environment"], {run["seed"] for run in results["runs"]}
    by_case: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in results["runs"]:
        large = run["states"].startswith("large")
        given = "bandwidth" in run["options"]
        by_case.setdefault((large, given, run["link"], run["rate"], run["delay_ms"]), []).append(run)
    text = (
        f"{environment['machine']}, two shared cores, Python {environment['python']}, {environment['date']}; "
        "`python -m bench.migration.link`. Old host, link and new host are processes; the link is a proxy with a token "
        "bucket and a delay, or `tc tbf` between two network namespaces. About half of the states fit before the "
        "deadline (4 and 5 s): 8,000 states with sizes of trips (10 times these at 1 MB/s), or 40 large ones. *Of the "
        "plan*: the utility that arrived, against the first plan that knows the bandwidth. *In time*: without those "
        "after the deadline. *Of the best*: in time, against a plan for the true bandwidth and latency. Worst of "
        f"{len(seeds)} runs each."
    )
    lines = [
        "| states | bandwidth | link | rate | delay | of the plan | in time | of the best | late states, most |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for (large, given, link, rate, delay), runs in sorted(by_case.items(), key=lambda item: str(item[0])):
        worst = [f"{min(run[name] for run in runs):.3f}" for name in ("of_plan", "in_time", "of_ideal")]
        case = ("40 large" if large else "8,000", "given" if given else "measured", link, f"{rate // 1000:,} kB/s")
        late = max(run["late"] for run in runs)
        lines.append(f"| {' | '.join(case)} | {delay} ms | {' | '.join(worst)} | {late} |")
    return wrapped([text, "\n".join(lines)])


def main() -> None:
    """Run all cases, print and store the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--new")
    parser.add_argument("--old", nargs=2)
    parser.add_argument("--quick", action="store_true", help="two cases only; nothing is stored")
    parser.add_argument("--page", action="store_true", help="only write the stored results into the page")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.new:
        return new_host(arguments.new)
    if arguments.old:
        return old_host(arguments.old[0], json.loads(arguments.old[1]))
    if arguments.page:
        SECTION.write(table(json.loads((RESULTS / "migration_link.json").read_text(encoding="utf-8"))))
        return None
    runs = []
    for case in cases(arguments.quick):
        for seed in range(arguments.seeds):
            for link, run in (("proxy", over_proxy), ("tc tbf", over_tc)):
                if link == "proxy" or case["delay_ms"] == 0:
                    measured = run(case, seed)
                    if measured is not None:
                        runs.append({"link": link} | measured)
                        print(json.dumps(runs[-1]), flush=True)
    for link in ("proxy", "tc tbf"):
        of_link = [run for run in runs if run["link"] == link]
        if of_link:
            print(
                f"{link}: {len(of_link)} runs; of the plan, least {min(run['of_plan'] for run in of_link):.4f}, of the "
                f"ideal {min(run['of_ideal'] for run in of_link):.4f}; late states, most "
                f"{max(run['late'] for run in of_link)}"
            )
    if not arguments.quick:
        store("migration_link", {"runs": runs})
        SECTION.write(table(json.loads((RESULTS / "migration_link.json").read_text(encoding="utf-8"))))
    return None


if __name__ == "__main__":
    main()
