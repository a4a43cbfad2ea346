"""A process that has imported everything, and starts ``fastcep`` commands in child processes.

The children are ordinary processes, which can be killed, but they start in milliseconds.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

__all__ = ["Warm", "import_first", "reopen_streams", "run_to_end"]

FIRST_IMPORTS = (
    "fastcep.cli.durable.runner", "fastcep.cli.run", "fastcep.report", "pyarrow.compute", "pyarrow.csv",
    "pyarrow.json", "pyarrow.parquet", "rich.console", "rich.text",
)  # fmt: skip


class Warm:
    """Starts commands; a context manager.

    Parameters
    ----------
    folder
        Working directory of the commands; paths in their arguments are relative to it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server = subprocess.Popen(
            [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Warm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.communicate()

    def start(self, *arguments: str, die_at: int = 0, within: str = "", file_bytes: int | None = None) -> int:
        """Start ``fastcep`` with these arguments, and return its process id.

        With `die_at` the process kills itself before its n-th call that opens, renames, removes or syncs a file whose
        path contains `within`. With `file_bytes` no file can get larger, as if the disk were full.
        """
        question = {"arguments": arguments, "folder": str(self.folder)}
        return int(self._ask(**question, die_at=die_at, within=within, file_bytes=file_bytes)["number"])

    def wait(self, number: int) -> int:
        """Wait for a process; return its exit code, negative if a signal ended it."""
        return int(self._ask(wait=number)["code"])

    def run(self, *arguments: str, code: int = 0, **options: Any) -> str:
        """Run ``fastcep`` to its end, and return its standard output."""
        found = self.wait(self.start(*arguments, **options))
        assert found == code, self.errors()
        return (self.folder / "stdout").read_text()

    def errors(self) -> str:
        """Return the standard error of the last process."""
        return (self.folder / "stderr").read_text()

    def _ask(self, **question: Any) -> dict[str, Any]:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(question) + "\n")
        self._server.stdin.flush()
        answer: dict[str, Any] = json.loads(self._server.stdout.readline())
        return answer


def import_first(names: Iterable[str]) -> None:
    """Import modules, and create the parser."""
    for name in names:
        __import__(name)
    from fastcep import parse_document

    parse_document("EVENT A (a int64) QUERY q PATTERN SEQ(A a) WITHIN 1s")


def _serve() -> None:
    import_first(FIRST_IMPORTS)
    from fastcep.cli import app

    with redirect_stdout(StringIO()):
        app(["datasets", "list"], standalone_mode=False)  # imports the modules that parse a command line
    for line in sys.stdin:
        question = json.loads(line)
        if "arguments" in question:
            number = os.fork()
            if number == 0:
                _command(question)
            answer: dict[str, Any] = {"number": number}
        else:
            answer = {"code": os.waitstatus_to_exitcode(os.waitpid(question["wait"], 0)[1])}
        print(json.dumps(answer), flush=True)


def _command(question: dict[str, Any]) -> None:
    os.chdir(question["folder"])
    for number, name, flags in ((0, os.devnull, 0), (1, "stdout", os.O_TRUNC), (2, "stderr", os.O_TRUNC)):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | flags, 0o666), number)
    reopen_streams()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for background jobs
    if question["file_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (question["file_bytes"], resource.RLIM_INFINITY))
    if question["die_at"]:
        _die(question["die_at"], question["within"])
    run_to_end(question["arguments"])


def reopen_streams() -> None:
    """Let the standard streams use the present file descriptors 0 to 2."""
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115


def run_to_end(arguments: Sequence[str], report: Callable[[int], object] = lambda code: None) -> NoReturn:
    """Run ``fastcep`` with these arguments, call ``report`` with its exit code, and end the process."""
    from fastcep.cli import main

    sys.argv = ["fastcep", *arguments]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        report(code)
        os._exit(code)


def _die(at: int, within: str) -> None:
    left = at
    sync = os.fsync

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.rename", "os.remove") and within in str(arguments[0]):
            count()

    def counted(number: int) -> None:
        count()
        sync(number)

    sys.addaudithook(hook)
    os.fsync = counted


if __name__ == "__main__":
    _serve()
