"""Compute the figures of docs/migration.md: ``python -m bench.migration [PART …]``, then the page and its pictures.

Parts: ``over_time`` (Fig. 4(a) and (b) of paper 4), ``shares``, ``comparison`` (Fig. 4(c) and (d)), ``run_times``,
``freeze`` (all four nodes), ``real_data`` (the queries of the paper; needs the data of `real`); by default
all. Results go to ``results/migration.json``; ``--page`` only writes the page and pictures from them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from bench.migration import draw, page
from bench.migration.figures import comparison, freeze, over_time, run_times, shares
from bench.migration.real import real_data
from bench.queries import RESULTS, store

PARTS: dict[str, Callable[[], Any]] = {
    "over_time": over_time, "shares": shares, "comparison": comparison, "run_times": run_times,
    "freeze": freeze, "real_data": real_data,
}  # fmt: skip


def main() -> None:
    """Compute parts, write the results, the page and the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--page", action="store_true", help="only write the stored results into the page")
    options = parser.parse_args()
    path = RESULTS / "migration.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    if not options.page:
        results |= {part: PARTS[part]() for part in options.parts or PARTS}
        results.pop("environment", None)
        store("migration", results)
        results = json.loads(path.read_text())
    draw.draw(results)
    page.write(results)


if __name__ == "__main__":
    main()
