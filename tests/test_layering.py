"""Imports point down only, in the order of the folders in docs/architecture.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "fastcep"

# From the bottom up. Folders on one line do not import each other.
FLOORS = (
    {"errors", "option_types", "stored"},
    {"extras"},
    {"events"},
    {"option_checks"},
    {"query", "io", "datasets"},
    {"plan"},
    {"kernels"},
    {"overload"},
    {"engine"},
    {"arrivals"},
    {"shedding"},
    {"report"},
    {"spark", "parallel", "migration", "evaluation"},
    {"cli"},
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
MAY_IMPORT_CORE = {"events"} | {room for room, floor in FLOOR.items() if floor >= FLOOR["plan"]}


def room_of(module: str) -> str:
    """Return the folder of a module: ``query`` for ``fastcep.query.ast``, ``""`` for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imported_rooms(source: str, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Yield the line and the folder of every import of fastcep, including those in functions and ``TYPE_CHECKING``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "fastcep" else [base]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "fastcep":
                yield node.lineno, room_of(name)


def offences(source: str, module: str, is_package: bool = False) -> list[str]:
    """Return the wrong imports of a module, one line each."""
    here = room_of(module)
    if here not in FLOOR and here != "_core":
        return [f"{module}: the room {here!r} has no floor; add it to FLOORS and to docs/architecture.md"]
    found = []
    for line, room in imported_rooms(source, module, is_package):
        if room == here:
            continue
        if room == "_core":
            allowed = here in MAY_IMPORT_CORE
        else:  # `from fastcep import parse` may reach any folder, so only cli, which is above all, may use it
            allowed = FLOOR.get(room, FLOOR["cli"] - 1) < FLOOR.get(here, -1)
        if not allowed:
            found.append(f"{module}:{line}: {here} may not import {room or 'fastcep'}")
    return found


def modules() -> list[Path]:
    return sorted(
        path
        for path in PACKAGE.rglob("*.py*")
        if path.suffix in (".py", ".pyi") and path not in (PACKAGE / "__init__.py", PACKAGE / "__main__.py")
    )


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_point_down(path: Path) -> None:
    is_package = path.stem == "__init__"
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    module = ".".join(parts[:-1] if is_package else parts)
    assert offences(path.read_text(encoding="utf-8"), module, is_package) == []


def python_modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if path.stem == "__init__" else parts)] = path
    return found


def imported_modules(source: str, module: str, is_package: bool, known: Collection[str]) -> set[str]:
    """Return the modules among ``known`` that a module imports, including those in functions and ``TYPE_CHECKING``."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [(alias.name, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            names += [(f"{base}.{alias.name}", base) for alias in node.names]
    return {full if full in known else base for full, base in names if full in known or base in known} - {module}


def cycles(imports: Mapping[str, set[str]]) -> list[str]:
    """Return the imports that prevent an order in which each module imports only modules before it."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_modules_import_each_other_in_one_direction() -> None:
    known = python_modules()
    assert cycles({
        module: imported_modules(path.read_text(encoding="utf-8"), module, path.stem == "__init__", known)
        for module, path in known.items()
    }) == []  # fmt: skip


def core_rooms() -> list[str]:
    """Return the folders of ``_core`` in the order of its docstring."""
    docstring = ast.get_docstring(ast.parse((PACKAGE / "_core" / "__init__.py").read_text(encoding="utf-8")))
    assert docstring is not None
    return re.findall(r"``(\w+)``", docstring)


def core_imports(text: str) -> list[str]:
    """Return the imports of a Cython module from fastcep, as dotted names."""
    return re.findall(r"^\s*(?:from|import|cimport)\s+(fastcep[\w.]*|\.[\w.]*)", text, re.MULTILINE)


def test_core_has_no_cycles() -> None:
    imports: dict[str, set[str]] = {}
    for path in PACKAGE.glob("_core/*/*.p[yx][xd]"):
        own = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        imports.setdefault(own, set()).update(core_imports(path.read_text(encoding="utf-8")))
    assert cycles({module: names - {module} for module, names in imports.items()}) == []
    assert {name for names in imports.values() for name in names} <= imports.keys(), "only modules of _core"


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("_core/*/*.p[yx][xd]")), ids=lambda path: path.name)
def test_folders_of_core_import_those_before_them(path: Path) -> None:
    order = core_rooms()
    here = order.index(path.parent.name)
    rooms = {name.split(".")[2] for name in core_imports(path.read_text(encoding="utf-8"))}
    assert {room for room in rooms if order.index(room) > here} == set()


def test_every_folder_of_core_has_its_place() -> None:
    assert sorted(core_rooms()) == sorted(path.parent.name for path in PACKAGE.glob("_core/*/__init__.py"))


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("fastcep.plan.nfa", "from fastcep.query import ast", False),
        ("fastcep.plan.nfa", "from ..query import ast", False),
        ("fastcep.plan.nfa", "from fastcep._core import predicate", False),
        ("fastcep.plan.nfa", "from .indexes import Index", False),
        ("fastcep.plan.nfa", "from fastcep import engine", True),
        ("fastcep.plan.nfa", "from fastcep import Engine", True),
        ("fastcep.cli.run", "from fastcep import Engine", False),
        ("fastcep.query.ast", "def f():\n    import fastcep.plan.nfa", True),
        ("fastcep.query.ast", "from .. import plan", True),
        ("fastcep.query.ast", "if TYPE_CHECKING:\n    from fastcep.io import read", True),
        ("fastcep.query.ast", "from fastcep._core import predicate", True),
        ("fastcep._core.x", "from fastcep.errors import DataError", True),
        ("fastcep.attic.x", "", True),
    ],
)
def test_the_check_itself(module: str, source: str, wrong: bool) -> None:
    assert bool(offences(source, module)) is wrong


def test_relative_imports_of_a_package_start_in_it() -> None:
    assert offences("from . import nfa\nfrom ..query import ast", "fastcep.plan", is_package=True) == []
    assert offences("from ..engine import Engine", "fastcep.plan", is_package=True) != []


def test_the_map_names_every_folder() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [row.split("|")[1] for row in page.partition("## Folders")[2].splitlines() if row.startswith("| `")]
    named = {name for cell in rows for name in re.findall(r"`(\w+)`", cell)}
    folders = {path.parent.name for path in [*PACKAGE.glob("*/__init__.py"), *PACKAGE.glob("_core/*/__init__.py")]}
    assert named == folders - {"_core"} | {"errors", "extras", "option_checks", "option_types", "stored"}


def test_files_that_the_map_names_exist() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = re.findall(r"`([\w/]+/[\w./]+)`", page)
    bases = [PACKAGE.parent, PACKAGE, *(path for path in PACKAGE.iterdir() if path.is_dir())]
    assert [path for path in paths if not any((base / path).exists() for base in bases)] == []
