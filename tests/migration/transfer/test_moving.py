"""An operator moves to another host, with and without events meanwhile."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from migration.transfer.counter import Counter, CounterStates, events, filled
from migration.transfer.hosts import KEY, begin, new_host

import fastcep as fc
from fastcep.migration import send, start


def test_all_states_move() -> None:
    counter = filled(50, 300)
    before = counter.state
    with new_host() as host:
        report = send(CounterStates(counter), host.address, key=KEY)
        received = host.received()
    assert received.operator.state == counter.state == before
    assert (report.confirmed_states, report.handed_over, report.complete) == (50, True, True)
    assert (received.states_received, received.complete, received.refused) == (50, True, ())
    assert (received.position, report.position) == (counter.position, counter.position)
    assert report.confirmed_bytes == report.sent_bytes > 0
    assert report.unsent.tolist() == report.unconfirmed.tolist() == []
    assert report.late_states == received.late == 0


def test_states_are_sent_by_descending_density() -> None:
    counter = filled(200, 3000)
    states = CounterStates(counter, {key: float((7 * key) % 200) for key in range(200)})
    with new_host() as host:
        send(states, host.address, key=KEY)
        received = host.received()
    assert received.states.tolist() == states.encoded == states.states.by_density.tolist()


def test_large_states_and_a_large_base_have_several_frames() -> None:
    counter = filled(3, 2_000_000)
    states = CounterStates(counter)
    states.base = lambda: b"base 7" + b" " * 1_000_000
    counter.position = states.position = 7
    with new_host() as host:
        send(states, host.address, key=KEY)
        received = host.received()
    assert received.operator.state == counter.state


def test_an_operator_without_states_moves() -> None:
    with new_host() as host:
        report = send(CounterStates(Counter(5)), host.address, key=KEY, deadline="60s")
        received = host.received()
    assert (received.operator.state, received.complete, report.states) == ((5, {}, {}), True, 0)


@pytest.mark.parametrize(
    ("track", "cut", "end"), [*itertools.product(["single", "parallel"], [0, 3], [3, 9]), ("single", 9, 9)]
)
def test_outputs_together_equal_those_of_one_operator(track: str, cut: int, end: int) -> None:
    batches = [events(*(key * number % 5 for key in range(number + 1))) for number in range(12)]
    whole = Counter()
    expected = [whole.process(batch) for batch in batches]
    old = Counter()
    results = [old.process(batch) for batch in batches[:cut]]
    with new_host() as host:
        with begin(old, host.address, track=track) as migration:
            for batch in batches[cut:end]:
                results += migration.process(batch)
            report = migration.finish()
        received = host.received()
    assert received.matches == ([] if track == "parallel" else expected[cut:end])
    results += received.matches
    assert received.position == report.position == sum(map(len, batches[:end]))
    results += [received.operator.process(batch) for batch in batches[end:]]
    assert results == expected
    assert received.operator.state == whole.state
    assert (report.forwarded_events, report.unforwarded_events) == (sum(map(len, batches[cut:end])), 0)


def test_options_of_process_are_forwarded() -> None:
    with new_host() as host:
        with begin(Counter(), host.address) as migration:
            assert migration.process({"key": [1, 1]}, start=40) == []
            with pytest.raises(fc.ValidationError, match="expected values that JSON can express"):
                migration.process(events(1), start=object())
            with pytest.raises(fc.ValidationError, match="cannot read events from int"):
                migration.process(5)
            migration.finish()
            with pytest.raises(fc.MigrationError, match=r"the new host has taken over.*owns the state") as caught:
                migration.process(events(1))
            assert caught.value.owner == migration.owner == "new"
        assert host.received().matches == [[(1, 41), (1, 42)]]


def test_a_batch_that_the_old_operator_rejects_is_not_forwarded() -> None:
    with new_host() as host:
        with begin(Counter(), host.address, track="parallel") as migration:
            with pytest.raises(fc.DataError):
                migration.process({"key": [1, None]})
            migration.process(events(2))
            migration.finish()
        assert host.received().operator.counts == {2: 1}


def test_a_report_is_json() -> None:
    import json

    with new_host() as host:
        report = send(CounterStates(filled(3)), host.address, key=KEY)
    content = json.loads(json.dumps(report.to_dict()))
    assert content["confirmed_states"] == 3
    assert list(content["times"]) == ["handshake", "base", "states", "events", "build", "commit"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": b"short"}, "key: 5 bytes; expected at least 16"),
        ({"key": 5}, "key: int; expected bytes or a text"),
        ({"address": "host"}, "address='host': expected"),
        ({"address": ("h", 70000)}, "expected .host, port. or text"),
        ({"address": "h:0"}, "port 0"),
        ({"on_disconnect": "stop"}, "on_disconnect='stop': expected one of keep, hand_over"),
        ({"track": "both"}, "track='both': expected one of single, parallel"),
        ({"track": "parallel", "on_disconnect": "hand_over"}, "keeps the old operator running"),
        ({"deadline": "soon"}, "deadline='soon'"),
        ({"timeout": "0s"}, "timeout='0s': expected more than 0"),
        ({"bandwidth": "fast"}, "bandwidth='fast'"),
        ({"method": "best"}, "method='best': expected one of"),
        ({"seed": -1}, "seed=-1"),
        ({"tls": True}, "tls: bool; expected"),
        ({"buffer_limit": 0}, "buffer_limit=0"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    address = options.pop("address", ("127.0.0.1", 1))
    with pytest.raises(fc.ValidationError, match=message) as caught:
        begin(Counter(), address, **options)
    assert "short" not in str(caught.value)


def test_the_key_is_in_no_text() -> None:
    with new_host() as host, begin(Counter(), host.address) as migration:
        assert "tests!" not in repr(vars(migration)) and "tests!" not in repr(migration._options)
        migration.finish()


def test_an_operator_that_cannot_be_cut() -> None:
    with pytest.raises(fc.ValidationError, match="operator: Counter cannot be cut into partial states"):
        send(Counter(), "127.0.0.1:1", key=KEY)
    with new_host() as host:
        migration = start(CounterStates(Counter()), host.address, key=KEY)
        with pytest.raises(fc.ValidationError, match="only its partial states were given"):
            migration.process(events(1))
        migration.finish()
