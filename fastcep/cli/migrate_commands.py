"""The commands of ``fastcep migrate`` and their options; imports the implementation only when a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from fastcep.cli.common import Json, exit_codes

__all__ = ["migrate_app"]

migrate_app = typer.Typer(help="Choose the state to send before a deadline.", no_args_is_help=True)


@migrate_app.callback()
def _root() -> None:
    """Choose the state to send before a deadline."""


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
    from fastcep.cli.migrate import simulate

    simulate(
        states=states, utility=utility, sizes=sizes, method=method, deadline=deadline, bandwidth=bandwidth,
        latency=latency, resume=resume, epsilon=epsilon, seed=seed, event_rate=event_rate,
        event_size=event_size, service=service, track=track, json=json,
    )  # fmt: skip
