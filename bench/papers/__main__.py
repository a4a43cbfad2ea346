"""Run figures of the papers, all by default, and write docs/reproduction.md."""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.papers import PAPERS
from bench.papers.page import main as write
from bench.papers.runs import run
from bench.papers.stored import save


def main() -> None:
    """Run, store, draw and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.papers", description=__doc__)
    parser.add_argument("paper", nargs="?", choices=list(PAPERS), help="which paper; all by default")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="which of its figures; all by default")
    parser.add_argument("--events", type=int, help="how many, in place of what each figure has")
    parser.add_argument("--seeds", type=int, help="how many, in place of what each figure has")
    parser.add_argument("--reports", type=Path, help="folder for the whole report of each run")
    options = parser.parse_args()
    figures = [figure for name in ([options.paper] if options.paper else PAPERS) for figure in PAPERS[name].figures]
    names = [figure.name for figure in figures]
    for name in options.figures:
        if name not in names:
            parser.error(f"no figure {name!r}; {options.paper} has {', '.join(names)}")
    for figure in figures:
        if not options.figures or figure.name in options.figures:
            save(figure.file, run(figure, events=options.events, seeds=options.seeds, reports=options.reports))
    write()


if __name__ == "__main__":
    main()
