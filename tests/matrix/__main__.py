"""``python -m matrix``: draw many cases, and write or check the table of the combinations that were drawn."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import strategies as st

from matrix.cases import FOCUSES, Case, cases, check
from matrix.draws import independent
from matrix.page import PAGE, page
from matrix.tally import Tally


def main() -> int:
    """Run the command; the exit status is 1 if a pair was neither drawn nor refused."""
    parser = argparse.ArgumentParser(prog="python -m matrix", description=__doc__)
    more = "cases that run on bytecode; up to twice as many where a pair has not been drawn by then"
    parser.add_argument("--examples", type=int, default=20_000, help=more)
    parser.add_argument("--kernels", type=int, default=600, help="cases that run on generated kernels")
    parser.add_argument("--seed", type=int, default=1, help="of the first 1,000 cases; later ones count up")
    parser.add_argument("--write", action="store_true", help="write docs/matrix.md")
    arguments = parser.parse_args()
    tally = Tally()
    runs = [
        f"{rounds(arguments.seed, arguments.kernels, arguments.kernels, tally, kernels=True)} on generated kernels",
        f"{rounds(arguments.seed, arguments.examples, 2 * arguments.examples, tally, kernels=False)} on bytecode",
    ]
    text = f"{' and '.join(runs)}, seed {arguments.seed}: {tally.queries:,} queries with {tally.matches:,} matches."
    print(text)
    if arguments.write:
        Path(PAGE).write_text(page(tally, text), encoding="utf-8")
    empty = tally.empty()
    for one, other in empty:
        print(f"neither drawn nor refused: {one} × {other}")
    return int(bool(empty))


def rounds(number: int, least: int, most: int, tally: Tally, kernels: bool) -> str:
    """Draw and check cases, 1,000 for each seed: at least ``least``, then up to ``most`` while a pair is missing.

    Returns a description of the run.
    """
    os.environ["FASTCEP_JIT"] = "1" if kernels else "0"
    first, drawn = os.times(), 0
    while drawn < least or (drawn < most and tally.empty()):
        end = least if drawn < least else most
        drawn += draw(number + drawn // 1000, min(1000, end - drawn), tally, kernels)
        print(f"{drawn:,} of {end:,} cases", file=sys.stderr)
    seconds = sum(os.times()[:4]) - sum(first[:4])  # including those of the compiler's processes
    return f"{drawn:,} cases ({seconds / 60:.1f} CPU minutes)"


def draw(number: int, count: int, tally: Tally, kernels: bool) -> int:
    """Draw and check ``count`` cases with a seed; the first difference ends the run and shows its case."""
    drawn = 0

    @seed(number)
    @independent(count, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(cases() if kernels else st.sampled_from([None, None, None, *FOCUSES]).flatmap(cases))
    def run(case: Case) -> None:
        nonlocal drawn
        check(case, tally, kernels)
        drawn += 1

    run()
    return drawn


if __name__ == "__main__":
    sys.exit(main())
