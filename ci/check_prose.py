"""usage: ci/check_prose.py [--write] -- count habits of style that a machine can see, file by file.

It checks docstrings and comments of the package, and the pages of docs/: docstrings that begin with a question word,
overused words, and files of more than 500 lines. `ci/prose_allowed.toml` lists how many each file may still have. The
check fails for a file with more, and for one with fewer, so that the list shrinks: ``--write`` updates it.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "ci" / "prose_allowed.toml"
MOST_LINES = 500

QUESTION = re.compile(r"\s*(What|How|Whether|Where|Who|Whose|Which|Why)\b")
WORDS = re.compile(
    r"\b(tells?|telling|told|mends?|mended|nevertheless|likewise|so many|so much|in the place of|at the begin of)\b"
    r"|(?:^|[.:;]\s+)(Else|else)\b(?!:)"
)


def python_prose(text: str) -> Iterator[tuple[bool, str]]:
    """Yield docstrings, as (True, text), and comments, as (False, text)."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield True, docstring
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield False, token.string.lstrip("#: ")


def cython_prose(text: str) -> Iterator[tuple[bool, str]]:
    """Yield docstrings and comments as `python_prose`, of what Python's parser cannot read."""
    for quoted in re.findall(r'^\s*(?:"""|/\*)(.*?)(?:"""|\*/)', text, re.DOTALL | re.MULTILINE):
        yield True, quoted
    for comment in re.findall(r"#:? ([^\n]*)|// ([^\n]*)", text):
        yield False, "".join(comment)


def page_prose(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the paragraphs of a Markdown page, without code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for paragraph in re.sub(r"`[^`\n]+`", "", text).split("\n\n"):
        yield False, paragraph


READERS = {".py": python_prose, ".pyi": python_prose, ".pyx": cython_prose, ".pxd": cython_prose, ".h": cython_prose,
           ".md": page_prose}  # fmt: skip


def offences(path: Path) -> Iterator[str]:
    """Yield what is wrong with the prose of a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".md" and text.count("\n") > MOST_LINES:
        yield f"{text.count(chr(10))} lines, more than {MOST_LINES}"
    for is_docstring, prose in READERS[path.suffix](text):
        if is_docstring and (match := QUESTION.match(prose)):
            yield f"begins with {match[1]!r}: {prose.strip().splitlines()[0][:60]}"
        for match in WORDS.finditer(prose):
            around = prose[max(0, match.start() - 25) : match.end() + 15].replace("\n", " ")
            yield f"{match[0].strip(' .:;')!r}: …{around}…"


def main() -> int:
    """Compare all files with the list."""
    files = sorted(
        path
        for folder in ("fastcep", "docs", "README.md", "CONTRIBUTING.md")
        for path in ([ROOT / folder] if folder.endswith(".md") else (ROOT / folder).rglob("*"))
        if path.suffix in READERS and path.name != "matrix.md"
    )
    found = {path.relative_to(ROOT).as_posix(): list(offences(path)) for path in files}
    if "--write" in sys.argv[1:]:
        lines = [f'"{name}" = {len(faults)}\n' for name, faults in found.items() if faults]
        ALLOWED.write_text("# Per file, how many offences ci/check_prose.py still allows.\n" + "".join(lines))
        return 0
    allowed = tomllib.loads(ALLOWED.read_text(encoding="utf-8"))
    failed = False
    for name in sorted({*found, *allowed}):
        faults, number = found.get(name, []), allowed.get(name, 0)
        if len(faults) > number:
            failed = True
            print(f"{name}: {len(faults)} faults of style, {number} allowed", *faults, sep="\n    ")
        elif len(faults) < number:
            failed = True
            print(f"{name}: only {len(faults)} faults of style, {number} allowed; run ci/check_prose.py --write")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
