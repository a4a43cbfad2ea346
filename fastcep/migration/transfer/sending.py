"""Move an operator to another host: `send`, and `start` for an operator whose stream goes on."""

from __future__ import annotations

import ssl
import time
from datetime import timedelta
from typing import Any

from fastcep.errors import ValidationError
from fastcep.migration.capacity import bytes_per_second
from fastcep.migration.partial_states.protocol import PartialStates
from fastcep.migration.selection import METHODS
from fastcep.migration.transfer.kinds import check_cut, cut, is_partial
from fastcep.migration.transfer.old_host import SendOptions
from fastcep.migration.transfer.options import (
    Address,
    check_choice,
    check_tls,
    parse_address,
    parse_key,
    seconds,
    size_option,
)
from fastcep.migration.transfer.report import Report
from fastcep.migration.transfer.running import Migration
from fastcep.option_checks import check_whole

__all__ = ["send", "start"]


def send(
    operator: Any,
    address: Address,
    *,
    key: bytes | str,
    deadline: str | timedelta | None = None,
    method: str = "auto",
    tls: ssl.SSLContext | None = None,
    on_disconnect: str = "keep",
    bandwidth: str | int | None = None,
    resume: str | timedelta = "0s",
    timeout: str | timedelta = "10s",
    seed: int = 0,
) -> Report:
    """Move an operator to the host that waits in `receive`; use `start` if events arrive meanwhile.

    Parameters
    ----------
    operator
        The operator, or its `PartialStates`.
    address
        Host and port of the new host, such as ``"10.0.0.7:4100"``.
    key
        The key that both hosts share, at least 16 bytes.
    deadline
        Time from this call until which states should arrive, such as ``"2s"``; the states of the largest utility that
        fit are sent. None: all states are sent.
    method
        Method of `plan`.
    tls
        Context of a client; None: no TLS.
    on_disconnect
        - ``"keep"``: the old operator keeps the state until the new host confirms. If anything fails before, nothing
          has changed.
        - ``"hand_over"``: for an old host that is expected to be lost. The old operator stops when the first states are
          sent; the new host resumes with exactly the states that arrive until the deadline or the loss of the link.
    bandwidth
        Bandwidth of the link, in bytes per second, such as ``"10MB"``, until it has been measured. None: it is measured
        first, if there is a deadline, with at most 64 KiB and a sixteenth of the state.
    resume
        Time that the new host needs to start the operator; states are planned to arrive this time before the deadline.
    timeout
        Time after which a host that sends or takes no data is considered lost.
    seed
        Seed of the method ``"random"``.

    Returns
    -------
    Report

    Raises
    ------
    MigrationError
        If the state was not moved, or that is unknown; the error's ``owner`` names the host that has it, and its
        ``report`` has the states that were not confirmed.
    ValidationError
        If an option is wrong, or the operator cannot be cut.
    """
    with start(
        operator, address, key=key, deadline=deadline, method=method, tls=tls, on_disconnect=on_disconnect,
        bandwidth=bandwidth, resume=resume, timeout=timeout, seed=seed,
    ) as migration:  # fmt: skip
        return migration.finish()


def start(
    operator: Any,
    address: Address,
    *,
    key: bytes | str,
    deadline: str | timedelta | None = None,
    method: str = "auto",
    tls: ssl.SSLContext | None = None,
    on_disconnect: str = "keep",
    bandwidth: str | int | None = None,
    resume: str | timedelta = "0s",
    timeout: str | timedelta = "10s",
    seed: int = 0,
    track: str = "single",
    buffer_limit: str | int = "64MB",
    states: PartialStates | None = None,
) -> Migration:
    """Begin to move an operator to the host that waits in `receive`, in a thread.

    Parameters
    ----------
    operator, address, key, deadline, method, tls, on_disconnect, bandwidth, resume, timeout, seed
        As for `send`.
    track
        - ``"single"``: the old operator stops. Events that arrive are held back, and forwarded after the states; the
          new host returns their matches. If the migration fails, the old operator processes them.
        - ``"parallel"``: the old operator processes all events until the end, and returns their matches. They are also
          forwarded, so that the new operator follows; it does not report their matches. Not with ``"hand_over"``.
    buffer_limit
        Bytes of events that are held back at most. One more ends the migration as if it had failed.
    states
        The state of the operator at this event, if it is already cut. It can be sent once.

    Returns
    -------
    Migration
        Use its ``process`` instead of the operator's until its ``finish``.

    Raises
    ------
    ValidationError
        If an option is wrong, or the operator cannot be cut.
    """
    begin = time.monotonic()
    host, port = parse_address(address)
    if port == 0:
        raise ValidationError(f"address={address!r}: port 0; expected the port at which the new host listens")
    check_choice("on_disconnect", on_disconnect, ("keep", "hand_over"))
    if check_choice("track", track, ("single", "parallel")) == "parallel" and on_disconnect == "hand_over":
        raise ValidationError(
            'track="parallel" keeps the old operator running, and on_disconnect="hand_over" stops it; '
            'use track="single"'
        )
    check_whole("seed", seed, 0)
    options = SendOptions(
        host, port, parse_key(key), check_tls(tls), seconds("timeout", timeout, positive=True),
        None if deadline is None else seconds("deadline", deadline), seconds("resume", resume),
        check_choice("method", method, METHODS), seed, on_disconnect, track,
        None if bandwidth is None else float(bytes_per_second(bandwidth)),
    )  # fmt: skip
    limit = size_option("buffer_limit", buffer_limit)
    parts = check_cut(cut(operator) if states is None else states, None if is_partial(operator) else operator)
    return Migration(None if is_partial(operator) else operator, parts, options, limit, begin)
