"""``python -m matrix``: draw many cases, and write or check the table of what was drawn together."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed

from matrix.cases import Case, cases, check
from matrix.draws import independent
from matrix.page import PAGE, page
from matrix.tally import Tally


def main() -> int:
    """Run the command; the exit status is 1 if a pair was neither drawn nor refused."""
    parser = argparse.ArgumentParser(prog="python -m matrix", description=__doc__)
    parser.add_argument("--examples", type=int, default=20_000, help="at most so many cases")
    parser.add_argument("--seed", type=int, default=1, help="of the first 1,000 cases; later ones count up")
    parser.add_argument("--minutes", type=float, default=1e9, help="CPU time after which no further round begins")
    parser.add_argument("--kernels", action="store_true", help="run conditions as generated kernels")
    parser.add_argument("--write", action="store_true", help="write docs/matrix.md")
    arguments = parser.parse_args()
    os.environ["FASTCEP_JIT"] = "1" if arguments.kernels else "0"
    tally, first, cases_run = Tally(), time.process_time(), 0
    while cases_run < arguments.examples and time.process_time() - first < 60 * arguments.minutes:
        count = min(1000, arguments.examples - cases_run)
        cases_run += draw(arguments.seed + cases_run // 1000, count, tally, arguments.kernels)
    minutes = (time.process_time() - first) / 60
    print(f"{cases_run:,} cases of {tally.examples:,} queries, {tally.matches:,} matches, {minutes:.1f} CPU minutes")
    empty = tally.empty()
    for one, other in empty:
        print(f"neither drawn nor refused: {one} × {other}")
    if arguments.write:
        Path(PAGE).write_text(page(tally, cases_run, arguments.seed), encoding="utf-8")
    return int(bool(empty))


def draw(number: int, count: int, tally: Tally, kernels: bool) -> int:
    """Draw and check so many cases with a seed; the first difference ends the run with its case."""
    drawn = 0

    @seed(number)
    @independent(count, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(cases())
    def run(case: Case) -> None:
        nonlocal drawn
        check(case, tally, kernels)
        drawn += 1

    run()
    return drawn


if __name__ == "__main__":
    sys.exit(main())
