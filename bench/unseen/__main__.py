"""Measure load shedding on streams that the shedders were not tuned to, and write docs/unseen.md.

``real``     data sets of ``--shared`` and of the package, on the virtual clock
``random``   streams and queries drawn from ``--seed``, on the virtual clock
``kinds``    streams and queries of several kinds, drawn from ``--seed``, on the virtual clock
``wall``     arrival rates above the maximum on the wall clock, for DS1 and three real queries
``pauses``   a consumer that pauses once, at 60 % of the maximum rate, on the wall clock
``ready``    the cost of being ready to shed, while there is no overload
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.unseen import wall
from bench.unseen.cells import COSTS, PLAYED_TIME, available_shedders, run_case
from bench.unseen.kinds import COMPARED, kind_case, kind_names, run_kind
from bench.unseen.kinds import EVENTS as KIND_EVENTS
from bench.unseen.page import main as write_page
from bench.unseen.random_cases import CASES, random_case
from bench.unseen.random_cases import EVENTS as RANDOM_EVENTS
from bench.unseen.ready import ready
from bench.unseen.real import EVENTS as REAL_EVENTS
from bench.unseen.real import REAL, WINDOWED, real_case
from bench.unseen.results import save_case

PARTS = ("real", "random", "kinds", "wall", "pauses", "ready")
ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT / os.environ.get("FASTCEP_SHARED", "../shared") / "data"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the named parts, by default all; arguments default to those of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.unseen", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, action="append", help="part to run (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="seed of random streams and of the shedders (default: 1)")
    parser.add_argument("--events", type=int, help="number of events of a case")
    parser.add_argument("--cases", nargs="+", help="names of real cases, or numbers of random ones (default: all)")
    parser.add_argument(
        "--shedders", nargs="+", help="on the virtual clock: run only these, and keep the stored runs of the others"
    )
    parser.add_argument(
        "--costs", choices=tuple(COSTS), nargs="+",
        help="of real and random cases: run only with these cost tables, and keep the stored runs with the others",
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a run on the wall clock (default: 5)")
    parser.add_argument("--jobs", type=int, default=1, help="number of cases to run in parallel on the virtual clock")
    parser.add_argument("--shared", type=Path, default=SHARED, help=f"folder of the data sets (default: {SHARED})")
    options = parser.parse_args(arguments)
    known = list(dict.fromkeys((*available_shedders(), *COMPARED)))
    if unknown := [name for name in options.shedders or () if name not in known]:
        parser.error(f"--shedders: unknown {', '.join(unknown)}; known: {', '.join(known)}")
    for part in options.part or PARTS:
        if part in ("real", "random", "kinds"):
            _virtual(part, options)
        elif part == "ready":
            for name, result in ready(options.shared, options.seed):
                save_case(part, options.seed, name, result)
        else:
            run = wall.rates if part == "wall" else wall.pauses
            for name, result in run(options.shared, options.seed, options.seconds):
                save_case(part, options.seed, name, result)
    write_page()


def _virtual(part: str, options: argparse.Namespace) -> None:
    """Run the cases of a part, in several processes if there are several jobs, and store each when it is done."""
    names = list(REAL) if part == "real" else kind_names() if part == "kinds" else [str(n) for n in range(CASES)]
    names = [name for name in names if not options.cases or name in options.cases]
    settings = {"part": part, "seed": options.seed, "events": options.events, "shared": options.shared,
                "shedders": options.shedders, "costs": options.costs}  # fmt: skip
    if options.jobs == 1:
        for name in names:
            _store(part, options.seed, run_named(name, **settings))
        return
    # Other processes can only import the function from the module's real name, not from `__main__`.
    run = partial(import_module("bench.unseen.__main__").run_named, **settings)
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(run, name) for name in names]):
            _store(part, options.seed, future.result())


def _store(part: str, seed: int, named: tuple[str, dict[str, Any] | None]) -> None:
    name, result = named
    if result is None:
        print(f"{part} {name}: not run, as its data is missing", flush=True)
        return
    print(f"{part} {name}: {len(result['rows'])} runs in {result.pop('seconds'):.0f} s", flush=True)
    save_case(part, seed, name, result)


def run_named(
    name: str, *, part: str, seed: int, events: int | None, shared: Path, shedders: Sequence[str] | None = None,
    costs: Sequence[str] | None = None,
) -> tuple[str, dict[str, Any] | None]:
    """Run a case of the virtual clock; return its name, and its result or None if its data is missing."""
    logging.getLogger("fastcep.shedding").setLevel(logging.ERROR)
    begin = time.perf_counter()
    if part == "kinds":
        events = events or KIND_EVENTS
        case = real_case(name, shared, events) if name in WINDOWED else kind_case(seed, name, events)
        if case is None:
            return name, None
        result = run_kind(case, seed, shedders)
        return (name, None) if result is None else (case.name, {**result, "seconds": time.perf_counter() - begin})
    if part == "real":
        case = real_case(name, shared, events or REAL_EVENTS)
    else:
        case = random_case(seed, int(name), events or RANDOM_EVENTS)
    if case is None:
        return name, None
    result = run_case(case, (seed,), shedders or (), costs=costs or tuple(COSTS), duration=PLAYED_TIME)
    return case.name, {**result, "seconds": time.perf_counter() - begin}


if __name__ == "__main__":
    main()
