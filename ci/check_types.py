"""usage: python ci/check_types.py -- check with pyright's rules the examples and the types of the public interface.

basedpyright (the extra `types`) is pyright with all that it needs in wheels; it downloads nothing when it runs. Public
are the names of ``__all__`` in the modules below, with their methods and attributes: the type of each must be known
without inference, so that every type checker agrees on it.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = (
    "fastcep", "fastcep.datasets", "fastcep.evaluation", "fastcep.io", "fastcep.migration", "fastcep.parallel",
    "fastcep.plan", "fastcep.query", "fastcep.report", "fastcep.shedding", "fastcep.spark",
)  # fmt: skip


def pyright(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pyright in the root of the project, with this interpreter's packages."""
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def public_names() -> set[str]:
    """Return where the public classes and functions are defined: ``module.name``."""
    names = set()
    for module in map(importlib.import_module, PUBLIC):
        for name in module.__all__:
            item = getattr(module, name)
            names.add(f"{getattr(item, '__module__', module.__name__)}.{getattr(item, '__qualname__', name)}")
    return names


def unknown_types() -> list[str]:
    """Return a line for each public symbol whose type is not known."""
    report = json.loads(pyright("--verifytypes", "fastcep", "--ignoreexternal", "--outputjson").stdout)
    public = public_names()
    lines = []
    for symbol in report["typeCompleteness"]["symbols"]:
        parts = symbol["name"].split(".")
        known = symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"]
        if not known and any(".".join(parts[:end]) in public for end in range(2, len(parts) + 1)):
            messages = [item["message"].splitlines()[0] for item in symbol["diagnostics"]]
            lines.append(f"{symbol['name']}: {'; '.join(messages)}")
    return lines


def main() -> int:
    """Print what is wrong; the exit status is 1 if anything is."""
    examples = pyright("--level", "error", "examples", "tests/users")
    if examples.returncode:
        print(examples.stdout, examples.stderr)
    unknown = unknown_types()
    print("\n".join([*unknown, f"{len(unknown)} public names without a known type"]))
    return int(bool(examples.returncode or unknown))


if __name__ == "__main__":
    sys.exit(main())
