"""``python -m mistakes``: make all mistakes, and show or store the messages that changed."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from mistakes.catalogue import AREAS, SPARK, Accepted, Answer, answer, mistakes, stored, write


def main() -> int:
    """Run the command; the exit status is 1 if a mistake is accepted, or a message changed or lacks a grade."""
    parser = argparse.ArgumentParser(prog="python -m mistakes", description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"{', '.join(AREAS | SPARK)}; default: all but spark")
    parser.add_argument("--write", action="store_true", help="store changed messages; their grades are removed")
    arguments = parser.parse_args()
    os.environ["FASTCEP_JIT"] = "0"
    failed = False
    for area in arguments.areas or AREAS:
        answers: dict[str, Answer] = {}
        before = stored(area)
        for name, act in mistakes(area).items():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    given = answers[name] = answer(act, Path(folder))
                except Accepted:
                    failed = True
                    print(f"\n## {area}: {name}\nACCEPTED without an error")
                    continue
            old = before.get(name, {})
            if (old.get("error"), old.get("message")) != (given.error, given.message.splitlines()):
                failed = True
                print(f"\n## {area}: {name}\n{given.error}: {given.message}")
        if arguments.write:
            without = write(area, answers)
            failed |= bool(without)
            print(f"{area}: {len(answers)} messages stored, {len(without)} without a full grade")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
