"""Check that the tests kill every mutant: ``mutations.py [NAME …]``.

Each mutant of ``mutants.toml`` is a plausible programming error: one of the stores, indexes, slices, snapshots or
threads ignores a clause. The change is made in a copy of the tree. There, the unit tests of plans run, then the matrix
with the default number of examples, then the tests of single paths. The script fails if a mutant passes all tests.
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
    """Change of one file: the text ``before``, which occurs in it once, is replaced by ``after``."""

    name: str
    file: str
    before: str
    after: str


#: Groups of tests, which run in this order until a test fails.
TESTS = {
    "by unit tests of plans": [
        "tests/plan/test_factorised.py", "tests/plan/test_partition_key.py", "tests/plan/test_slicing.py",
        "tests/plan/test_make.py",
    ],
    "by the matrix": ["tests/test_matrix.py", "-k", "test_focus or test_bytecode"],
    "by tests of the path": [
        "tests/_core/program/test_event_sets.py", "tests/_core/factorised", "tests/engine/test_selection.py",
        "tests/engine/test_silence.py", "tests/engine/test_running_aggregates.py",
        "tests/engine/test_previous.py",
        "tests/engine/test_timestamp_attributes.py",
        "tests/engine/test_element_references.py",
        "tests/engine/test_partitions.py", "tests/engine/test_threads_properties.py",
        "tests/engine/test_stores_properties.py", "tests/engine/test_store_trial.py", "tests/engine/test_sleep.py",
        "tests/engine/test_signals.py", "tests/engine/test_run_methods.py",
        "tests/engine/state/test_keygroups.py", "tests/engine/state/test_moving_properties.py",
        "tests/engine/state/test_snapshots.py", "tests/engine/state/test_refused_snapshots.py",
        "tests/engine/state/test_partial_matches.py",
        "tests/overload/test_tree_grid.py", "tests/overload/test_trees.py", "tests/overload/test_work_limit.py",
        "tests/overload/test_sleep.py", "tests/overload/test_demand.py", "tests/shedding/test_detectors.py",
        "tests/overload/test_recall.py::test_as_many_matches_as_usual_are_expected_while_none_is_kept",
        "tests/overload/test_recall.py::test_a_model_that_predicts_a_large_loss_counts_less",
        "tests/shedding/test_auto.py::test_a_bound_alone_sheds",
        "tests/shedding/pspice/test_children.py", "tests/shedding/pspice/test_drop_order.py",
        "tests/shedding/pspice/test_model.py",
        "tests/shedding/pspice/test_occupancy.py", "tests/shedding/pspice/test_overlap.py",
        "tests/shedding/pspice/test_shedder.py",
        "tests/shedding/pspice/test_refit.py", "tests/shedding/counts/test_chain_states.py",
        "tests/shedding/counts/test_transitions.py",
        "tests/shedding/counts/test_positions.py",
        "tests/shedding/espice/test_cumulative.py", "tests/shedding/espice/test_model.py",
        "tests/shedding/espice/test_drop_table.py", "tests/shedding/espice/test_shedder.py",
        "tests/shedding/espice/test_refit.py", "tests/shedding/espice/test_effect.py",
        "tests/overload/test_whole_windows.py", "tests/shedding/test_match_rate.py",
        "tests/shedding/hybrid/test_limit_choice.py",
        "tests/shedding/test_auto.py::test_drops_in_windows_are_tried_where_windows_are_isolated",
        "tests/shedding/test_auto.py::test_a_model_that_misses_the_bound_counts_for_less",
        "tests/spark/slicing/test_slices.py", "tests/spark/slicing/test_time_counts.py",
        "tests/spark/files/test_ordered_files.py", "tests/spark/files/test_stored_files.py",
        "tests/spark/test_several_queries.py", "tests/spark/test_match_order.py",
        "tests/parallel/test_splitter.py", "tests/parallel/test_parallel_engine.py",
        "tests/parallel/test_processes.py", "tests/parallel/test_channel.py",
        "tests/parallel/queueing", "tests/parallel/test_profiling.py", "tests/parallel/adaptation/test_forecast.py",
        "tests/parallel/adaptation/test_loop.py", "tests/parallel/adaptation/test_simulation.py",
        "tests/parallel/adaptation/test_live.py", "tests/parallel/adaptation/test_adapted_engine.py",
        "tests/evaluation/test_clairvoyant.py",
        "tests/cli/test_fit_command.py::test_options_of_espice_are_rejected_elsewhere",
        "tests/_core/fit/test_packing_knapsack.py", "tests/migration",
    ],
}  # fmt: skip

MUTANTS = [Mutant(**entry) for entry in tomllib.loads((ROOT / "ci/mutants.toml").read_text(encoding="utf-8"))["mutant"]]
#: Also tests marked `thorough`, which pytest does not select by default.
MARKS = "not (slow or shared or spark)"


def main() -> int:
    """Run the command; the exit status is 1 if a mutant survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only mutants whose names contain one of these")
    parser.add_argument(
        "--list", action="store_true", help="list the mutants and check that the texts to replace exist"
    )
    arguments = parser.parse_args()
    selected = [m for m in MUTANTS if not arguments.names or any(part in m.name for part in arguments.names)]
    wrong = [m for m in selected if (ROOT / m.file).read_text(encoding="utf-8").count(m.before) != 1]
    for mutant in wrong:
        print(f"{mutant.name}: the text to replace does not occur exactly once in {mutant.file}", file=sys.stderr)
    if arguments.list or wrong:
        print("\n".join(m.name for m in selected))
        return int(bool(wrong))
    outcomes = {mutant.name: outcome(mutant) for mutant in selected}
    survivors = [name for name, killer in outcomes.items() if killer is None]
    print(f"{len(selected) - len(survivors)} of {len(selected)} mutants killed")
    for tests in TESTS:
        print(f"{sum(killer == tests for killer in outcomes.values())} {tests}")
    for name in survivors:
        print(f"survived: {name}")
    return int(bool(survivors))


def outcome(mutant: Mutant) -> str | None:
    """Test a mutant in a copy of the tree; return the group of tests that kills it, None if it survives."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fastcep-mutant-") as folder:
        tree = Path(folder) / "tree"
        compiled = mutant.file.endswith((".pyx", ".pxd", ".h"))
        ignored = shutil.ignore_patterns(".git", ".venv", "bench", "docs", ".*_cache", *([] if compiled else ["build"]))
        shutil.copytree(ROOT, tree, ignore=ignored)
        path = tree / mutant.file
        path.write_text(path.read_text(encoding="utf-8").replace(mutant.before, mutant.after), encoding="utf-8")
        if compiled:
            build(mutant, tree)
        killer = next((group for group, tests in TESTS.items() if fails(mutant, tree, tests)), None)
    verdict = f"killed {killer}" if killer else "SURVIVED"
    print(f"{mutant.name}: {verdict} ({time.monotonic() - start:.0f} s)", flush=True)
    return killer


def build(mutant: Mutant, tree: Path) -> None:
    """Compile the extensions of the tree that depend on the changed file."""
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    process = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(f"{mutant.name}: does not compile\n{process.stderr[-3000:]}")


def fails(mutant: Mutant, tree: Path, tests: list[str]) -> bool:
    """Return whether a test fails or crashes."""
    environment = {"FASTCEP_EXAMPLES": "200", **os.environ, "PYTHONPATH": str(tree), "FASTCEP_SHRINK": "0"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-m", MARKS, *tests]
    process = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if process.returncode > 1:
        raise SystemExit(f"{mutant.name}: the tests could not run\n{process.stdout[-3000:]}{process.stderr[-3000:]}")
    return process.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
