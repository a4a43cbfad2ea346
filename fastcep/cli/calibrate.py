"""``fastcep calibrate``: what the counted operations cost on this machine."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from fastcep.arrivals.calibration import COUNTERS, Calibration
from fastcep.arrivals.calibration import calibrate as carry_out
from fastcep.io.write.target import check_target

__all__ = ["calibrate"]


def calibrate(*, output: Path | None = None, seconds: float = 10.0, json: bool = False) -> Calibration:
    """Measure, print the numbers and write them.

    Parameters
    ----------
    output
        The JSON file to write, after which the table is named; None writes none.
    seconds
        How long to measure.
    json
        Print what the file would hold instead of tables.

    Raises
    ------
    ValidationError
        If an option is wrong, the file cannot be written, or the generated kernels are not in use.
    """
    if output is not None:
        check_target(output)
    found = carry_out("calibrated" if output is None else output.stem, seconds)
    if output is not None:
        found.table.write(output, found.about)
    if json:
        print(found.table.as_json(found.about))
    else:
        _show(found, output)
    return found


def _show(found: Calibration, output: Path | None) -> None:
    console = Console()
    console.print(_costs(found))
    console.print(_runs(found))
    cores, cpu = found.about["machine"]["cores"], found.about["machine"]["cpu"]
    print(f"median relative error {found.error:.1%} over {len(found.runs)} runs on {cpu}, {cores} cores")
    print(f"hash {found.table.hash}" + ("" if output is None else f", written to {output}"))


def _costs(found: Calibration) -> Table:
    table = Table("operation", title="Nanoseconds per operation")
    table.add_column("ns", justify="right")
    table.add_column("")
    for key, value in found.table.nanoseconds.items():
        table.add_row(key, f"{value:,.3f}", "fitted" if key in COUNTERS else "measured apart")
    return table


def _runs(found: Calibration) -> Table:
    table = Table("query", title="What was timed")
    for name in ("ms", "fitted", "error"):
        table.add_column(name, justify="right")
    for run, told in zip(found.runs, found.predicted, strict=True):
        error = told / run.nanoseconds - 1
        table.add_row(run.name, f"{run.nanoseconds / 1e6:.2f}", f"{told / 1e6:.2f}", f"{error:+.0%}")
    return table
