"""Disable one clause in one path at a time, and show that the matrix turns red: ``mutations.py [NAME …]``.

Each mutant of ``mutants.toml`` is a small change that a programmer could make by mistake: a clause is forgotten in one
of the stores, indexes, slices, snapshots or threads that has to heed it. The change is made in a copy of the tree, and
``tests/test_matrix.py`` runs there with the default number of examples. A mutant that no example notices fails this
script.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Mutant:
    """A change of one file: the text ``before``, which occurs there once, becomes ``after``."""

    name: str
    file: str
    before: str
    after: str


MUTANTS = [Mutant(**one) for one in tomllib.loads((ROOT / "ci/mutants.toml").read_text(encoding="utf-8"))["mutant"]]


def main() -> int:
    """Run the command; the exit status is 1 if a mutant survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only mutants whose names contain one of these")
    parser.add_argument("--list", action="store_true", help="list the mutants and check that their texts are found")
    arguments = parser.parse_args()
    chosen = [m for m in MUTANTS if not arguments.names or any(part in m.name for part in arguments.names)]
    wrong = [m for m in chosen if (ROOT / m.file).read_text(encoding="utf-8").count(m.before) != 1]
    for mutant in wrong:
        print(f"{mutant.name}: the text to be changed does not occur once in {mutant.file}")
    if arguments.list or wrong:
        print("\n".join(m.name for m in chosen))
        return int(bool(wrong))
    survivors = [mutant.name for mutant in chosen if not killed(mutant)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed")
    for name in survivors:
        print(f"survived: {name}")
    return int(bool(survivors))


def killed(mutant: Mutant) -> bool:
    """Make a mutant in a copy of the tree and tell whether a test fails."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fastcep-mutant-") as folder:
        tree = Path(folder) / "tree"
        others = shutil.ignore_patterns(".git", ".venv", "build", "bench", "docs", ".*_cache")
        shutil.copytree(ROOT, tree, ignore=others)
        path = tree / mutant.file
        path.write_text(path.read_text(encoding="utf-8").replace(mutant.before, mutant.after), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(tree), "FASTCEP_SHRINK": "0"}
        test = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
        chosen = ["tests/test_matrix.py", "-k", "test_focus or test_bytecode"]
        done = subprocess.run([*test, *chosen], cwd=tree, env=environment, capture_output=True, text=True)
    crashed = done.returncode < 0  # by a signal
    verdict = "killed" if crashed else {0: "SURVIVED", 1: "killed"}.get(done.returncode)
    if verdict is None:
        raise SystemExit(f"{mutant.name}: the tests could not run\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    print(f"{mutant.name}: {verdict} ({time.monotonic() - begin:.0f} s)", flush=True)
    return verdict == "killed"


if __name__ == "__main__":
    sys.exit(main())
