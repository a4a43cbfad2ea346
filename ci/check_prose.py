"""usage: ci/check_prose.py -- find faults of style that a program can see.

It checks docstrings and comments of the package, and the pages of docs/: docstrings that begin with a question word,
overused words, and files of more than 500 lines.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 500

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
    """Yield docstrings and comments as `python_prose` does, for files that Python's parser cannot read."""
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
    """Yield the faults of style of a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".md" and text.count("\n") > MAX_LINES:
        yield f"{text.count(chr(10))} lines, more than {MAX_LINES}"
    for is_docstring, prose in READERS[path.suffix](text):
        if is_docstring and (match := QUESTION.match(prose)):
            yield f"begins with {match[1]!r}: {prose.strip().splitlines()[0][:60]}"
        for match in WORDS.finditer(prose):
            context = prose[max(0, match.start() - 25) : match.end() + 15].replace("\n", " ")
            yield f"{match[0].strip(' .:;')!r}: …{context}…"


def main() -> int:
    """Print the faults of all files; return 1 if there are any."""
    files = sorted(
        path
        for folder in ("fastcep", "docs", "README.md", "CONTRIBUTING.md")
        for path in ([ROOT / folder] if folder.endswith(".md") else (ROOT / folder).rglob("*"))
        if path.suffix in READERS and path.name != "matrix.md"
    )
    faults = {path.relative_to(ROOT).as_posix(): list(offences(path)) for path in files}
    for name, of_file in faults.items():
        if of_file:
            print(name, *of_file, sep="\n    ")
    return int(any(faults.values()))


if __name__ == "__main__":
    sys.exit(main())
