"""Run figures of the papers (by default all) and write docs/reproduction.md."""

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
from bench.papers.page import main as write_page
from bench.papers.results import save
from bench.papers.runs import run_figure, run_references


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store the figures, draw them and write the page; arguments default to those of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.papers", description=__doc__)
    parser.add_argument("paper", nargs="?", choices=list(PAPERS), help="the paper (default: all)")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="its figures (default: all)")
    parser.add_argument("--events", type=int, help="number of events (default: that of each figure)")
    parser.add_argument("--seeds", type=int, help="number of seeds (default: that of each figure)")
    parser.add_argument("--jobs", type=int, default=1, help="number of figures to run in parallel")
    parser.add_argument("--reports", type=Path, help="folder for the full report of each run")
    parser.add_argument(
        "--references", action="store_true", help="run only the references; keep the stored results of the strategies"
    )
    options = parser.parse_args(arguments)
    if options.references and (options.events or options.seeds or options.reports):
        parser.error("--references runs the references on the stored events; omit --events, --seeds and --reports")
    figures = [figure for name in ([options.paper] if options.paper else PAPERS) for figure in PAPERS[name].figures]
    names = [figure.name for figure in figures]
    for name in options.figures:
        if name not in names:
            parser.error(f"no figure {name!r}; {options.paper} has {', '.join(names)}")
    selected = [figure for figure in figures if not options.figures or figure.name in options.figures]
    if options.references:
        for figure in selected:
            if any(part.references for part in figure.parts):
                save(figure.stem, run_references(figure), keep_environment=True)
        write_page()
        return
    settings = {"events": options.events, "seeds": options.seeds, "reports": options.reports}
    parallel = [figure for figure in selected if options.jobs > 1 and not figure.runs_alone]
    if parallel:
        # Other processes can only import the function from the module's real name, not from `__main__`.
        run_and_save = import_module("bench.papers.__main__")._run_and_save
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            list(pool.map(partial(run_and_save, **settings), [(figure.paper, figure.name) for figure in parallel]))
    for figure in selected:
        if figure not in parallel:
            _run_and_save((figure.paper, figure.name), **settings)
    write_page()


def _run_and_save(paper_and_name: tuple[str, str], **settings: Any) -> None:
    """Run and store a figure, given by name because a figure itself cannot be pickled."""
    paper, name = paper_and_name
    figure = next(figure for figure in PAPERS[paper].figures if figure.name == name)
    save(figure.stem, run_figure(figure, **settings))


if __name__ == "__main__":
    main()
