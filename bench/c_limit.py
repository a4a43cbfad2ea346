"""Build and run ``limit/limit.c``, the hand-written C program that fastcep is measured against."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fastcep.datasets import write_ds1_csv

SOURCE = Path(__file__).parent / "limit" / "limit.c"
RING_OVERFLOW = 2  # exit code of the program


@dataclass(frozen=True)
class Run:
    """Median CPU time of several repetitions in one process, in seconds, and the numbers of events and matches."""

    seconds: float
    events: int
    matches: int


class CLimit:
    """The C program over DS1 with seed 7; it is compiled with longer ring buffers when a window needs them."""

    def __init__(self, events: int = 1_000_000) -> None:
        self._folder = tempfile.TemporaryDirectory()  # deleted with this object
        self._csv = Path(self._folder.name, "ds1.csv")
        write_ds1_csv(self._csv, events, 7)
        self._programs: dict[int, Path] = {}
        self._rings: dict[tuple[str, int], int] = {}  # by query and window

    def run(self, query: str, repetitions: int = 3, window_us: int = 0) -> Run:
        """Run a query from rows in memory to matches in memory; ``window_us=0`` keeps the window of the query."""
        ring = self._rings.setdefault((query, window_us), 32)
        command: list[str | Path] = [self._program(ring), self._csv, query, str(repetitions), "0", str(window_us)]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode == RING_OVERFLOW:
            self._rings[query, window_us] = 2 * ring
            return self.run(query, repetitions, window_us)
        process.check_returncode()
        values = {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)\b", process.stdout)}
        return Run(values["match_cpu_med"], int(values["n"]), int(values["matches"]))

    def _program(self, ring: int) -> Path:
        if ring not in self._programs:
            path = Path(self._folder.name, f"limit{ring}")
            command = ["cc", "-O3", "-march=native", "-w", f"-DRB={ring}", "-o", str(path), str(SOURCE)]
            subprocess.run(command, check=True)
            self._programs[ring] = path
        return self._programs[ring]
