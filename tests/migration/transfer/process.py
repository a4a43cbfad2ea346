"""An old or a new host of the tests as a process: ``python -m migration.transfer.process old|new JSON``."""

from __future__ import annotations

import json
import sys
from typing import Any

from migration.transfer.counter import ASSEMBLIES, CounterStates, filled
from migration.transfer.hosts import KEY

from fastcep.errors import MigrationError
from fastcep.migration import receive, send


def say(**content: Any) -> None:
    print(json.dumps(content), flush=True)


def old(options: dict[str, Any]) -> None:
    counter = filled(options.pop("keys"), options.pop("size"))
    try:
        say(report=send(CounterStates(counter), options.pop("address"), key=KEY, **options).to_dict())
    except MigrationError as error:
        say(error=str(error), owner=error.owner)


def new(options: dict[str, Any]) -> None:
    try:
        received = receive(
            "127.0.0.1:0", key=KEY, assemblies=ASSEMBLIES, on_listening=lambda address: say(address=address), **options
        )
        counts = {str(key): count for key, count in received.operator.counts.items()}
        say(states=received.states.tolist(), counts=counts, interrupted=received.interrupted)
    except MigrationError as error:
        say(error=str(error), owner=error.owner)


if __name__ == "__main__":
    {"old": old, "new": new}[sys.argv[1]](json.loads(sys.argv[2]))
