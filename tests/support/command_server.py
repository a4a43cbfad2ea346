"""A process that has imported ``fastcep`` and runs its commands in child processes, which start in milliseconds.

`Server` starts it. A script runs `Server.command` instead of ``fastcep``: this client sends its arguments, environment,
folder and standard streams, and ends with the exit code of the command. The command is an ordinary process that uses
these streams. Warnings are errors in it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from typing import NoReturn

__all__ = ["Server"]

#: Modules imported in advance: those that most commands import themselves.
FIRST_IMPORTS = (
    "fastcep.cli.evaluate", "fastcep.cli.explain", "fastcep.cli.fit", "fastcep.cli.run", "fastcep.report",
    "pyarrow.compute", "pyarrow.csv", "pyarrow.json", "pyarrow.parquet", "rich.console", "rich.text",
)  # fmt: skip


class Server:
    """Runs commands; a context manager.

    Parameters
    ----------
    address
        Path of a Unix socket, which is created.
    """

    def __init__(self, address: str) -> None:
        #: The words of a shell that run ``fastcep``.
        self.command = shlex.join([sys.executable, "-I", "-S", __file__, "send", address])
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-W", "error", __file__, "serve", address], stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Server:
        assert self._process.stdout is not None and self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()


def _serve(address: str) -> None:
    import warnings

    from support.warm_process import import_first

    import_first(FIRST_IMPORTS)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for the children
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            with warnings.catch_warnings(action="ignore"):  # threads of a numerical library do not matter here
                child = os.fork() == 0
            if child:
                server.close()
                _run(connection)
            connection.close()


def _run(connection: socket.socket) -> NoReturn:
    """Run the command that a connection describes, answer with its exit code, and end the process."""
    from support.warm_process import reopen_streams, run_to_end

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, streams, *_ = socket.recv_fds(connection, 4, 3)
    question = json.loads(_received(connection, int.from_bytes(size, "big")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    reopen_streams()
    os.environ.clear()
    os.environ.update(question["environment"])
    os.chdir(question["folder"])
    run_to_end(question["arguments"], lambda code: connection.sendall(bytes([code])))


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    return data


def _send(address: str, *arguments: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        question = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
        data = json.dumps(question).encode()
        socket.send_fds(connection, [len(data).to_bytes(4, "big")], [0, 1, 2])
        connection.sendall(data)
        answer = connection.recv(1)
    return answer[0] if answer else 1


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve(sys.argv[2])
    else:
        sys.exit(_send(*sys.argv[2:]))
