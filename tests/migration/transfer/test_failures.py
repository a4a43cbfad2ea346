"""Hosts that refuse, operators that fail, links that die, and migrations that are aborted."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from migration.transfer.counter import Counter, CounterStates, events, filled
from migration.transfer.hosts import KEY, begin, new_host
from migration.transfer.middle import Middle, only

import fastcep as fc
from fastcep.migration import send
from fastcep.migration.transfer.frames import Kind
from fastcep.migration.transfer.new_host import NewHost


class Unusable(CounterStates):
    def __init__(self, counter: Counter, **parts: Any) -> None:
        super().__init__(counter)
        vars(self).update(parts)


@pytest.mark.parametrize(
    ("parts", "options", "message"),
    [
        ({"kind": "sorter"}, {}, "operators of the kind 'sorter' are not accepted here"),
        ({"base": lambda: b"nothing"}, {}, "the base is no counter"),
        ({"base": lambda: b"base " + b"1" * 5000}, {"limit": 4000}, "the base has 5,005 bytes, expected at most 4,000"),
        ({"encode": lambda numbers: b"no Arrow"}, {}, "no states of a counter"),
        ({"encode": lambda numbers: b"x" * 600_000}, {"limit": 500_000}, "bytes or more, expected at most 500,000"),
        ({}, {"options": {"build_error": "the states do not fit"}}, "the states do not fit"),
    ],
)
def test_a_state_that_the_new_host_refuses(parts: dict[str, Any], options: dict[str, Any], message: str) -> None:
    counter, twin = filled(5), filled(5)
    with new_host(**options) as host:
        with begin(counter, host.address, states=Unusable(counter, **parts)) as migration:
            results = migration.process(events(1, 1))
            with pytest.raises(fc.MigrationError, match=message) as caught:
                migration.finish()
            assert caught.value.owner == "old"
            assert [*results, *caught.value.matches] == [twin.process(events(1, 1))]
            assert counter.state == twin.state
        with pytest.raises(fc.MigrationError, match=message):
            host.received()


def test_a_batch_that_the_new_operator_rejects_goes_to_the_old_one() -> None:
    counter = filled(5)
    with new_host() as host, begin(counter, host.address) as migration:
        assert migration.process(events(1)) == []
        assert migration.process({"key": [1, None]}) == []
        assert migration.process(events(2)) == []
        rejected = "the old operator rejected a batch that was held back: key: null"
        with pytest.raises(fc.MigrationError, match=rejected) as caught:
            migration.finish()
        assert caught.value.owner == "old" and isinstance(caught.value.__cause__, fc.DataError)
        results = [*caught.value.matches, *migration.process(events(3))]
        assert [[key for key, _ in result] for result in results] == [[1], [2], [3]]
        with pytest.raises(fc.MigrationError, match="refused the state: key: null"):
            migration.finish()
        assert "key: null" in str(host.outcome())


def test_an_error_of_the_states_is_raised() -> None:
    def encode(numbers: Any) -> bytes:
        raise ZeroDivisionError

    counter = filled(5)
    with new_host() as host, begin(counter, host.address, states=Unusable(counter, encode=encode)) as migration:
        with pytest.raises(fc.MigrationError, match=r"ZeroDivisionError\(\). The old host keeps the state") as caught:
            migration.finish()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert migration.owner == "old" and len(migration.process(events(1))) == 1
        assert "the old host ended the migration: ZeroDivisionError" in str(host.outcome())


def test_abort() -> None:
    counter, twin = filled(5), filled(5)
    with new_host() as host:
        with begin(counter, host.address) as migration:
            assert migration.process(events(1)) == []
            assert migration.abort() == [twin.process(events(1))]
            assert migration.process(events(2)) == [twin.process(events(2))]
            assert migration.abort() == []
            with pytest.raises(fc.MigrationError, match=r"the migration was aborted. The old host keeps the state"):
                migration.finish()
        assert counter.state == twin.state


def test_leaving_the_block_aborts() -> None:
    counter, twin = filled(5), filled(5)
    with new_host() as host:
        with begin(counter, host.address) as migration:
            migration.process(events(1))
        assert migration.owner == "old"
        assert migration.process(events(2)) == [twin.process(events(1)), twin.process(events(2))]
        assert counter.state == twin.state


def test_after_the_end_nothing_can_be_aborted() -> None:
    with new_host() as host, begin(filled(2), host.address) as migration:
        with pytest.raises(fc.MigrationError, match=r"the migration goes on. The old host keeps"):
            migration.take_back()
        migration.finish()
        for call in (migration.abort, migration.take_back):
            with pytest.raises(fc.MigrationError, match="the new host has taken over") as caught:
                call()
            assert caught.value.owner == "new"
        assert host.received().complete


@pytest.mark.parametrize("track", ["single", "parallel"])
def test_the_buffer_is_bounded(track: str) -> None:
    """No event can be forwarded, because the base is not ready; the old operator continues without a gap."""
    counter, twin = filled(5), filled(5)
    release = threading.Event()

    def base() -> bytes:
        release.wait()
        return b"base 0"

    batches = [events(*[number] * 100) for number in range(5)]
    with new_host() as host:
        states = Unusable(counter, base=base)
        with begin(counter, host.address, states=states, track=track, buffer_limit=2000) as migration:
            results = migration.process(batches[0]) + migration.process(batches[1])
            threading.Timer(0.05, release.set).start()  # the thread of `base` has to end
            for batch in batches[2:]:
                results += migration.process(batch)
            assert results == [twin.process(batch) for batch in batches]
            with pytest.raises(
                fc.MigrationError, match=r"the events held back exceed buffer_limit.*Raise buffer_limit"
            ):
                migration.finish()
        assert counter.state == twin.state


def test_in_parallel_events_that_are_forwarded_need_no_buffer() -> None:
    counter = filled(5)
    with new_host() as host, begin(counter, host.address, track="parallel", buffer_limit=900) as migration:
        for number in range(10):
            while migration.report().unforwarded_events:
                time.sleep(0.001)
            migration.process(events(*[number] * 100))
        report = migration.finish()
        assert (report.forwarded_events, host.received().operator.counts) == (1000, counter.counts)


def test_an_old_operator_that_fails_in_parallel_ends_the_migration() -> None:
    class Failing(Counter):
        def process(self, data: Any, start: int = 0) -> list[tuple[int, int]]:
            raise ArithmeticError("overflow")

    with new_host() as host, begin(Failing(), host.address, track="parallel") as migration:
        with pytest.raises(ArithmeticError):
            migration.process(events(1))
        with pytest.raises(fc.MigrationError, match="the old operator failed in a batch of events"):
            migration.finish()


class TestHandOver:
    """The old host is expected to be lost."""

    def test_all_states_arrive(self) -> None:
        counter = filled(20, 300)
        with new_host() as host:
            with begin(counter, host.address, on_disconnect="hand_over") as migration:
                assert migration.process(events(1)) == []
                report = migration.finish()
            received = host.received()
        assert (received.complete, received.interrupted, report.handed_over) == (True, None, True)
        assert received.matches == [[(1, counter.counts[1] + 1)]]
        assert received.position == report.position == counter.position + 1

    @pytest.mark.parametrize("number", [1, 5])
    def test_the_new_host_resumes_with_what_arrived(self, number: int) -> None:
        """The link dies after some frames of states; one state is in each of them."""
        counter = filled(20, 60_000)
        states = CounterStates(counter, {key: float(key) for key in range(20)})
        with new_host() as host:
            middle = Middle(host.address, only(Kind.STATES, lambda data: None, number))
            with begin(counter, middle.address, states=states, on_disconnect="hand_over") as migration:
                migration.process(events(1))
                with pytest.raises(fc.MigrationError, match="the old operator has stopped") as caught:
                    migration.finish()
                received = host.received()
                error = caught.value
                assert error.owner in ("new", "unknown") and error.matches == ()
                assert received.interrupted is not None and not received.complete
                arrived = received.states.tolist()
                assert arrived == states.encoded[: len(arrived)] and len(arrived) >= 1
                assert set(arrived) | set(error.report.unconfirmed.tolist()) >= set(states.encoded)
                assert received.operator.counts == {states.keys[n]: counter.counts[states.keys[n]] for n in arrived}
                assert received.position == states.position
                with pytest.raises(fc.MigrationError, match="states that were sent, and 1 events"):
                    migration.process(events(2))
                with pytest.raises(fc.MigrationError, match="old operator has stopped"):
                    migration.abort()

    def test_before_the_first_states_the_old_host_keeps_the_state(self) -> None:
        counter, twin = filled(5), filled(5)
        with new_host() as host:
            middle = Middle(host.address, from_new=only(Kind.READY, lambda data: None))
            with begin(counter, middle.address, on_disconnect="hand_over") as migration:
                migration.process(events(1))
                with pytest.raises(fc.MigrationError) as caught:
                    migration.finish()
                assert caught.value.owner == "old"
                assert caught.value.matches == (twin.process(events(1)),)
            assert isinstance(host.outcome(), fc.MigrationError)

    def test_the_new_host_resumes_at_the_deadline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The link stalls after a state, and nobody closes it. The deadline passes when that has happened."""
        counter = filled(20, 60_000)
        stalled = threading.Event()

        def stall(kind: Kind, data: bytes) -> bytes:
            if stalled.is_set():
                return b""
            if kind == Kind.STATES and data[4] == Kind.STATES:  # the last piece of a message
                stalled.set()
            return data

        async def deadline_passed(self: NewHost) -> None:
            while not (stalled.is_set() and self._states):
                await asyncio.sleep(0.01)

        monkeypatch.setattr(NewHost, "_deadline_passed", deadline_passed)
        with new_host(timeout="600s") as host:
            middle = Middle(host.address, stall)
            with begin(
                counter, middle.address, on_disconnect="hand_over", deadline="600s", bandwidth="1MB", timeout="600s"
            ) as migration:
                received = host.received()
                assert received.interrupted == "the deadline passed"
                assert received.states.tolist() == migration._parts.encoded[: received.states_received]
                assert received.states_received >= 1
                report = migration.finish()
        assert report.confirmed_states == received.states_received and report.handed_over

    def test_an_operator_that_cannot_be_built_stays(self) -> None:
        counter, twin = filled(5), filled(5)
        with new_host(options={"build_error": "no"}) as host:
            with begin(counter, host.address, on_disconnect="hand_over") as migration:
                migration.process(events(1))
                with pytest.raises(fc.MigrationError, match="the new host refused the state: no") as caught:
                    migration.finish()
                assert caught.value.owner == "old" and caught.value.matches == (twin.process(events(1)),)
            outcome = host.outcome()
            assert isinstance(outcome, fc.MigrationError) and outcome.owner == "none"

    def test_no_states_and_no_deadline_left(self) -> None:
        with new_host() as host:
            with pytest.raises(fc.MigrationError, match="no state can arrive before the deadline") as caught:
                send(CounterStates(filled(9)), host.address, key=KEY, deadline="0s")
            assert caught.value.owner == "old" and caught.value.report.unsent.tolist() == list(range(9))
            assert "no state can arrive before the deadline" in str(host.outcome())
