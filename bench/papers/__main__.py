"""Run figures of the papers, all by default, and write docs/reproduction.md."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.papers import PAPERS
from bench.papers.page import main as write
from bench.papers.runs import run
from bench.papers.stored import save


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, store, draw and write; by what stands on the command line, unless arguments are given."""
    parser = argparse.ArgumentParser(prog="python -m bench.papers", description=__doc__)
    parser.add_argument("paper", nargs="?", choices=list(PAPERS), help="which paper; all by default")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="which of its figures; all by default")
    parser.add_argument("--events", type=int, help="how many, in place of what each figure has")
    parser.add_argument("--seeds", type=int, help="how many, in place of what each figure has")
    parser.add_argument("--jobs", type=int, default=1, help="how many figures are run beside each other")
    parser.add_argument("--reports", type=Path, help="folder for the whole report of each run")
    options = parser.parse_args(arguments)
    figures = [figure for name in ([options.paper] if options.paper else PAPERS) for figure in PAPERS[name].figures]
    names = [figure.name for figure in figures]
    for name in options.figures:
        if name not in names:
            parser.error(f"no figure {name!r}; {options.paper} has {', '.join(names)}")
    wanted = [figure for figure in figures if not options.figures or figure.name in options.figures]
    more = {"events": options.events, "seeds": options.seeds, "reports": options.reports}
    if options.jobs > 1:
        one = import_module("bench.papers.__main__")._one  # other processes cannot find that of the module that is run
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            list(pool.map(partial(one, **more), [(figure.paper, figure.name) for figure in wanted]))
    else:
        for figure in wanted:
            _one((figure.paper, figure.name), **more)
    write()


def _one(which: tuple[str, str], **more: Any) -> None:
    """Run and store a figure; by its name, as a figure itself cannot be given to another process."""
    paper, name = which
    figure = next(figure for figure in PAPERS[paper].figures if figure.name == name)
    save(figure.file, run(figure, **more))


if __name__ == "__main__":
    main()
