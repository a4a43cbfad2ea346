"""Report of a migration at the old host."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fastcep.migration.states import Ints, States
from fastcep.migration.transfer.old_host import OldHost

__all__ = ["Report", "report_of"]


@dataclass(frozen=True, eq=False)
class Report:
    """The course of a migration; times in ns since the call, sizes in bytes.

    Attributes
    ----------
    states, utility
        Number and utility of all partial states.
    planned_states, planned_utility
        The same of the first plan that knows the bandwidth, because it is given, or has been measured for some round
        trips; with the states that were sent before.
    sent_states, sent_bytes, sent_utility
        States that were sent, and the bytes of their frames.
    confirmed_states, confirmed_bytes, confirmed_utility
        Those of them that have arrived, as the new host confirmed.
    unconfirmed
        int64[k]: numbers of the states that were sent, but not confirmed.
    unsent
        int64[k]: numbers of the states that were not sent.
    late_states
        Number of states that arrived after the deadline; None if the new host did not report it.
    plans
        Number of plans.
    bandwidth
        Bandwidth at the end, in bytes/s; None if it was not measured.
    latency
        Time for a small message in one direction, in ns.
    position
        Number of events of the stream that both operators have processed together, if the state was handed over: the
        new operator continues with the next one. Otherwise, the position of the cut.
    forwarded_events, unforwarded_events
        Events that arrived during the migration and were sent to the new host, or were not.
    handed_over
        Whether the new host has confirmed that it owns the state.
    times
        End of each phase: ``handshake``, ``base``, ``states``, ``events``, ``build``, ``commit``.
    """

    states: int
    utility: float
    planned_states: int
    planned_utility: float
    sent_states: int
    sent_bytes: int
    sent_utility: float
    confirmed_states: int
    confirmed_bytes: int
    confirmed_utility: float
    unconfirmed: Ints
    unsent: Ints
    late_states: int | None
    plans: int
    bandwidth: int | None
    latency: int
    position: int
    forwarded_events: int
    unforwarded_events: int
    handed_over: bool
    times: dict[str, int]

    @property
    def complete(self) -> bool:
        """True if all states are confirmed."""
        return self.confirmed_states == self.states

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes and `complete` as values that JSON can express."""
        content = asdict(self)
        return content | {
            "unconfirmed": self.unconfirmed.tolist(), "unsent": self.unsent.tolist(), "complete": self.complete
        }  # fmt: skip


def report_of(host: OldHost, states: States, position: int, forwarded: int, waiting: int) -> Report:
    """Return the report of a migration.

    Parameters
    ----------
    host
        The old host's side.
    states, position
        The state that was to move, and the position of the cut.
    forwarded, waiting
        Number of events that were forwarded, and that were not.
    """
    sent = np.array(host.sent, np.int64)
    unsent = np.ones(len(states), np.bool_)
    unsent[sent] = False
    confirmed, schedule, meter = host.confirmed_states, host.schedule, host.meter
    return Report(
        len(states), states.total_utility,
        0 if schedule is None else schedule.planned_states, 0.0 if schedule is None else schedule.planned_utility,
        len(sent), host.sent_bytes, float(states.utility[sent].sum()),
        confirmed, host.confirmed_bytes, float(states.utility[sent[:confirmed]].sum()),
        sent[confirmed:], np.flatnonzero(unsent).astype(np.int64), host.late, 0 if schedule is None else schedule.plans,
        None if meter.bandwidth is None else int(meter.bandwidth), int(1e9 * meter.latency),
        position + forwarded if host.confirmed_position is None else host.confirmed_position, forwarded, waiting,
        host.done, {phase: int(1e9 * time) for phase, time in host.times.items()},
    )  # fmt: skip
