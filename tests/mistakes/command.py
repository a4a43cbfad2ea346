"""Mistakes on the command line. The message is what the command writes to standard error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from typer.testing import CliRunner

from fastcep.cli import app
from mistakes.catalogue import CommandError, Mistakes

MISTAKES = Mistakes()
QUERIES = """\
STREAM TIME 'ts' UNIT s TYPE 'kind'
EVENT Payment (card int64)
EVENT Refund (card int64)
QUERY refunds PATTERN SEQ(Payment a, Refund r) WHERE a.card = r.card WITHIN 10s
QUERY pairs PATTERN SEQ(Payment a, Payment b) WHERE a.card = b.card WITHIN 10s
"""
EVENTS = "kind,ts,card\nPayment,1,7\nRefund,2,7\nPayment,3,8\n"
RUN = "run q.cep --input e.csv "
FIT = "fit q.cep --input e.csv --query refunds --output model "
DEGREE = "degree --buffer-limit 9 --probability 0.9 "
EVALUATE = "evaluate q.cep --input e.csv --query refunds "

COMMANDS = {
    # the words
    "unknown command": "rum q.cep --input e.csv",
    "unknown option": RUN + "--latency 5ms",
    "option misspelt": RUN + "--latency-bond 5ms",
    "option without a value": RUN + "--latency-bound",
    "query file missing": "run fraud.cep --input e.csv",
    "query file left out": "run --input e.csv",
    "input left out": "run q.cep",
    "input without the option": "run q.cep e.csv",
    "two query files": "run q.cep other.cep --input e.csv",
    "events instead of queries": "explain e.csv",
    "unknown subcommand": "datasets lst",
    "query that is not in the file": RUN + "--query refund",
    # input and output
    "input that does not exist": "run q.cep --input events.csv",
    "input of an unknown format": RUN + "--format json",
    "delimiter in words": RUN + "--delimiter tab",
    "unknown encoding": RUN + "--encoding utf9",
    "output of an unknown format": RUN + "--output out.xlsx",
    "output into a missing folder": RUN + "--output results/out.csv",
    "output format without an output": RUN + "--output-format csv",
    "output that is the input": RUN + "--output e.csv",
    "batches of zero rows": RUN + "--batch-rows 0",
    "batches in words": RUN + "--batch-rows many",
    "times out of order": "run q.cep --input late.csv",
    "time-out of idle files": RUN + "--allowed-lateness 5s --idle-timeout 5s",
    "late events without lateness": RUN + "--late late.csv",
    "lateness without a unit": RUN + "--allowed-lateness 5",
    "bad rows into a missing folder": RUN + "--bad-rows x/bad.jsonl",
    "value that is not a number": "run q.cep --input bad.csv",
    "functions from a missing file": RUN + "--functions functions.py",
    "functions with an error": RUN + "--functions broken.py",
    # running
    "memory limit without a unit": RUN + "--memory-limit 1gig",
    "memory action without a limit": RUN + "--on-memory-limit shed",
    "unknown memory action": RUN + "--memory-limit 1GiB --on-memory-limit drop",
    "latency bound without a unit": RUN + "--latency-bound 5 --shedder rs",
    "shedder without a bound": RUN + "--shedder rs",
    "shedder misspelt": RUN + "--latency-bound 5ms --shedder hybird",
    "shedder without its model": RUN + "--latency-bound 5ms --shedder hybrid",
    "model that does not exist": RUN + "--latency-bound 5ms --shedder hybrid --model model",
    "detector misspelt": RUN + "--latency-bound 5ms --shedder rs --detector latncy",
    "unknown clock": RUN + "--latency-bound 5ms --shedder rs --clock cpu",
    "unknown index": RUN + "--index hash",
    "checkpoint interval without a checkpoint": RUN + "--checkpoint-every 5s",
    "checkpoint in a file": RUN + "--checkpoint e.csv",
    "no instances": RUN + "--instances 0",
    "instances in words": RUN + "--instances many",
    "automatic instances without a limit": RUN + "--instances auto",
    "limit of a buffer without automatic instances": RUN + "--buffer-limit 100",
    "probability in percent": RUN + "--instances auto --buffer-limit 100 --probability 95",
    "master without Spark": RUN + "--master local[2]",
    # other commands
    "explain in an unknown format": "explain q.cep --format png",
    "explain into an unknown ending": "explain q.cep --output plan.png",
    "fit of an unknown kind": FIT + "--kind hybird",
    "fit with an option of another kind": FIT + "--kind pspice --clusters 3",
    "fit with clusters in words": FIT + "--clusters some",
    "fit over a file": "fit q.cep --input e.csv --query refunds --output e.csv",
    "fit on a history without partial matches": "fit q.cep --input none.csv --query refunds --output model",
    "evaluate without a target": EVALUATE + "--shedders ri",
    "evaluate with two targets": EVALUATE + "--shedders ri --bounds 50% --demands 10%",
    "evaluate an unknown shedder": EVALUATE + "--shedders random --bounds 50%",
    "evaluate a bound in words": EVALUATE + "--shedders ri --bounds half",
    "evaluate rates without a bound": EVALUATE + "--shedders ri --rates 120%",
    "evaluate zero seeds": EVALUATE + "--shedders ri --bounds 50% --seeds 0",
    "degree of an unknown distribution": DEGREE + "--arrival gamma:1s --service deterministic:2ms",
    "degree without a service": DEGREE + "--arrival exponential:1s",
    "degree of a time without a unit": DEGREE + "--arrival exponential:100 --service deterministic:2ms",
    "degree with a probability of 1": DEGREE + "--arrival exponential:1s --service deterministic:2ms --probability 1",
    "data set that does not exist": "datasets show bikes",
    "data set of no events": "datasets make ds1 --output ds1.csv --events 0",
    "data set written to an unknown ending": "datasets make ds1 --output ds1.json --events 10",
    "calibration of no time": "calibrate --seconds 0",
    "profile at a rate of zero": "profile q.cep --input e.csv --rates 0",
}  # fmt: skip


def _run(command: str, folder: Path) -> None:
    files = {
        "q.cep": QUERIES, "other.cep": QUERIES, "e.csv": EVENTS, "late.csv": "kind,ts,card\nPayment,5,7\nRefund,2,7\n",
        "bad.csv": "kind,ts,card\nPayment,1,7\nRefund,2,seven\n", "none.csv": "kind,ts,card\nRefund,2,7\n",
        "broken.py": "import fastcep as fc\n\n@fc.function('float64(float64)')\ndef risk(x)\n    return x\n",
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text)
    with _in(folder):
        runner = CliRunner(env={"COLUMNS": "120", "TERM": "dumb", "NO_COLOR": "1"})
        result = runner.invoke(app, command.split(), prog_name="fastcep")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code:
        raise CommandError(_plain(result.stderr))


@contextmanager
def _in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _plain(text: str) -> str:
    """Return a text without what typer writes around it: the usage, and a frame, in which lines are wrapped."""
    if "╭" not in text:
        return text.strip()
    lines = [line.strip("│ ") for line in text.splitlines() if line.startswith("│")]
    return "usage: " + " ".join(lines)


for _name, _command in COMMANDS.items():
    MISTAKES[_name] = partial(_run, _command)
