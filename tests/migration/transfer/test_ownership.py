"""One operator accepts the events of a stream: the old one, or the new one."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pyarrow as pa
import pytest
from migration.transfer.counter import Counter, CounterStates, events, filled
from migration.transfer.hosts import KEY, begin, new_host
from migration.transfer.middle import Middle

import fastcep as fc
from fastcep.migration import WindowAggregate, partition, receive, send, start
from fastcep.migration.transfer.frames import Kind

SCHEMA = fc.Schema({"A": {"k": "int64"}, "B": {"k": "int64"}}, time="ts", type="type")
QUERY = fc.parse("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 10s", SCHEMA, name="q")
MOVES = "the state of this operator moves, or has moved, to another host"


def batch(kind: str, first: int, count: int = 5) -> pa.Table:
    return pa.table({"type": [kind] * count, "ts": range(first, first + count), "k": range(count)})


def engine_with_state(kind: type[fc.Engine] = fc.Engine, **options: Any) -> fc.Engine:
    engine = kind(QUERY, store="rows", **options)
    engine.process(batch("A", 0))
    return engine


def refuses(engine: fc.Engine) -> None:
    """Check that no method that reads or changes the state works."""
    for call in (lambda: engine.process(batch("B", 50)), lambda: engine.send("B", ts=50, k=1), engine.flush,
                 engine.snapshot, lambda: engine.advance(99), engine.partial_matches):  # fmt: skip
        with pytest.raises(fc.ValidationError, match=MOVES):
            call()


class Special(fc.Engine):
    """A subclass."""


@pytest.mark.parametrize("kind", [fc.Engine, Special])
def test_the_old_engine_refuses_events(kind: type[fc.Engine]) -> None:
    engine = engine_with_state(kind)
    with new_host() as host:
        assert send(engine, host.address, key=KEY).handed_over
        new = host.received().operator
    refuses(engine)
    assert len(new.process(batch("B", 50))) == 5


def test_so_does_one_of_which_only_the_states_were_sent() -> None:
    engine = engine_with_state()
    with new_host() as host:
        send(partition(engine, by="key"), host.address, key=KEY)
        host.received()
    refuses(engine)


def test_an_engine_that_moves_accepts_events_after_a_failure() -> None:
    engine = engine_with_state()
    with pytest.raises(fc.MigrationError, match="cannot connect"):
        send(engine, "127.0.0.1:1", key=KEY)
    assert len(engine.process(batch("B", 50))) == 5


def test_an_engine_that_was_handed_over_refuses_events_until_it_is_taken_back() -> None:
    """The link is lost: the new host may have resumed."""

    def cut(kind: Kind, data: bytes) -> bytes | None:
        return None if kind in (Kind.STATES, Kind.END) else data

    engine = engine_with_state()
    with new_host() as host:
        middle = Middle(host.address, cut)
        with start(engine, middle.address, key=KEY, timeout="20s", on_disconnect="hand_over") as migration:
            assert migration.process(batch("B", 50, 2)) == []
            with pytest.raises(fc.MigrationError):
                migration.finish()
            refuses(engine)
            assert [len(matches) for matches in migration.take_back()] == [2]
            assert len(engine.process(batch("B", 60))) == 5
        host.outcome()


def test_operators_of_users_move() -> None:
    """They need a method that cuts the state; the new host needs a function that starts an assembly."""

    class Own(Counter):
        def partial_states(self) -> CounterStates:
            return CounterStates(self)

    counter = Own()
    counter.process(events(1, 2, 1))
    with new_host() as host:
        send(counter, host.address, key=KEY)
        assert host.received().operator.counts == {1: 2, 2: 1}


def test_aggregates_refuse_rows() -> None:
    schema = pa.schema([("ts", pa.int64()), ("bike", pa.int64())])
    aggregate = WindowAggregate(schema, time="ts", keys=["bike"], window="10ns", aggregates={"rows": "count"})
    aggregate.process(pa.table({"ts": [1, 2], "bike": [7, 7]}, schema=schema))
    with new_host() as host:
        send(aggregate, host.address, key=KEY)
        moved = host.received().operator
    for call in (aggregate.flush, aggregate.partial_states, lambda: aggregate.advance(99)):
        with pytest.raises(fc.ValidationError, match=MOVES):
            call()
    assert moved.flush()["rows"].to_pylist() == [2]


def test_leaving_the_block_after_the_link_was_lost_keeps_events() -> None:
    engine, twin = engine_with_state(), engine_with_state()
    with socket.create_server(("127.0.0.1", 0)) as server:
        with start(engine, server.getsockname(), key=KEY, timeout="20s") as migration:
            refuses(engine)
            assert migration.process(batch("A", 20, 3)) == []
            connection, _ = server.accept()
            connection.close()
            migration._ended.wait()
        twin.process(batch("A", 20, 3))
        assert migration.owner == "old"
        assert [len(matches) for matches in migration.abort()] == [0]
    assert engine.process(batch("B", 50)).to_dicts() == twin.process(batch("B", 50)).to_dicts()


def test_states_of_another_event_or_operator() -> None:
    engine = engine_with_state()
    parts = partition(engine)
    engine.process(batch("A", 20))
    with pytest.raises(fc.ValidationError, match="states: they are of event 5, and the operator is at event 10; cut"):
        send(parts, "127.0.0.1:1", key=KEY)
    with pytest.raises(fc.ValidationError, match="states: they are of event 5, and the operator is at event 10; cut"):
        start(engine, "127.0.0.1:1", key=KEY, states=parts)
    with pytest.raises(fc.ValidationError, match="states: they are of another operator"):
        start(engine_with_state(), "127.0.0.1:1", key=KEY, states=partition(engine))
    with pytest.raises(fc.ValidationError, match="states: int; expected"):
        start(engine, "127.0.0.1:1", key=KEY, states=5)  # type: ignore[arg-type]
    used = partition(engine)
    used.encode([0])  # type: ignore[arg-type]
    with pytest.raises(fc.ValidationError, match="states: they were sent before"):
        send(used, "127.0.0.1:1", key=KEY)
    assert len(engine.process(batch("B", 50))) == 10


@pytest.mark.parametrize("first", [0, 2])
def test_events_that_no_operator_has_processed(first: int) -> None:
    """The link is lost before some of them are forwarded."""
    passed = 0

    def hold(kind: Kind, data: bytes) -> bytes | None:
        nonlocal passed
        passed += kind == Kind.EVENTS
        return None if kind in (Kind.EVENTS, Kind.END) and passed > first else data

    counter = filled(5)
    with new_host() as host:
        middle = Middle(host.address, hold)
        with begin(counter, middle.address, on_disconnect="hand_over") as migration:
            for keys in ((1, 2), (3,), (4, 1)):
                assert migration.process(events(*keys)) == []
            with pytest.raises(fc.MigrationError) as caught:
                migration.finish()
            assert caught.value.owner != "old"
            received = host.received()
            with pytest.raises(fc.ValidationError, match="position: the new host has not reported it"):
                migration.unprocessed()
            rest = migration.unprocessed(received.position)
            after = migration.unprocessed(received.position + 1)
            assert pa.concat_tables(after).equals(pa.concat_tables(rest).slice(1))
    assert rest and received.position == counter.position + 3 * (first == 2)
    for table in rest:
        received.operator.process(table)
    assert received.operator.position == counter.position + 5
    with new_host() as host, begin(filled(5), host.address) as migration:
        with pytest.raises(fc.MigrationError, match="the migration goes on"):
            migration.unprocessed()
        migration.finish()
        assert migration.unprocessed() == []
        host.received()


def test_matches_of_a_batch_that_the_new_operator_could_not_finish() -> None:
    """A hand-over cannot be refused any more: its matches and its events count."""

    def limited(limit: str | None) -> list[Any]:
        engine = fc.Engine([QUERY, fc.parse("PATTERN SEQ(A a, A b, A c) WITHIN 10s", SCHEMA, name="r")], store="rows",
                           memory_limit=limit)  # fmt: skip
        engine.process(batch("A", 0))
        return [engine, pa.concat_tables([batch("B", 50), batch("A", 60, 3_000)])]

    twin, rest = limited("128KiB")
    with pytest.raises(fc.MemoryLimitError) as expected:
        twin.process(rest)
    engine, rest = limited("128KiB")
    with new_host() as host:
        with start(engine, host.address, key=KEY, timeout="20s", on_disconnect="hand_over") as migration:
            assert migration.process(rest) == []
            report = migration.finish()
        received = host.received()
    assert "memory" in str(received.interrupted)
    assert [match for matches in received.matches for match in matches.to_dicts()] == expected.value.matches.to_dicts()
    assert received.position == report.position == received.operator.metrics()["events"] == twin.metrics()["events"]


def test_matches_of_a_batch_that_the_old_operator_could_not_finish() -> None:
    """The new host rejects the batch, too, so the old one keeps the state."""

    def engine() -> fc.Engine:
        queries = [QUERY, fc.parse("PATTERN SEQ(A a, A b, A c) WITHIN 10s", SCHEMA, name="r")]
        engine = fc.Engine(queries, store="rows", memory_limit="128KiB")
        engine.process(batch("A", 0))
        return engine

    rest = pa.concat_tables([batch("B", 50), batch("A", 60, 3_000)])
    with pytest.raises(fc.MemoryLimitError) as expected:
        engine().process(rest)
    with new_host() as host, start(engine(), host.address, key=KEY, timeout="20s") as migration:
        assert migration.process(rest) == []
        with pytest.raises(fc.MigrationError, match="the old operator rejected a batch") as caught:
            migration.finish()
        assert isinstance(host.outcome(), fc.MigrationError)
    (found,) = caught.value.matches
    assert caught.value.owner == "old" and found.to_dicts() == expected.value.matches.to_dicts() != []


def test_receive_in_a_running_event_loop() -> None:
    """As in a notebook: the call blocks, but works."""

    async def notebook() -> None:
        receive("127.0.0.1:0", key=KEY, wait="1ms")

    with pytest.raises(fc.MigrationError, match="no old host with the right key connected"):
        asyncio.run(notebook())


@pytest.mark.parametrize("host", ["a..b", "x" * 300, "h\0st", "é" * 70, ""])
def test_wrong_hosts(host: str) -> None:
    for call in (lambda: send(Counter(), (host, 4100), key=KEY), lambda: receive((host, 0), key=KEY)):
        with pytest.raises(fc.ValidationError, match=r"address=.*expected"):
            call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"options": 5}, "options: int; expected a mapping of names"),
        ({"assemblies": ["a"]}, "assemblies: list; expected a mapping of names"),
        ({"on_listening": 5}, "on_listening: int; expected a function"),
        ({"on_built": "x"}, "on_built: str; expected a function"),
    ],
)
def test_wrong_options_of_the_new_host(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        receive("127.0.0.1:0", key=KEY, **options)


def test_unknown_options_of_an_engine() -> None:
    engine = engine_with_state()
    with new_host(options={"shed": "rs"}, assemblies=None) as host:
        with pytest.raises(
            fc.MigrationError, match=r"options: found 'shed'; expected options of Engine.restore: clock"
        ):
            send(engine, host.address, key=KEY)
        assert isinstance(host.outcome(), fc.MigrationError)
    assert len(engine.process(batch("B", 50))) == 5


def test_the_new_host_stores_the_state_before_it_takes_over() -> None:
    stored: list[int] = []

    def full(engine: fc.Engine) -> None:
        raise OSError("No space left on device")

    engine = engine_with_state()
    with new_host(on_built=full) as host:
        with pytest.raises(fc.MigrationError, match="No space left on device") as caught:
            send(engine, host.address, key=KEY)
        assert caught.value.owner == "old" and isinstance(host.outcome(), fc.MigrationError)
    with new_host(on_built=lambda new: stored.append(len(new.snapshot()))) as host:
        send(engine, host.address, key=KEY)
        host.received()
    assert stored and stored[0] > 100


def test_kinds_that_are_not_accepted() -> None:
    with new_host(kinds=["engine"]) as host:
        with pytest.raises(fc.MigrationError, match="operators of the kind 'counter' are not accepted here"):
            send(CounterStates(filled(3)), host.address, key=KEY)
        assert isinstance(host.outcome(), fc.MigrationError)
