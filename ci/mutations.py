"""Disable one clause in one path at a time, and show that the matrix turns red: ``mutations.py [NAME …]``.

Each mutant of ``mutants.toml`` is a small change that a programmer could make by mistake: a clause is forgotten in
one of the stores, indexes, slices, snapshots or threads that has to heed it. The change is made in a copy of the
tree, where unit tests of plans run, then the matrix with the default number of examples, then the tests that are
about single paths. A mutant that none of them notices fails this script.
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


#: What runs until a test fails: first what takes seconds.
TESTS = {
    "by unit tests of plans": [
        "tests/plan/test_factorised.py", "tests/plan/test_partition_key.py", "tests/plan/test_slicing.py",
    ],
    "by the matrix": ["tests/test_matrix.py", "-k", "test_focus or test_bytecode"],
    "by tests of the path": [
        "tests/engine/test_partitions.py", "tests/engine/test_threads_properties.py",
        "tests/engine/test_stores_properties.py", "tests/engine/test_store_trial.py",
        "tests/engine/state/test_keygroups.py", "tests/engine/state/test_moving_properties.py",
        "tests/engine/state/test_snapshots.py",
        "tests/spark/test_slices.py",
    ],
}  # fmt: skip

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
    outcomes = {mutant.name: outcome(mutant) for mutant in chosen}
    survivors = [name for name, how in outcomes.items() if how is None]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed")
    for tests in TESTS:
        print(f"{sum(how == tests for how in outcomes.values())} {tests}")
    for name in survivors:
        print(f"survived: {name}")
    return int(bool(survivors))


def outcome(mutant: Mutant) -> str | None:
    """Make a mutant in a copy of the tree; return the group of tests that kills it, None if it survives."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fastcep-mutant-") as folder:
        tree = Path(folder) / "tree"
        others = shutil.ignore_patterns(".git", ".venv", "build", "bench", "docs", ".*_cache")
        shutil.copytree(ROOT, tree, ignore=others)
        path = tree / mutant.file
        path.write_text(path.read_text(encoding="utf-8").replace(mutant.before, mutant.after), encoding="utf-8")
        killer = next((how for how, tests in TESTS.items() if fails(mutant, tree, tests)), None)
    verdict = f"killed {killer}" if killer else "SURVIVED"
    print(f"{mutant.name}: {verdict} ({time.monotonic() - begin:.0f} s)", flush=True)
    return killer


def fails(mutant: Mutant, tree: Path, tests: list[str]) -> bool:
    """Return whether a test fails or crashes."""
    environment = {"FASTCEP_EXAMPLES": "200", **os.environ, "PYTHONPATH": str(tree), "FASTCEP_SHRINK": "0"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode > 1:
        raise SystemExit(f"{mutant.name}: the tests could not run\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
