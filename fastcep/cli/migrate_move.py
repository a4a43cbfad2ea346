"""``fastcep migrate send`` and ``receive``: move the state in a snapshot file to another host."""

from __future__ import annotations

import json as json_module
import os
from pathlib import Path
from typing import Any

from fastcep import Engine, migration
from fastcep.cli.common import load_functions
from fastcep.errors import ValidationError

__all__ = ["receive", "send"]


def send(
    snapshot: Path,
    address: str,
    *,
    key_file: Path,
    by: str,
    utility: str,
    shedder: str | None,
    model: Path | None,
    functions: Path | None,
    json: bool,
    **options: Any,
) -> None:
    """Send the state in a snapshot file; the file stays as it is.

    Parameters
    ----------
    snapshot
        File with the result of `Engine.snapshot`.
    address
        Host and port at which the new host listens.
    key_file
        File with the key.
    by, utility
        See `fastcep.migration.partition`.
    shedder, model
        Those of the engine, see `Engine.restore`.
    functions
        Python file that registers the functions of the queries.
    json
        Print the report as one JSON object.
    **options
        See `fastcep.migration.send`.

    Raises
    ------
    MigrationError, SnapshotError, ValidationError, OSError
        If the state was not moved, or that is unknown; if the snapshot or an option is wrong.
    """
    if functions is not None:
        load_functions(functions)
    engine = Engine.restore(snapshot.read_bytes(), **_shedding(shedder, model))
    states = migration.partition(engine, by, utility, seed=options["seed"])
    report = migration.send(states, address, key=_key(key_file), **options)
    if json:
        print(json_module.dumps(report.to_dict()))
        return
    print(
        f"moved {report.confirmed_states:,} of {report.states:,} states, {report.confirmed_bytes:,} bytes; the new "
        f"host continues after event {report.position:,}"
    )


def receive(
    address: str,
    *,
    key_file: Path,
    output: Path,
    shedder: str | None,
    model: Path | None,
    functions: Path | None,
    wait: str | None,
    timeout: str,
    json: bool,
) -> None:
    """Wait for the state that `send` sends, and write it to a snapshot file.

    Matches of events that were forwarded (`fastcep.migration.start`) are printed as JSON objects.

    Parameters
    ----------
    address
        Host and port to listen at; port 0: any free one, which is printed.
    key_file
        File with the key.
    output
        The file; an existing one is replaced when the state has arrived.
    shedder, model
        Those of the engine, see `Engine.restore`.
    functions
        Python file that registers the functions of the queries.
    wait, timeout
        See `fastcep.migration.receive`.
    json
        Print the address and the result as one JSON object each.

    Raises
    ------
    MigrationError, ValidationError, OSError
        If the state did not arrive, an option is wrong, or the file cannot be written.
    """
    if functions is not None:
        load_functions(functions)

    def listening(at: tuple[str, int]) -> None:
        print(json_module.dumps({"address": list(at)}) if json else f"waiting at {at[0]}:{at[1]}", flush=True)

    if output.is_dir():
        raise ValidationError(f"'{output}' is a folder; expected the name of a file")
    part = output.with_name(output.name + ".part")
    part.write_bytes(b"")  # fails now if it cannot be written

    def store(engine: Engine) -> None:
        """Write the state before this host takes over, so that it is not lost."""
        with part.open("wb") as file:
            file.write(engine.snapshot())
            file.flush()
            os.fsync(file.fileno())

    try:
        received = migration.receive(
            address, key=_key(key_file), wait=wait, timeout=timeout, options=_shedding(shedder, model),
            kinds=["engine"], on_listening=listening, on_built=store,
        )  # fmt: skip
    except Exception:
        part.unlink(missing_ok=True)
        raise
    except BaseException:  # Ctrl-C: this host may already own a state that is stored
        if not part.stat().st_size:
            part.unlink()
        raise
    os.replace(part, output)
    for match in (match for matches in received.matches for match in matches.to_dicts()):
        print(json_module.dumps({"match": match}, default=str))
    if json:
        print(json_module.dumps({
            "states": received.states_received, "total_states": received.total_states, "position": received.position,
            "complete": received.complete, "late": received.late, "interrupted": received.interrupted,
            "refused": list(received.refused), "output": str(output),
        }))  # fmt: skip
        return
    print(
        f"received {received.states_received:,} of {received.total_states:,} states after event "
        f"{received.position:,}, in {output}"
    )
    if received.interrupted is not None:
        print(f"the old host did not finish: {received.interrupted}")


def _shedding(shedder: str | None, model: Path | None) -> dict[str, Any]:
    """Return the options of a shedder that the engine had."""
    options: dict[str, Any] = {} if shedder is None else {"shedder": shedder}
    return options if model is None else options | {"model": model}


def _key(path: Path) -> str:
    """Return the key in a file, without white space around it."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise ValidationError(
            f"'{path}': found a key that is not UTF-8 text; write one with: python -c 'import secrets; "
            "print(secrets.token_hex(32))'"
        ) from None
