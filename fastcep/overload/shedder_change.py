"""Change the shedder of a control, let it sleep, and check the stored state of a control."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

from fastcep.errors import SnapshotError
from fastcep.overload.backlog_limit import BacklogLimit
from fastcep.overload.clock import VirtualClock, WallClock
from fastcep.overload.costs import CostTable
from fastcep.overload.decision_schedule import DecisionSchedule, RestSchedule
from fastcep.overload.demand import DemandControl
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.latency import LatencyMonitor
from fastcep.overload.load import Load
from fastcep.overload.protocols import NEED_BOUND, Detector, Shedder
from fastcep.overload.query_shedding import QueryShedding
from fastcep.overload.sleep import Sleep
from fastcep.overload.validation import checked_classes
from fastcep.overload.work_limit import WorkLimit
from fastcep.plan import Plan
from fastcep.query.patterns import pattern_variables
from fastcep.stored import COUNT, anything, by_name, listed, or_null, record, sequence

__all__ = ["ShedderChange", "check_control_state"]


class ShedderChange:
    """Base class of `Control`: change the shedder, sleep and wake. `Control` describes the attributes."""

    clock: WallClock | VirtualClock
    table: CostTable
    bound: float | None
    shedder: Shedder | None
    monitor: LatencyMonitor
    queries: list[QueryShedding]
    sleep: Sleep
    _load: Load
    _demand: DemandControl
    _schedule: DecisionSchedule
    _work_limit: WorkLimit
    _backlog: BacklogLimit

    def change(self, shedder: Shedder | None, detectors: Sequence[Detector]) -> None:
        """Use another shedder from now on; the caller plans the queries again and calls `use`.

        Parameters
        ----------
        shedder
            The new shedder, or None.
        detectors
            New detectors; those in use stay if the sequence is empty and there is a shedder.
        """
        if self.shedder is not None:
            self.shedder.stop_shedding()
        self.shedder = shedder
        used = list(detectors) or ([] if shedder is None else self.detectors)
        if detectors or shedder is None:
            self._demand = DemandControl(used, self.monitor)
        elif self._work_limit.suspended:
            self._demand.begin(0.0)
        self._restart_schedule()
        self._work_limit = WorkLimit(self.bound, used)
        self._backlog.reset()

    def _switch_limit(self, plans: Sequence[DropPlan]) -> None:
        """Suspend the work limit, or impose it, as the drop plans say."""
        demand = min((drop_plan.demand_without_limit for drop_plan in plans), default=0.0)
        suspended = demand > 0 and not any(drop_plan.work_limit for drop_plan in plans)
        if self._work_limit.suspend(self.queries, demand, suspended):
            self._demand.begin(demand if suspended else 0.0)

    def _limit_work(self) -> None:
        """Limit the work for the present queries; drops that were to hold the bound without a limit end."""
        if self._work_limit.use(self.queries, self.shedder is not None and self.shedder.cuts):
            self._demand.begin(0.0)
            if self.shedder is not None:
                self.shedder.stop_shedding()
            for query in self.queries:
                query.apply(DropPlan(), 0)

    @property
    def can_sleep(self) -> bool:
        """True if the shedder is needed only once a detector's reading approaches its set point.

        On the virtual clock it is always ready, because what it costs to be ready is not modelled. A limit of the work
        for single events, or of memory, must hold from the start.
        """
        shedder, detectors = self.shedder, self.detectors
        return (
            shedder is not None
            and not shedder.observes
            and isinstance(self.clock, WallClock)
            and all(detector.name in NEED_BOUND for detector in detectors)
            and not (shedder.cuts and any(detector.allowed for detector in detectors))
        )

    def _sleep_or_wake(self, sheds: bool) -> int:
        """Fall asleep or wake up if the last readings require it; return the ns that this took."""
        began, weighs = perf_counter_ns(), any(query.weighs for query in self.queries)
        if not self.sleep.follow(sheds, self._demand.readings, self._load, weighs):
            return 0
        return perf_counter_ns() - began

    def check_clock(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` if a `Control.state` was taken on the other kind of clock."""
        if isinstance(self.clock, VirtualClock) != (state["clock"] is not None):
            here, there = ("wall", "virtual") if state["clock"] is not None else ("virtual", "wall")
            raise SnapshotError(f"the snapshot is of an engine with clock={there!r}, this one has {here!r}")

    def set_asleep(self, asleep: bool) -> None:
        """Sleep, or be ready to shed, from now on; the caller plans the queries again and calls `use`."""
        self.sleep.asleep = asleep
        self._restart_schedule()

    def _restart_schedule(self) -> None:
        """Begin a new schedule of decisions, as the costs of the earlier ones do not count any more."""
        schedule = self._new_schedule()
        schedule.overhead = self._schedule.overhead
        self._schedule = schedule

    def _new_schedule(self) -> DecisionSchedule:
        """Return the schedule of decisions for the shedder; one that only observes makes none."""
        decides = self.shedder is not None and not self.shedder.observes
        often = self.shedder is not None and self.shedder.often
        decision = self.table.decision if isinstance(self.clock, VirtualClock) else None
        kind = RestSchedule if self.sleep.asleep else DecisionSchedule
        return kind(decides, often, self.bound or 0.0, decision)

    @property
    def detectors(self) -> list[Detector]:
        """The detectors in use."""
        return self._demand.detectors

    def unknown_classes(self, plan: Plan) -> list[int]:
        """Return the class for unknown values of each state of a plan."""
        if self.shedder is None or not self.shedder.drops_matches:
            return [0] * len(plan.states)
        classes = checked_classes(self.shedder, plan.query, "classes")
        names = [variable.name for variable in pattern_variables(plan.query.pattern)]
        found = [classes.get(names[state.variable]) if state.features else None for state in plan.states]
        return [0 if item is None else item.other for item in found]


def check_control_state(state: dict[str, Any], loops: int, queries: int) -> None:
    """Raise `Misfit` if this is not a state of a control with these numbers of detectors and queries."""
    record(
        {
            "specs": anything, "learned": listed(by_name(anything), loops), "demand": anything, "decisions": COUNT,
            "shedder": or_null(by_name(anything)), "clock": or_null(by_name(anything)),
            "monitor": by_name(anything), "measured": anything, "episodes": anything, "pace": anything,
            "queries": listed(by_name(anything), queries),
        },
        {"cut": anything, "backlog": anything, "renewal": COUNT, "before": sequence(COUNT, COUNT), "sleep": anything},
    )(state, "control")  # fmt: skip
