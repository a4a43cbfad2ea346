"""``fastcep calibrate``: measure the cost of the counted operations on this machine."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from fastcep.arrivals.calibration import COUNTERS, Calibration
from fastcep.arrivals.calibration import calibrate as measure
from fastcep.io.write.target import check_target

__all__ = ["calibrate"]


def calibrate(*, output: Path | None = None, seconds: float = 10.0, json: bool = False) -> Calibration:
    """Measure the cost table, print it and write it to a file.

    Parameters
    ----------
    output
        JSON file to write; its name without the suffix names the table. None: write no file.
    seconds
        Duration of the measurement in seconds.
    json
        Print the JSON of the file instead of tables.

    Raises
    ------
    ValidationError
        If an option is wrong, the file cannot be written, or the generated kernels are not in use.
    """
    if output is not None:
        check_target(output)
    calibration = measure("calibrated" if output is None else output.stem, seconds)
    if output is not None:
        calibration.table.write(output, calibration.about)
    if json:
        print(calibration.table.as_json(calibration.about))
    else:
        _print(calibration, output)
    return calibration


def _print(calibration: Calibration, output: Path | None) -> None:
    console = Console()
    console.print(_costs(calibration))
    console.print(_runs(calibration))
    cores, cpu = calibration.about["machine"]["cores"], calibration.about["machine"]["cpu"]
    print(f"median relative error {calibration.error:.1%} over {len(calibration.runs)} runs on {cpu}, {cores} cores")
    print(f"hash {calibration.table.hash}" + ("" if output is None else f", written to {output}"))


def _costs(calibration: Calibration) -> Table:
    table = Table("operation", title="Nanoseconds per operation")
    table.add_column("ns", justify="right")
    table.add_column("")
    for key, value in calibration.table.nanoseconds.items():
        table.add_row(key, f"{value:,.3f}", "fitted" if key in COUNTERS else "measured separately")
    return table


def _runs(calibration: Calibration) -> Table:
    table = Table("query", title="Timed queries")
    for name in ("ms", "fitted", "error"):
        table.add_column(name, justify="right")
    for run, fitted in zip(calibration.runs, calibration.predicted, strict=True):
        error = fitted / run.nanoseconds - 1
        table.add_row(run.name, f"{run.nanoseconds / 1e6:.2f}", f"{fitted / 1e6:.2f}", f"{error:+.0%}")
    return table
