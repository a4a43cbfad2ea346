"""Frames that are changed, cut off, repeated, left out, reordered or sent back are refused at every step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from migration.transfer.counter import Counter, events, filled
from migration.transfer.hosts import begin, new_host
from migration.transfer.middle import Change, Middle, flip, only, unchanged

import fastcep as fc
from fastcep.migration.transfer.frames import CODE, HEADER, Kind

FROM_OLD = (
    Kind.HELLO, Kind.PROOF, Kind.OFFER, Kind.BASE, Kind.PAD, Kind.STATES, Kind.EVENTS, Kind.END, Kind.COMMIT,
)  # fmt: skip
FROM_NEW = (Kind.CHALLENGE, Kind.WELCOME, Kind.READY, Kind.ACK, Kind.BUILT, Kind.DONE)
#: If one of these is attacked, the new host goes on to wait for the right old host.
BEFORE_THE_OFFER = {Kind.HELLO, Kind.CHALLENGE, Kind.PROOF, Kind.WELCOME, Kind.OFFER}


def attacked(
    from_old: Change = unchanged, from_new: Change = unchanged, *, kind: Kind, timeout: str = "20s", new: str = "20s"
) -> str:
    """Attack a frame `kind`; check what both hosts have then, and return the problem of the old one."""
    counter, twin = filled(20, 500), filled(20, 500)
    batch, after = events(1, 2, 99), events(2, 5)
    with new_host(timeout=new) as host:
        middle = Middle(host.address, from_old, from_new)
        with begin(counter, middle.address, deadline="600s", bandwidth=None, timeout=timeout) as migration:
            results = migration.process(batch)
            assert results == [] or migration.owner == "old"
            with pytest.raises(fc.MigrationError) as caught:
                migration.finish()
            error = caught.value
            assert (error.owner, migration.owner) == ("old", "old")
            results += error.matches
            results += migration.process(after)
        assert results == [twin.process(batch), twin.process(after)]
        assert counter.state == twin.state
        assert error.report.handed_over is False
        if kind in BEFORE_THE_OFFER:
            assert host.is_waiting
            return error.problem
        outcome = host.outcome()
        assert isinstance(outcome, fc.MigrationError)
        assert outcome.owner == "old"
        assert "this host has discarded the state" in str(outcome) or "failed" in str(outcome)
    return error.problem


PLACES: dict[str, Callable[[bytes, int], bytes]] = {
    "length": lambda data, end: flip(data, 3, 7),
    "type": lambda data, end: flip(data, 4),
    "payload": lambda data, end: flip(data, (HEADER.size + end) // 2),
    "code": lambda data, end: flip(data, len(data) - 1, 6),
}


@pytest.mark.sample(7)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", FROM_OLD)
def test_a_changed_bit_from_the_old_host(kind: Kind, place: str) -> None:
    attacked(only(kind, lambda data: PLACES[place](data, len(data) - CODE)), kind=kind)


@pytest.mark.sample(4)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", FROM_NEW[:-1])
def test_a_changed_bit_from_the_new_host(kind: Kind, place: str) -> None:
    attacked(from_new=only(kind, lambda data: PLACES[place](data, len(data) - CODE)), kind=kind)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", [kind for kind in FROM_OLD if kind != Kind.COMMIT])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_connection_that_ends_within_a_frame(kind: Kind, share: float) -> None:
    """The rest of the stream is missing; the middle closes both connections."""
    cut_off = False

    def cut(found: Kind, data: bytes) -> bytes | None:
        nonlocal cut_off
        if cut_off:
            return None
        cut_off = found == kind
        return (data[: int(share * len(data))] or None) if cut_off else data

    attacked(cut, kind=kind, timeout="1s", new="1s")


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", FROM_NEW[:-1])
def test_a_connection_that_ends_before_an_answer(kind: Kind) -> None:
    attacked(from_new=only(kind, lambda data: None), kind=kind)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", FROM_OLD[2:-1])
def test_a_repeated_frame(kind: Kind) -> None:
    attacked(only(kind, lambda data: data + data), kind=Kind.BASE)  # the offer itself is accepted


@pytest.mark.parametrize("kind", [Kind.PAD, Kind.STATES, Kind.EVENTS])
def test_a_missing_frame(kind: Kind) -> None:
    attacked(only(kind, lambda data: b""), kind=kind, timeout="1s", new="1s")


def test_reordered_frames() -> None:
    held: list[bytes] = []

    def swap(kind: Kind, data: bytes) -> bytes:
        if kind == Kind.PAD and not held:
            held.append(data)
            return b""
        if kind == Kind.PAD and len(held) == 1:
            held.append(data)
            return data + held[0]
        return data

    assert "has a wrong code: it was changed, repeated, reordered or forged" in attacked(swap, kind=Kind.PAD)


def test_a_frame_that_is_sent_back() -> None:
    """A frame of the old host with a type that the new host also sends, as its first frame."""
    heartbeat: list[bytes] = []

    def keep(kind: Kind, data: bytes) -> bytes:
        if kind == Kind.OFFER:
            heartbeat.append(data)
        return data

    def reflect(kind: Kind, data: bytes) -> bytes:
        return heartbeat[0][: HEADER.size - 1] + data[4:5] + heartbeat[0][HEADER.size :] if heartbeat else data

    attacked(keep, reflect, kind=Kind.READY)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", FROM_OLD[2:])
def test_a_length_of_2_gb(kind: Kind) -> None:
    """The length is refused before anything is read: no byte follows the header."""
    problem = attacked(only(kind, lambda data: HEADER.pack(2**31, kind)), kind=kind)
    assert f"found a frame {kind.name} of 2,147,483,648 bytes, expected at most" in problem


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", FROM_OLD[1:-1])
def test_an_old_host_that_stalls(kind: Kind) -> None:
    stalled = False

    def stall(found: Kind, data: bytes) -> bytes:
        nonlocal stalled
        stalled = stalled or found == kind
        return b"" if stalled else data

    attacked(stall, kind=kind, new="700ms")


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", FROM_NEW[:-1])
def test_a_new_host_that_stalls(kind: Kind) -> None:
    stalled = False

    def stall(found: Kind, data: bytes) -> bytes:
        nonlocal stalled
        stalled = stalled or found == kind
        return b"" if stalled else data

    assert " for 0.7 s" in attacked(from_new=stall, kind=kind, timeout="700ms")


@pytest.mark.parametrize("change", [None, lambda data: flip(data, len(data) - 1)])
def test_an_unknown_outcome_stops_the_old_operator(change: Callable[[bytes], bytes] | None) -> None:
    """The answer to COMMIT is lost or changed: the new host owns the state, which the old host cannot know."""
    counter = filled(20, 500)
    with new_host() as host:
        middle = Middle(host.address, from_new=only(Kind.DONE, change or (lambda data: None)))
        with begin(counter, middle.address) as migration:
            assert migration.process(events(1, 2)) == []
            with pytest.raises(fc.MigrationError, match="It is not known which host owns the state") as caught:
                migration.finish()
            assert (caught.value.owner, caught.value.matches) == ("unknown", ())
            with pytest.raises(fc.MigrationError, match="only if it has not resumed, call take_back"):
                migration.process(events(3))
            with pytest.raises(fc.MigrationError, match="not known"):
                migration.abort()
        assert len(host.received().operator.counts) == 20


def test_the_old_operator_continues_if_the_request_to_take_over_is_lost() -> None:
    counter, twin = filled(20, 500), filled(20, 500)
    with new_host() as host:
        middle = Middle(host.address, only(Kind.COMMIT, lambda data: None))
        with begin(counter, middle.address) as migration:
            migration.process(events(1, 2))
            with pytest.raises(fc.MigrationError, match="It is not known which host owns the state"):
                migration.finish()
            outcome = host.outcome()
            assert isinstance(outcome, fc.MigrationError) and "continue there: Migration.take_back" in str(outcome)
            assert migration.take_back() == [twin.process(events(1, 2))]
            assert migration.owner == "old"
            assert migration.process(events(2)) == [twin.process(events(2))]
    assert counter.state == twin.state


def test_the_counter_of_the_tests_counts() -> None:
    assert Counter().process(events(1, 1)) == [(1, 1), (1, 2)]
