"""The commands of ``fastcep migrate`` and their options; imports the implementation only when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fastcep.cli.common import Functions, Json, exit_codes

__all__ = ["migrate_app"]

_KeyFile = Annotated[
    Path,
    typer.Option(
        "--key-file", metavar="FILE", help="File with the key that both hosts share.", exists=True, dir_okay=False
    ),
]
_Shedder = Annotated[str | None, typer.Option(metavar="NAME", help="Shedder that the engine had, other than auto.")]
_Model = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Its model.", exists=True)]
_Timeout = Annotated[str, typer.Option(metavar="DURATION", help="Time after which a silent host counts as lost.")]

migrate_app = typer.Typer(help="Move the state of an engine to another host.", no_args_is_help=True)


@migrate_app.callback()
def _root() -> None:
    """Move the state of an engine to another host."""


@migrate_app.command("simulate")
@exit_codes()
def migrate_simulate(
    states: Annotated[int, typer.Option(metavar="N", help="Number of partial states.")] = 8000,
    utility: Annotated[
        str, typer.Option(metavar="NAME", help="Utilities: uniform, skew10, skew50, or size (grows with the size).")
    ] = "uniform",
    sizes: Annotated[
        str, typer.Option(metavar="equal|trips|FILE", help="Sizes; a file has one size in bytes per line.")
    ] = "equal",
    method: Annotated[str, typer.Option(metavar="NAME", help="Method: auto, greedy, dp, fptas, random.")] = "auto",
    deadline: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time until the link fails; by default all states arrive.")
    ] = None,
    bandwidth: Annotated[str, typer.Option(metavar="SIZE", help="Bytes per second, such as 10MB.")] = "100kB",
    latency: Annotated[str, typer.Option(metavar="DURATION", help="Delay of the link.")] = "1ms",
    resume: Annotated[
        str, typer.Option(metavar="DURATION", help="Time that the new host needs before the deadline.")
    ] = "0s",
    epsilon: Annotated[float, typer.Option(metavar="SHARE", help="fptas: share of the utility it may lose.")] = 0.02,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the random numbers.")] = 0,
    event_rate: Annotated[
        float | None, typer.Option(metavar="N", help="Events per second that arrive meanwhile; by default none.")
    ] = None,
    event_size: Annotated[str, typer.Option(metavar="SIZE", help="Size of an event, and of an output.")] = "100B",
    service: Annotated[str, typer.Option(metavar="DURATION", help="Time that a host needs for an event.")] = "0s",
    track: Annotated[
        str, typer.Option(metavar="single|parallel", help="Old host during the migration: stops, or goes on.")
    ] = "single",
    json: Json = False,
) -> None:
    """Simulate how much utility arrives while partial states are sent until a deadline; nothing is sent."""
    from fastcep.cli.migrate_simulate import simulate

    simulate(
        states=states, utility=utility, sizes=sizes, method=method, deadline=deadline, bandwidth=bandwidth,
        latency=latency, resume=resume, epsilon=epsilon, seed=seed, event_rate=event_rate,
        event_size=event_size, service=service, track=track, json=json,
    )  # fmt: skip


@migrate_app.command("send")
@exit_codes()
def migrate_send(
    snapshot: Annotated[
        Path, typer.Argument(metavar="SNAPSHOT", help="File with a snapshot of an engine.", exists=True, dir_okay=False)
    ],
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where the new host waits.")],
    key_file: _KeyFile,
    deadline: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time until states should arrive; by default all are sent.")
    ] = None,
    by: Annotated[
        str, typer.Option(metavar="NAME", help="States: auto, partial match, key, key group, window, query.")
    ] = "auto",
    utility: Annotated[
        str, typer.Option(metavar="NAME", help="Utility of the states: auto, shedder, count, size, random.")
    ] = "auto",
    method: Annotated[str, typer.Option(metavar="NAME", help="Method: auto, greedy, dp, fptas, random.")] = "auto",
    on_disconnect: Annotated[
        str, typer.Option(metavar="keep|hand_over", help="If the link is lost, this host or the new one goes on.")
    ] = "keep",
    bandwidth: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Bytes per second of the link; by default measured first.")
    ] = None,
    resume: Annotated[
        str, typer.Option(metavar="DURATION", help="Time that the new host needs before the deadline.")
    ] = "0s",
    timeout: _Timeout = "10s",
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of random utilities and of the method random.")] = 0,
    shedder: _Shedder = None,
    model: _Model = None,
    functions: Functions = None,
    json: Json = False,
) -> None:
    """Send the state in a snapshot to a host that runs `fastcep migrate receive`."""
    from fastcep.cli.migrate_move import send

    send(
        snapshot, address, key_file=key_file, by=by, utility=utility, shedder=shedder, model=model,
        functions=functions, json=json,
        deadline=deadline, method=method, on_disconnect=on_disconnect, bandwidth=bandwidth, resume=resume,
        timeout=timeout, seed=seed,
    )  # fmt: skip


@migrate_app.command("receive")
@exit_codes()
def migrate_receive(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where to listen; port 0: any free one.")],
    key_file: _KeyFile,
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="Write the state as a snapshot.")],
    wait: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time to wait for the old host; by default without limit.")
    ] = None,
    timeout: _Timeout = "10s",
    shedder: _Shedder = None,
    model: _Model = None,
    functions: Functions = None,
    json: Json = False,
) -> None:
    """Wait for the state that `fastcep migrate send` sends, and write it as a snapshot."""
    from fastcep.cli.migrate_move import receive

    receive(
        address, key_file=key_file, output=output, shedder=shedder, model=model, functions=functions, wait=wait,
        timeout=timeout, json=json,
    )  # fmt: skip
