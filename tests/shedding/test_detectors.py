"""Detectors: worked numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from fastcep.errors import ValidationError
from fastcep.overload.demand import DemandControl
from fastcep.overload.latency import LatencyMonitor
from fastcep.overload.offered_load import OfferedLoad
from fastcep.shedding import Load, MemoryUse, PredictedLatency, QueueLength, SmoothedLatency
from fastcep.shedding.detectors import rounded

BOUND = 500_000.0


def test_the_mean_is_that_since_the_last_decision() -> None:
    reading = SmoothedLatency(set_point=0.8).read(Load(BOUND, smoothed=9e9, recent=500_000))
    assert reading.excess == pytest.approx(0.25)
    assert reading.why == "processing latency (mean) 500us, set point 400us"
    assert (reading.utilisation, reading.amount) == (None, None)
    below = SmoothedLatency().read(Load(BOUND, recent=BOUND * 0.985 / 2))
    assert below.excess == pytest.approx(-0.5)


def test_percentiles_are_smoothed_ones() -> None:
    detector = SmoothedLatency("p95", set_point=1.0)
    assert detector.statistic == "p95"
    assert detector.read(Load(BOUND, smoothed=750_000, recent=1)).excess == pytest.approx(0.5)


def test_intervals_longer_than_the_time_constant_are_remembered() -> None:
    """An interval at the bound follows one that was 4 % above it: a third of the excess still counts."""
    for events in (100_000, 1_000_000):
        detector = SmoothedLatency(set_point=1.0)
        detector.read(Load(BOUND, recent=BOUND, events=1, shedding=True))
        detector.read(Load(BOUND, recent=1.04 * BOUND, events=events, shedding=True))
        left = detector._overdrawn_share(Load(BOUND, recent=BOUND, events=events))
        assert left == pytest.approx(0.04 * 0.5134 / 1.5134, rel=0.01)


@pytest.mark.parametrize(
    ("statistic", "at", "above"),
    [("mean", {"recent": BOUND}, {"recent": 1.02 * BOUND}), ("p95", {"over": 0.048}, {"over": 0.048 * 1.02})],
)
def test_what_was_used_too_much_is_paid_back(statistic: str, at: dict[str, float], above: dict[str, float]) -> None:
    """Two hundredths too much lower the set point by six times as much, until they are paid back."""
    detector = SmoothedLatency(statistic, set_point=1.0)
    before = Load(BOUND, smoothed=9 * BOUND, recent=9 * BOUND, over=1.0, events=500)
    assert detector.read(before).excess == pytest.approx(8)
    assert detector.state() == {"begun": False, "events": 0.0, "used": 0.0}  # what it takes to get there
    load = Load(BOUND, smoothed=BOUND, events=100, shedding=True)
    for name, value in at.items():
        setattr(load, name, value)
    assert detector.read(load).excess == pytest.approx(0)
    for name, value in above.items():
        setattr(load, name, value)
    for _ in range(3_000):
        reading = detector.read(load)
    latency = 1.02 if statistic == "mean" else 1.0
    assert reading.excess == pytest.approx(latency / (1 - 6 * 0.02) - 1, rel=1e-2)
    other = SmoothedLatency(statistic, set_point=1.0)
    other.restore(json.loads(json.dumps(detector.state())))
    assert other.read(load) == detector.read(load)
    load.recent, load.over, load.events = BOUND / 2, 0.0, 10_000
    other.read(load)
    assert other.read(load).why.endswith("set point 500us")


@pytest.mark.parametrize(("statistic", "begun"), [("mean", True), ("p95", False)])
def test_excess_before_shedding_takes_effect_counts_for_the_mean(statistic: str, begun: bool) -> None:
    detector = SmoothedLatency(statistic, set_point=0.8)
    load = Load(BOUND, smoothed=2 * BOUND, recent=2 * BOUND, over=1.0, events=100)
    detector.read(load)
    assert detector.state()["begun"] is False  # no load was shed for this
    load.shedding = True
    reading = detector.read(load)
    assert detector.state() == {"begun": begun, "events": 100.0 * begun, "used": begun * 100 * 2 / 0.8}
    assert reading.excess == pytest.approx(2 / (0.8 * (1 - 0.25 * begun)) - 1)


@pytest.mark.parametrize(("statistic", "most"), [("mean", 0.25), ("p95", 0.5), ("p99", 0.5)])
def test_the_set_point_is_lowered_only_so_far(statistic: str, most: float) -> None:
    detector = SmoothedLatency(statistic, set_point=1.0)
    detector.read(Load(BOUND, smoothed=BOUND, recent=BOUND, events=1, shedding=True))
    load = Load(BOUND, smoothed=9 * BOUND, recent=9 * BOUND, over=1.0, events=1000, shedding=True)
    assert detector.read(load).excess == pytest.approx(9 / (1 - most) - 1)


def test_the_longest_queue_follows_the_service_time_without_shedding() -> None:
    detector = QueueLength()
    first = detector.read(Load(BOUND, queue=10**6))
    assert (first.excess, first.utilisation) == (-1, 0)  # nothing is known yet
    reading = detector.read(Load(BOUND, busy=100, service=250, queue=1800, arrivals=1 / 200, shedding=True))
    assert detector.q_max == pytest.approx(2000)
    assert reading.excess == pytest.approx(1800 / 1600 - 1)
    assert reading.utilisation == pytest.approx(1.25)
    assert reading.why == "1,800 events wait, limit 1,600 (f = 0.8 of q_max = 2,000)"
    assert detector.read(Load(BOUND, queue=0)).excess == -1
    detector.read(Load(BOUND, service=500))
    assert detector.q_max == pytest.approx(1000)


def test_what_exceeds_the_limit_is_what_has_to_be_saved() -> None:
    """4,000 events of 250 ns wait: at the limit of 0.8 of the bound, if 0.6 of the work is saved."""
    excess = QueueLength().read(Load(BOUND, service=250, queue=4000)).excess
    assert 4000 * 250 * (1 - excess / (1 + excess)) == pytest.approx(0.8 * BOUND)


def test_what_shedding_does_not_save_leaves_less_time_for_matching() -> None:
    """4,000 events wait for 400 us at 100 ns each: 25 ns for each are for other work, and 75 of 150 are left."""
    detector = QueueLength()
    reading = detector.read(Load(BOUND, service=150, other=25, queue=4000, arrivals=1 / 85))
    assert detector.q_max == pytest.approx(BOUND / 175)
    assert reading.excess == pytest.approx(0.8 * 1.25 * BOUND / BOUND)
    assert reading.utilisation == pytest.approx(150 / 60)
    assert detector.read(Load(BOUND, service=150, other=25, queue=10**9, arrivals=1 / 20)).utilisation == 1000


def test_above_the_limit_a_rise_of_the_service_time_counts() -> None:
    """The median lags behind a rise; within the limit it counts alone, so that less is shed."""
    for detector, limit in ((QueueLength(), 1600), (QueueLength(q_max=4000), 3200)):
        below, above = (
            detector.read(Load(BOUND, service=250, growth=50, queue=queue, arrivals=1 / 200))
            for queue in (limit, limit + 1)
        )
        assert (below.utilisation, above.utilisation) == (1.25, 1.5)
    assert QueueLength().read(Load(BOUND, service=250, growth=50, queue=4000)).excess == pytest.approx(2.0)


@pytest.mark.parametrize("detector", [QueueLength(), QueueLength(q_max=4000)])
def test_near_the_bound_a_burst_counts_at_once(detector: QueueLength) -> None:
    """There is no time left to see whether the last events are an exception."""

    def utilisation(waited: float, latest: float = 1000, queue: int = 3500) -> float | None:
        load = Load(BOUND, service=250, latest=latest, waited=waited * BOUND, queue=queue, arrivals=1 / 200)
        return detector.read(load).utilisation

    assert utilisation(0.0) == 1.25 and utilisation(0.57) == pytest.approx(1.25, abs=0.05)
    assert utilisation(0.8) == pytest.approx(1.25 + 3.75 * 0.8**8)
    assert utilisation(1.0) == utilisation(3.0) == pytest.approx(5.0)
    assert utilisation(0.7, queue=1000) == 1.25  # within the limit there is time,
    assert utilisation(0.9, queue=1000) == utilisation(0.9)  # unless the events that arrived before wait for long
    assert utilisation(1.0, latest=100) == 1.25  # events that are cheap do not show that it is over


@pytest.mark.parametrize("detector", [QueueLength(), QueueLength(q_max=4000)])
def test_expensive_events_in_a_short_queue_that_wait_for_long_are_too_much(detector: QueueLength) -> None:
    """No more events arrive, but those in the queue have waited for long, and wait for longer and longer."""

    def excess(waited: float, latest: float) -> float:
        load = Load(BOUND, service=250, latest=latest, waited=waited * BOUND, queue=1000, arrivals=1 / 300)
        return detector.read(load).excess

    calm = excess(0.0, 100)
    assert calm < 0
    assert excess(0.9, 5_000) == pytest.approx(0.125)
    assert excess(1.0, 5_000) == excess(7.0, 5_000) == pytest.approx(0.25)
    assert excess(0.7, 5_000) == excess(7.0, 290) == calm  # a pause: what has arrived meanwhile is within the limit


# ------------------------------------------------ demands that take effect at once


@pytest.mark.parametrize("queue", [1_601, 2_000, 4_000])
def test_a_demand_that_takes_effect_at_once_is_what_exceeds_the_limit(queue: int) -> None:
    """The events of the queue take ``f * LB`` if it is saved; the arrival rate does not count."""
    for detector in (QueueLength(), QueueLength(q_max=2000)):
        reading = detector.read(Load(BOUND, service=250, queue=queue, arrivals=1 / 100, at_once=True))
        assert reading.amount is not None and not reading.of_present
        assert queue * (BOUND / 2000) * (1 - reading.amount) == pytest.approx(0.8 * BOUND)
        assert detector.read(Load(BOUND, service=250, queue=1_600, arrivals=1 / 100, at_once=True)).amount == 0
        assert detector.read(Load(BOUND, service=250, queue=queue, arrivals=1 / 100)).amount is None


def controlled(
    detector: QueueLength, step: float, arrivals: float, services: Sequence[float], saves: float = 1.0
) -> tuple[list[float], list[float]]:
    """Return by decision how long the last event waited, as a share of the bound of 100 ms, and the demand.

    Parameters
    ----------
    detector
        Detector of the queue.
    step, arrivals
        Time between two decisions in ns, and arrival rate in events per ns.
    services
        Time of an event without shedding in ns, by decision.
    saves
        Power of the share of the work that is left; above 1, a demand saves more than is expected of it.
    """
    bound, queue = 100e6, 0.0
    control, offered = DemandControl([detector], LatencyMonitor(1, 1, bound)), OfferedLoad(bound)
    waits, demands = [], []
    for service in services:
        left = (1 - control.demand) ** saves
        taken = min(queue + step * arrivals, step / (service * left))
        queue += step * arrivals - taken
        offered.add(round(taken), taken / arrivals, taken * service * left, 0.0, control.demand)
        measured = Load(
            bound, recent=service * left, waited=queue / arrivals, queue=round(queue), arrivals=offered.rate,
            events=round(taken), at_once=True, saved=control.demand, service=offered.service, growth=offered.growth,
            latest=offered.latest,
        )  # fmt: skip
        control.update(measured, 0.0, 8.0)
        waits.append(measured.waited / bound)
        demands.append(control.demand)
    return waits, demands


@pytest.mark.parametrize(
    ("load", "step"), [(1.1, 3e6), (1.4, 3e6), (2.0, 3e6), (5.0, 3e6), (1.1, 25e6), (1.4, 25e6)]
)
@pytest.mark.parametrize("q_max", [None, 200_000])
@pytest.mark.parametrize("saves", [0.7, 1.0, 1.3])
def test_events_wait_for_the_share_f_of_the_bound(load: float, step: float, q_max: int | None, saves: float) -> None:
    """A queue in front of work of 500 ns an event, of which a demand saves less or more than is expected of it.

    If more is saved than expected, a queue of a given ``q_max`` takes less time.
    """
    service = 500.0
    waits, demands = controlled(QueueLength(q_max=q_max), step, load / service, [service] * round(3e9 / step), saves)
    last = round(1e9 / step)
    needed = 1 - (1 / load) ** (1 / saves)
    assert demands[-last:] == pytest.approx([needed] * last, abs=0.01)
    waited = 0.8 if q_max is None or saves <= 1 else 0.8 * (1 / load) ** (1 - 1 / saves)
    assert waits[-last:] == pytest.approx([waited] * last, abs=0.01)
    assert max(waits) < 1


@pytest.mark.parametrize("f", [0.2, 0.8])
def test_more_is_demanded_if_events_wait_for_longer_all_the_same(f: float) -> None:
    """But not after a pause: the queue becomes shorter by itself, and what is above the limit is enough."""

    def left(room: float, load: float = 1.25, queue: float = 1.0) -> float:
        """Return the share of the work that is left, if an event waited for this share of the room above ``f * LB``."""
        waited = (f + room * (1 - f)) * BOUND
        measured = Load(
            BOUND, service=250, waited=waited, queue=round(f * queue * 2000), arrivals=load / 250, at_once=True
        )
        reading = QueueLength(f).read(measured)
        assert reading.amount is not None
        return 1 - reading.amount

    assert left(-0.5) == left(0) == 1 and left(0, queue=2) == pytest.approx(0.5)
    assert left(0.001) == pytest.approx(1 / 1.25, abs=0.001)  # the queue does not become longer
    assert left(0.375) == pytest.approx(0.75 / 1.25) and left(0.375, queue=2) == pytest.approx(0.5)
    assert left(0.2) > left(0.3) > left(0.5) > left(0.7) > left(0.75) == left(1) == left(5)
    assert left(5) == pytest.approx(0.02 / 1.25)
    assert left(5, load=0.9) == 1 and left(5, load=0.9, queue=2) == pytest.approx(0.5)


def test_a_longest_queue_in_events_is_also_limited_in_time() -> None:
    load = Load(BOUND, service=250, queue=3_200, at_once=True)
    assert QueueLength(q_max=4_000).read(load).amount == pytest.approx(0.5)


@pytest.mark.parametrize("load", [1.4, 3.0])
@pytest.mark.parametrize("rise", [3, 10, 100])
def test_a_rise_of_the_cost_is_noticed_before_the_bound_is_missed(load: float, rise: int) -> None:
    """A mean over recent events, most of which were cheap, does not show it in time."""
    waits, _ = controlled(QueueLength(), 3e6, 1 / 500, [500.0 * load / rise] * 500 + [500.0 * load] * 500)
    assert max(waits[:500]) < 0.85 and max(waits) < 1
    assert waits[-100:] == pytest.approx([0.8] * 100, abs=0.03)


def test_what_is_left_of_nearly_everything_saved_shows_no_cost() -> None:
    """It is mostly work that no shedder saves."""
    detector = QueueLength()
    for _ in range(200):
        detector.read(Load(BOUND, service=250, recent=250, events=100, at_once=True))
    for _ in range(200):
        detector.read(Load(BOUND, service=250, recent=100, events=100, saved=0.96, at_once=True))
    assert detector.q_max == pytest.approx(2000)
    for _ in range(200):
        detector.read(Load(BOUND, service=250, recent=100, events=100, saved=0.94, at_once=True))
    assert detector.q_max < 500


def test_the_nearer_to_the_bound_the_more_the_last_events_count() -> None:
    def utilisation(waited: float, latest: float = 450) -> float | None:
        load = Load(BOUND, service=250, recent=250, events=100, latest=latest, waited=waited * BOUND, queue=1,
                    arrivals=1 / 250, at_once=True)  # fmt: skip
        return QueueLength().read(load).utilisation

    assert utilisation(0.8) == utilisation(0.95, latest=200) == pytest.approx(1)
    assert utilisation(0.875) == pytest.approx((250 + 200 / 4) / 250)
    assert utilisation(0.951) == utilisation(7) == pytest.approx(450 / 250)


def test_if_decisions_are_far_apart_the_rate_counts() -> None:
    """A demand that follows the backlog alone would oscillate."""
    near, far = (
        QueueLength().read(
            Load(BOUND, service=250, busy=250, queue=2000, arrivals=1 / 200, events=events, at_once=True)
        ).amount
        for events in (1_600, 1_601)
    )  # fmt: skip
    assert near == pytest.approx(0.2) and far is None


def test_room_is_added_for_waits_near_the_bound() -> None:
    """The room above ``f * LB`` that is needed depends on the stream and on the machine."""
    detector, later = QueueLength(q_max=2000), QueueLength(q_max=2000)

    def share(waited: float, arrivals: float = 1 / 249) -> str:
        load = Load(BOUND, service=250, waited=waited * BOUND, queue=1, events=100, arrivals=arrivals, at_once=True)
        return detector.read(load).why[len("1 events wait, limit ") :].partition("(f = ")[2].partition(" ")[0]

    assert share(0.97) == share(2.0, arrivals=1 / 251) == "0.8"  # a pause
    assert share(0.985) == "0.64" and share(2.0) == "0.48"
    assert float(share(0.0)) < 0.5
    for _ in range(20_000):
        share(0.0)
    assert share(0.0) == "0.8"
    load = Load(BOUND, service=250, waited=BOUND, queue=1, events=100, arrivals=1 / 249)
    assert "f = 0.8 " in later.read(load).why and "f = 0.8 " in later.read(load).why


def test_on_the_wall_clock_there_is_more_room_at_first() -> None:
    """At the beginning of the first overload it is not known how long the machine may interrupt."""
    detector, again = QueueLength(), QueueLength()

    def share(arrivals: float, events: int = 1, detector: QueueLength = detector) -> str:
        load = Load(BOUND, service=250, waited=BOUND / 2, queue=1, events=events, arrivals=arrivals, at_once=True,
                    on_wall_clock=True)  # fmt: skip
        return detector.read(load).why.partition("(f = ")[2].partition(" ")[0]

    assert share(1 / 251) == "0.8" and share(1 / 249) == "0.48"
    again.restore(json.loads(json.dumps(detector.state())))
    assert share(1 / 249, events=60_000) == share(1 / 249, 60_000, again) != "0.48"
    assert share(1 / 249, events=60_000) == "0.8"
    again.restore(QueueLength().state())
    assert share(1 / 249, 1, again) == "0.48"


@pytest.mark.parametrize("f", [0.05, 0.5, 0.9])
def test_some_queue_is_left_whatever_the_room(f: float) -> None:
    load = Load(BOUND, service=250, waited=BOUND, queue=1, events=100, arrivals=1 / 249, at_once=True)
    assert f"f = {0.6 * f:.3g} " in QueueLength(f).read(load).why


def test_a_state_after_any_demand_can_be_restored() -> None:
    detector, again = QueueLength(q_max=1), QueueLength(q_max=1)
    detector.read(Load(BOUND, service=250, queue=10**12, arrivals=1 / 200, at_once=True))
    again.restore(json.loads(json.dumps(detector.state())))
    assert again.state() == detector.state()


def test_events_are_expected_to_take_what_they_took_recently() -> None:
    """As a mean, so that few expensive events count; what was shed is added. The median counts for other shedders."""
    at_once, later = QueueLength(), QueueLength()
    for _ in range(2_000):
        for recent, demand in ((50.0, 0.0), (225.0, 0.5)):  # 50 and 450 ns without shedding
            for detector, kind in ((at_once, True), (later, False)):
                load = Load(BOUND, recent=recent, saved=demand, service=300, events=10, at_once=kind)
                detector.read(load)
    assert later.q_max == pytest.approx(BOUND / 300)
    assert at_once.q_max == pytest.approx(BOUND / (275 / 1.5), rel=0.01)  # 275 ns for one and a half events
    again = QueueLength()
    again.restore(json.loads(json.dumps(at_once.state())))
    dearer = Load(BOUND, recent=1000, service=300, events=100, at_once=True)
    assert again.read(dearer) == at_once.read(dearer) and again.q_max == at_once.q_max
    for _ in range(100):
        at_once.read(Load(BOUND, recent=100, service=300, events=400, at_once=True))
    assert at_once.q_max == pytest.approx(BOUND / 100, rel=0.02)  # they count for 1.5 bounds


def test_while_everything_is_dropped_the_last_measurement_counts() -> None:
    detector = QueueLength()
    assert detector.read(Load(BOUND, service=250, events=100, at_once=True)).utilisation == 0
    assert detector.q_max == pytest.approx(2000)  # nothing was measured yet
    for _ in range(100):
        detector.read(Load(BOUND, service=250, recent=500, events=100, at_once=True))
    for _ in range(10):
        detector.read(Load(BOUND, service=250, recent=0, events=1000, saved=0.94, at_once=True))
    assert detector.q_max == pytest.approx(1000, rel=0.01)


def test_an_older_state_of_a_queue_is_taken() -> None:
    old = {name: value for name, value in QueueLength().state().items() if name in ("bound", "service", "other")}
    detector = QueueLength()
    detector.restore(old | {"bound": BOUND, "service": 250.0})
    assert detector.q_max == pytest.approx(2000)
    detector.restore(old | {"bound": BOUND, "service": 500.0, "left": 0.5, "mean": 9.0, "averaged": 3.0, "peak": 1.0})
    assert detector.q_max == pytest.approx(1000)


# ------------------------------------------------------------------ given queues


def test_a_given_longest_queue_is_taken() -> None:
    detector = QueueLength(f=0.5, q_max=100)
    assert detector.read(Load(BOUND, queue=75)).excess == pytest.approx(0.5)
    assert detector.read(Load(BOUND, queue=50)).excess == 0


def test_windows_are_cut_so_that_a_part_fits_into_the_queue() -> None:
    """ALGORITHMS: with q_max = 2,000 and f = 0.8 there is room for 400 events."""
    detector = QueueLength(f=0.8, q_max=2000)
    assert [detector.partitions(size) for size in (1, 400, 401, 2000)] == [1, 1, 2, 5]
    assert detector.amount(2000, 1.25) == pytest.approx(400 * 0.2)
    assert detector.amount(2000, 2.0) == pytest.approx(200)
    assert detector.amount(2000, 1.0) == 0 and detector.amount(2000, 0.5) == 0
    assert QueueLength().partitions(1000) == 1


def test_memory() -> None:
    reading = MemoryUse(share=0.5).read(Load(0.0, memory=800, memory_limit=1000))
    assert reading.excess / (1 + reading.excess) == pytest.approx(0.8)  # of three quarters of the room
    assert reading.amount is None and reading.utilisation == 0
    assert reading.why == "800 bytes are held, limit 500 (0.5 of memory_limit)"
    below = MemoryUse().read(Load(0.0, memory=450, memory_limit=1000))
    assert below.excess == pytest.approx(-6) and below.utilisation == 0
    full = MemoryUse().read(Load(0.0, memory=999, memory_limit=1000))
    assert full.excess / (1 + full.excess) > 0.999
    with pytest.raises(ValidationError, match="needs a limit; give the engine memory_limit"):
        MemoryUse().read(Load(0.0, memory=1))


def trained(detector: PredictedLatency) -> PredictedLatency:
    for n in range(10, 110, 10):
        detector.read(Load(BOUND, recent=1000.0 + 50 * n, partial_matches=n, events=100))
    return detector


def test_before_there_are_samples_the_measured_latency_stands_for_itself() -> None:
    reading = PredictedLatency(buffer="100us").read(
        Load(BOUND, recent=300_000, waited=200_000, partial_matches=50, events=1)
    )
    assert reading.excess == pytest.approx(0.2) and reading.amount is None


def test_prediction_drops_what_does_not_fit_into_the_time_left() -> None:
    """f(n) = 1,000 + 50 n; 5,000 left for processing: 80 fit, of 100."""
    detector = trained(PredictedLatency())
    reading = detector.read(Load(6000.0, waited=1000, partial_matches=100))
    assert reading.excess == pytest.approx((1000 + 6000) / 6000 - 1)
    assert reading.amount == pytest.approx(0.2)
    what = "predicted latency 7us (1us in the queue, 6us to process, 0ns to shed, 0ns buffer), bound 6us"
    assert reading.why == what
    assert detector.read(Load(7000.0, waited=1000, partial_matches=100)).amount is None  # just fits
    assert detector.read(Load(1500.0, waited=1000, partial_matches=100)).amount == 1.0  # not even none fit


def test_prediction_foresees_how_long_events_wait_until_the_next_decision() -> None:
    """6,000 per event and one in 4,000: after 10 more events the last one waits for 20,000 longer."""
    detector = trained(PredictedLatency())
    load = Load(30_000.0, recent=6000.0, waited=1000, partial_matches=100, events=10, arrivals=1 / 4000)
    assert detector.read(load).excess == pytest.approx(27_000 / 30_000 - 1)
    load.arrivals = 1 / 8000
    assert detector.read(load).excess == pytest.approx(7_000 / 30_000 - 1)


@pytest.mark.parametrize("waited", [14_000, 20_000, 26_000, 28_000])
def test_as_many_stay_as_the_queue_allows_until_the_next_decision(waited: float) -> None:
    """One event in 3,000, 10 until the next decision, bound 29,000: the last of them just reaches the bound."""
    detector = trained(PredictedLatency())
    load = Load(29_000.0, recent=6000.0, waited=waited, partial_matches=100, events=10, arrivals=1 / 3000)
    longest = (29_000 - waited + 10 * 3000) / 11
    assert detector.read(load).amount == pytest.approx(1 - (longest - 1000) / 50 / 100)
    assert waited + 10 * (longest - 3000) + longest == pytest.approx(29_000)


def test_nothing_stays_if_the_next_event_is_late() -> None:
    detector = trained(PredictedLatency())
    load = Load(29_000.0, recent=6000.0, waited=29_001, partial_matches=100, events=10, arrivals=1 / 3000)
    assert detector.read(load).amount == 1.0


def test_the_error_of_predictions_is_added_to_the_buffer() -> None:
    """The largest one, which is forgotten by and by."""
    detector = trained(PredictedLatency())
    load = Load(BOUND, recent=6000.0, waited=0, partial_matches=100, events=10, arrivals=1 / 4000)
    detector.read(load)
    for waited, buffer in ((21_000, "1us"), (40_000, "800ns"), (60_000, "640ns"), (81_000, "1us"), (90_000, "800ns")):
        load.waited = waited
        assert f"0ns to shed, {buffer} buffer" in detector.read(load).why


def test_what_decisions_cost_and_the_buffer_count() -> None:
    detector = trained(PredictedLatency(buffer="500ns"))
    for n in range(10, 110, 10):
        detector.note_decision(n, 10.0 * n)
    reading = detector.read(Load(6000.0, partial_matches=100))
    assert reading.excess == pytest.approx((6000 + 1000 + 500) / 6000 - 1)
    assert reading.amount == pytest.approx(1 - (4500 - 1000) / 50 / 100)


def test_a_latency_that_does_not_depend_on_partial_matches_says_no_amount() -> None:
    detector = PredictedLatency()
    for n in range(10):
        detector.read(Load(BOUND, recent=1000.0, partial_matches=n, events=1))
    reading = detector.read(Load(500.0, partial_matches=5))
    assert reading.excess == pytest.approx(1) and reading.amount is None


def test_old_samples_are_forgotten() -> None:
    detector = trained(PredictedLatency(samples=10, refit=10))
    for n in range(10, 110, 10):
        detector.read(Load(BOUND, recent=100.0 * n, partial_matches=n, events=100))
    assert detector.read(Load(5000.0, partial_matches=100)).amount == pytest.approx(0.5)


def test_what_is_learned_can_be_stored() -> None:
    load = Load(4000.0, recent=300.0, partial_matches=77, events=9, queue=5)
    prediction, queue = trained(PredictedLatency()), QueueLength()
    prediction.note_decision(3, 4.0)
    for waited in (100.0, 900.0):
        prediction.read(Load(BOUND, recent=300.0, waited=waited, partial_matches=7, events=9, arrivals=0.01))
    queue.read(Load(BOUND, service=250))
    other, longest = PredictedLatency(), QueueLength()
    other.restore(json.loads(json.dumps(prediction.state())))
    longest.restore(json.loads(json.dumps(queue.state())))
    assert longest.q_max == queue.q_max
    for _ in range(120):
        assert other.read(load) == prediction.read(load)
        assert longest.read(load) == queue.read(load)
    assert SmoothedLatency().state() == {"begun": False, "events": 0.0, "used": 0.0}


@pytest.mark.parametrize(
    ("ns", "text"), [(0, "0ns"), (7, "7ns"), (1234.5, "1.234us"), (493_234, "493.2us"), (8e9, "8s"), (0.3, "0.3ns")]
)
def test_durations_for_people(ns: float, text: str) -> None:
    assert rounded(ns) == text
