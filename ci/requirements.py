"""usage: ci/requirements.py build|run EXTRA -- print the requirements of pyproject.toml, one a line.

``build`` are those that compiling needs, and numba, which limits the version of numpy; ``run`` are those of the package
and of an extra.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
extras = project["project"]["optional-dependencies"]


def of_extra(name: str) -> list[str]:
    """Return the requirements of an extra, and of the extras that it refers to."""
    needs = []
    for requirement in extras[name]:
        if requirement.startswith("fastcep["):
            needs += [need for other in requirement[len("fastcep[") : -1].split(",") for need in of_extra(other)]
        else:
            needs.append(requirement)
    return needs


part, extra = sys.argv[1:]
package = project["project"]["dependencies"]
if part == "build":
    print(*project["build-system"]["requires"], *(need for need in package if need.startswith("numba")), sep="\n")
else:
    print(*package, *of_extra(extra), sep="\n")
