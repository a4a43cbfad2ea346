"""Disable one clause in one path at a time, and show that the matrix turns red: ``mutations.py [NAME …]``.

Each mutant is a small change of the package that a reader could make by mistake: a clause is forgotten where one of
the stores, indexes, slices, snapshots or threads has to heed it. The change is made in a copy of the tree, what it
needs is compiled, and ``tests/test_matrix.py`` runs with the default number of examples. A mutant that no example
notices fails this script.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
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


def _plan(name: str, file: str, before: str, after: str) -> Mutant:
    return Mutant(name, f"fastcep/plan/{file}.py", before, after)


MUTANTS = (
    # clauses in the row store
    _plan("PARTITION BY × rows", "placement", "list(self.query.partition)", "[]"),
    _plan("[a] × rows", "placement", "same.extend(conjunct.names)", "same.extend(())"),
    _plan("null in PARTITION BY × rows", "placement", "self.result.local.setdefault(number, []).append(test)", "pass"),
    _plan("DISTINCT × rows", "placement", "self._distinct(self.query.pattern)", "pass"),
    _plan("bounds × rows", "placement", "        self._bounds()\n", ""),
    _plan("NEXT and CONSECUTIVE × rows", "contiguity",
          "    yield from _asked(query.pattern, 0, -1, places)\n", ""),
    _plan("strict_contiguity × rows", "contiguity", 'in ("strict_contiguity", "partition_contiguity")',
          'in ("partition_contiguity",)'),
    _plan("partition_contiguity × rows", "contiguity", 'in ("strict_contiguity", "partition_contiguity")',
          'in ("strict_contiguity",)'),
    _plan("PARTITION BY × NEXT", "contiguity", "if not query.partition or query.strategy", "if True or query.strategy"),
    _plan("PARTITION BY a, b × NEXT", "contiguity", "tuple(schema.column_of(name, attribute) for attribute in query.partition)\n",
          "(schema.column_of(name, query.partition[0]),) * len(query.partition)\n"),
    _plan("skip_till_next × rows", "compile", 'must_advance=query.strategy == "skip_till_next"', "must_advance=False"),
    _plan("SELECT × rows", "compile", "select=ast.SELECTIONS.index(query.select)", "select=0"),
    _plan("CONSUME × rows", "compile", 'consumes=query.consume == "consumed"', "consumes=False"),
    _plan("AFTER MATCH × rows", "compile", "after_match=ast.AFTER_MATCH.index(query.after_match)", "after_match=0"),
    _plan("LIMIT × rows", "compile", "limit=query.limit or 0", "limit=0"),
    _plan("WITHIN n EVENTS × rows", "compile", "ast.CountWindow: 1", "ast.CountWindow: 2"),
    _plan("WITHIN t × rows", "compile", "ast.TimeWindow: 0", "ast.TimeWindow: 2"),
    _plan("ANY × rows", "compile", "sets=self.places.sets", "sets=type(self.places.sets)()"),
    _plan("local conditions × rows", "compile",
          "        local = self._local()\n        locals_ = tuple(columns.local(conditions) for conditions in local.values())\n        edges",
          "        local = {m: [] for m in self._local()}\n        locals_ = tuple(columns.local(conditions) for conditions in local.values())\n        edges"),
    _plan("index=key × computed equalities", "joins",
          "            else:\n                work.residual.append(work.equalities[pair])\n        if pair[0]",
          "        if pair[0]"),
    _plan("shared keys × skip_till_next", "joins", "                work.residual.append(work.equalities[pair])\n            else:\n                kept",
          "                pass\n            else:\n                kept"),
    # clauses in the factorised store
    _plan("PARTITION BY × factorised", "factorised", "reason = self._same(self.query.partition)", 'reason = ""'),
    _plan("PARTITION BY a, b × factorised", "factorised", "self._same(self.query.partition)", "self._same(self.query.partition[:1])"),
    _plan("[a] × factorised", "factorised", "reason = self._same(conjunct.names) if", 'reason = "" if'),
    _plan("equalities × factorised", "factorised", "        return self._merge(nodes)\n\n    # ----", "        return True\n\n    # ----"),
    _plan("other conditions × factorised", "factorised", "        self.conditions.append(condition)\n", ""),
    _plan("local conditions × factorised", "compile",
          "        locals_ = tuple(columns.local(conditions) for conditions in self._local().values())",
          "        locals_ = tuple(columns.local([]) for conditions in self._local().values())"),
    _plan("strategy × factorised", "factorised", 'pattern.adjacent or query.strategy != "skip_till_any"', "pattern.adjacent"),
    _plan("NEXT × factorised", "factorised", 'pattern.adjacent or query.strategy != "skip_till_any"', 'query.strategy != "skip_till_any"'),
    _plan("CONSECUTIVE × factorised", "factorised", " or member.consecutive:", ":"),
    _plan("SELECT × factorised", "factorised", 'query.select != "each" or ', ""),
    _plan("CONSUME × factorised", "factorised", 'query.consume != "zero" or ', ""),
    _plan("AFTER MATCH × factorised", "factorised", 'query.after_match != "no skip" or ', ""),
    _plan("bounds × factorised", "factorised", "(member.repeated and member.maximum is not None)", "False"),
    _plan("x[first] × factorised", "factorised",
          'if any(leaf.name == "q" and self.places.leaves[leaf.data[1]].repeated for leaf in found):', "if False:"),
    # threads, key groups and slices
    _plan("LIMIT × key groups", "keyed", "if query.limit is not None and not query.partition:", "if False:"),
    _plan("SKIP PAST LAST × key groups", "keyed", 'if query.after_match == "skip past last" and not query.partition:',
          "if False:"),
    _plan("LIMIT × PARTITION BY", "placement", " or query.limit is not None)\n", ")\n"),
    _plan("SKIP PAST LAST × PARTITION BY", "placement", '(query.after_match == "skip past last" or query.limit is not None)',
          "(query.limit is not None)"),
    _plan("SKIP PAST LAST × PARTITION BY a, b", "compile",
          "tuple(word(m, name) for name in self.query.partition) for m", "tuple(word(m, name) for name in self.query.partition[:1]) for m"),
    _plan("SKIP PAST LAST × index=off", "joins", 'or (by_partition and expr.name == "partition")', ""),
    Mutant("LIMIT × snapshot", "fastcep/engine/state/words.py",
           "self._counts = len(plan.per_partition[0]) if plan.limit and plan.per_partition else 0", "self._counts = 0"),
    Mutant("LIMIT in PARTITION BY × key groups", "fastcep/engine/state/cut.py", "    counts = (key.partition,) *", "    counts = (0,) *"),
    _plan("a = b, c = d × key groups", "keyed", "set.intersection(*map(joint, edges))", "set.union(*map(joint, edges))"),
    _plan("two keys of one type × key groups", "keyed", "if columns.setdefault(kind, column) != column:",
          "if columns.setdefault(kind, column) is None:"),
    _plan("WITHIN n EVENTS × slices by key", "slicing", '        return f"WITHIN {window.events} EVENTS counts the events of all keys"', "        return plan.key"),
    _plan("WINDOW × slices by key", "slicing", '        return "WINDOW is opened by events of all keys"', "        return plan.key"),
    _plan("strict_contiguity × slices by key", "slicing", '        return "contiguity is that of the stream, in which events of all keys lie"', "        return plan.key"),
    _plan("CONSUME × slices by time", "slicing", 'if query.consume == "consumed":', "if False:"),
    _plan("AFTER MATCH × slices by time", "slicing", 'if query.after_match != "no skip":', "if False:"),
    _plan("WITHIN n EVENTS × slices by time", "slicing", "return Context(events=window.events)", "return Context(events=window.events - 1)"),
    _plan("WITHIN t × slices by time", "slicing", "nanoseconds=window.nanoseconds *", "nanoseconds=window.nanoseconds // 2 *"),
    _plan("NEG at both ends × slices by time", "slicing", "(2 if late and looks_back else 1)", "1"),
    _plan("EVERY n EVENTS × slices by time", "slicing", "return Context(windows.length, every_nanoseconds=every_time, every_events=every_events)",
          "return Context(windows.length, every_nanoseconds=every_time)"),
    _plan("EVERY t × slices by time", "slicing", "return Context(windows.length, every_nanoseconds=every_time, every_events=every_events)",
          "return Context(windows.length, every_events=every_events)"),
    _plan("PARTITION BY × threads", "keyed", "partition=query.partition.index(attributes[0]) if attributes[0] in query.partition else -1", "partition=0"),
    Mutant("NEXT in PARTITION BY × threads", "fastcep/engine/parted.py", "            if own and columns[kind] < 0:", "            if False:"),
    Mutant("deferred matches × threads", "fastcep/engine/parted.py", "decides and sum(deciding) > 1", "False"),
    Mutant("timed_out × threads", "fastcep/engine/parted.py", "order = np.lexsort((made, facts[:, 1]))", "order = np.argsort(facts[:, 1])"),
    # state that moves
    Mutant("NEXT in PARTITION BY × key groups", "fastcep/engine/state/cut.py",
           '    out["partitions"] = state["partitions"][:, flags[groups.partitions]]', '    out["partitions"] = state["partitions"][:, :0]'),
    Mutant("deferred matches × key groups", "fastcep/engine/state/cut.py",
           '    out["waiting"] = state["waiting"][:, flags[groups.waiting]]', '    out["waiting"] = state["waiting"][:, :0]'),
    Mutant("open windows × snapshot", "fastcep/engine/state/snapshot.py", '            item.windows.slide = facts["slide"]\n', ""),
    Mutant("CLOSE ON × snapshot", "fastcep/engine/state/snapshot.py",
           '                _load(item.name, small, _read_state(tables, f"{prefix}{place} ", own, codes), numbers)\n', "                pass\n"),
    Mutant("timed_out × snapshot", "fastcep/engine/state/snapshot.py", "if item.timed is not None and groups is None:", "if False:"),
    Mutant("text × snapshot", "fastcep/engine/state/snapshot.py", "        codes.put(state[table][row], where)", "        pass"),
    Mutant("RETURN × snapshot", "fastcep/engine/state/snapshot.py", "            flags[at[at >= ring.head] - ring.head] = True", "            pass"),
    Mutant("held events × snapshot", "fastcep/engine/state/snapshot.py", '        writer.add_batches("held", here.schema, waiting)\n', ""),
    Mutant("late events × snapshot", "fastcep/engine/state/snapshot.py", "late if groups is None else []", "[]"),
    # the engine
    Mutant("trial of stores × output", "fastcep/engine/trial.py", "                self.matcher.take_output()", "                pass"),
    Mutant("another query × filters", "fastcep/engine/several.py", "not alone and self._filters.run(events, first, last)", "not alone and self._filters.run(events, 0, last)"),
    Mutant("foreign key groups × several engines", "fastcep/engine/several.py", "                matcher.ignore(foreign[item.plan.key])", "                pass"),
    Mutant("timed_out × ring", "fastcep/engine/several.py", "    def _note_timed_out(self) -> None:\n        \"\"\"Take what has timed out, while the ring has its events.\"\"\"\n",
           "    def _note_timed_out(self) -> None:\n        \"\"\"Take what has timed out, while the ring has its events.\"\"\"\n        return\n"),
)  # fmt: skip


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
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", "build", "bench", "docs", ".*_cache"))
        path = tree / mutant.file
        path.write_text(path.read_text(encoding="utf-8").replace(mutant.before, mutant.after), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(tree), "FASTCEP_SHRINK": "0"}
        test = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*test, "tests/test_matrix.py::test_bytecode"], cwd=tree, env=environment, capture_output=True, text=True
        )
    verdict = {0: "SURVIVED", 1: "killed"}.get(done.returncode)
    if verdict is None:
        raise SystemExit(f"{mutant.name}: the tests could not run\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    print(f"{mutant.name}: {verdict} ({time.monotonic() - begin:.0f} s)", flush=True)
    return verdict == "killed"


if __name__ == "__main__":
    sys.exit(main())
