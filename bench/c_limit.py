"""Hand-written C to measure against, ``limit/limit.c``: build and run it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fastcep.datasets import write_ds1_csv

SOURCE = Path(__file__).parent / "limit" / "limit.c"
RING_OVERFLOW = 2  # its exit code


@dataclass(frozen=True)
class Run:
    """The median CPU time of some repetitions in one process, in seconds; the events and the matches."""

    seconds: float
    events: int
    matches: int


class CLimit:
    """The program, and so many events of DS1 with seed 7; compiled again with longer rings when a window needs them."""

    def __init__(self, events: int = 1_000_000) -> None:
        self._folder = tempfile.TemporaryDirectory()  # goes with this object
        self._csv = Path(self._folder.name, "ds1.csv")
        write_ds1_csv(self._csv, events, 7)
        self._programs: dict[int, Path] = {}
        self._rings: dict[tuple[str, int], int] = {}  # by query and window

    def run(self, query: str, repetitions: int = 3, window_us: int = 0) -> Run:
        """Run a query from rows in memory to matches in memory; without a window that of the query."""
        ring = self._rings.setdefault((query, window_us), 32)
        command: list[str | Path] = [self._program(ring), self._csv, query, str(repetitions), "0", str(window_us)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == RING_OVERFLOW:
            self._rings[query, window_us] = 2 * ring
            return self.run(query, repetitions, window_us)
        done.check_returncode()
        said = {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)\b", done.stdout)}
        return Run(said["match_cpu_med"], int(said["n"]), int(said["matches"]))

    def _program(self, ring: int) -> Path:
        if ring not in self._programs:
            path = Path(self._folder.name, f"limit{ring}")
            command = ["cc", "-O3", "-march=native", "-w", f"-DRB={ring}", "-o", str(path), str(SOURCE)]
            subprocess.run(command, check=True)
            self._programs[ring] = path
        return self._programs[ring]
