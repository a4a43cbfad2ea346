"""Signals end calls of an engine between two events, and nothing is lost; the matrix combines them with all options."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from parallel.streams import QUERY, end_interrupts, joined_with_interrupts, of_one_engine, stream

import fastcep as fc
from fastcep._core.matcher.interrupt import set_pause
from fastcep._core.matcher.signals import Signals
from fastcep.engine import stream as stream_module
from fastcep.engine.query_set import QuerySet
from fastcep.engine.results.returns import Returns
from fastcep.errors import ValidationError

SCHEMA = fc.Schema({"A": {"k": "int64"}, "B": {"k": "int64"}}, time="ts", type="type", time_unit="ns")
ALL = np.arange(10)


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(stream_module, "_PIECE", 1)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    set_pause()
    signal.signal(signal.SIGINT, before)


def batch(places: Any) -> dict[str, Any]:
    """Return events A and B in turn, at the times 0, 1, …"""
    return {"type": ["AB"[i % 2] for i in places], "ts": places, "k": np.zeros(len(places), np.int64)}


def made(text: str = "", names: str = "q", **options: Any) -> fc.Engine:
    pattern = f"PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 3ns {text}"
    return fc.Engine([fc.parse(pattern, SCHEMA, name=name) for name in names], **options)


def at_look(number: int) -> None:
    """Press Ctrl-C when the engine polls for signals the time with this number, from 0."""
    looks = iter(range(1000))
    set_pause(0, lambda: next(looks) == number and signal.raise_signal(signal.SIGINT))


def rows(matches: fc.Matches) -> list[Any]:
    return matches.to_arrow().to_pylist()


WAYS: dict[str, Callable[[], fc.Engine]] = {
    "short way": made,
    "rows": lambda: made(store="rows"),
    "factorised": lambda: made(store="factorised"),
    "several queries": lambda: made(names="qr"),
    "RETURN": lambda: made("RETURN a.k + b.k AS sum"),
    "memory": lambda: made(memory_limit="1GiB"),
    "RETURN, memory": lambda: made("RETURN a.k + b.k AS sum", memory_limit="1GiB"),
    "threads": lambda: fc.Engine(fc.parse("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 3ns", SCHEMA), threads=2),
    "windows": lambda: fc.Engine(fc.parse("PATTERN SEQ(A a, B b) WINDOW OPEN EVERY 2 EVENTS CLOSE AFTER 3ns", SCHEMA)),
    "shedder": lambda: made(shedder=fc.shedding.by_name("rs"), clock="virtual", latency_bound="1h"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_call_ends_between_two_events_and_the_rest_can_be_given(way: str) -> None:
    truth = rows(WAYS[way]().process(batch(ALL)))
    ended = set()
    for look in range(12):
        engine, taken = WAYS[way](), len(ALL)
        at_look(look)
        try:
            found = rows(engine.process(batch(ALL)))
        except KeyboardInterrupt as error:
            set_pause()
            taken = engine.metrics()["events"]
            note = f"fastcep: {taken} of 10 events were taken; hand over the other {10 - taken} again. The"
            text = error.__notes__[0]
            assert text.startswith((note,) if taken < 10 else ("fastcep: 10 of 10", "fastcep: the call was carried"))
            ended.add(taken)
            found = rows(engine.process(batch(ALL[taken:])))
        assert found == truth, (look, taken)
    assert len(ended) > 6 and 10 in ended


def test_what_is_held_back_comes_first_in_the_next_call() -> None:
    truth = made(allowed_lateness="2ns").process(batch(ALL))
    for look in range(4):
        engine = made(allowed_lateness="2ns")
        at_look(look)
        with pytest.raises(KeyboardInterrupt) as caught:
            engine.process(batch(ALL))
        set_pause()
        assert "are held back and come first in the next call" in caught.value.__notes__[0]
        assert rows(engine.process(batch(ALL[:0]))) == rows(truth)


@pytest.mark.parametrize("look", range(7))
def test_flush_can_be_called_again(look: int) -> None:
    def held() -> fc.Engine:
        engine = made(allowed_lateness="1h")
        engine.process(batch(ALL))
        return engine

    truth, engine = rows(held().flush()), held()
    at_look(look)
    with pytest.raises(KeyboardInterrupt):
        engine.flush()
    set_pause()
    assert rows(engine.flush()) == truth
    with pytest.raises(ValidationError, match="ended by flush"):
        engine.flush()


def test_state_does_not_move_while_matches_wait() -> None:
    engine = made()
    at_look(4)
    with pytest.raises(KeyboardInterrupt):
        engine.process(batch(ALL))
    set_pause()
    with pytest.raises(ValidationError, match=r"are waiting, .* take them first"):
        engine.snapshot()
    taken = engine.metrics()["events"]
    found = rows(engine.process(batch(ALL[:0])))
    moved = fc.Engine.restore(engine.snapshot())
    assert found + rows(moved.process(batch(ALL[taken:]))) == rows(made().process(batch(ALL)))


def test_a_handler_that_raises_nothing_ends_nothing() -> None:
    called = []
    signal.signal(signal.SIGINT, lambda *_: called.append(made().process(batch(ALL))))
    for look in range(4):
        engine = made(memory_limit="1GiB")
        at_look(look)
        assert rows(engine.process(batch(ALL))) == rows(made().process(batch(ALL)))
    assert len(called) == 4


@pytest.mark.sample(1)
@pytest.mark.parametrize("options", [{}, {"memory_limit": "8GiB"}, {"threads": 2}])
def test_ctrl_c_ends_a_long_call(options: dict[str, Any]) -> None:
    """The signal comes from another thread in the middle of a batch that takes seconds."""
    number = np.arange(3_000_000)
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE [k] AND a.time + 200000 < b.time WITHIN 100us", SCHEMA)
    engine = fc.Engine(query, store="rows", index="off" if "threads" not in options else "full", **options)
    looked = threading.Event()
    looks = iter(range(1 << 30))
    set_pause(call=lambda: next(looks) == 3 and looked.set())

    def press() -> None:
        looked.wait(300)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        engine.process({"type": np.array(["A", "B"])[number % 2].tolist(), "ts": number, "k": number % 2})
    thread.join()
    taken = engine.metrics()["events"]
    assert 0 < taken < len(number)
    assert f"{taken:,} of 3,000,000 events were taken" in caught.value.__notes__[0]


# --------------------------------------------------------------- handlers that wait


def test_handlers_wait_until_they_are_delivered() -> None:
    called: list[tuple[int, bool]] = []

    def note(number: int, frame: FrameType | None) -> None:
        called.append((number, frame is not None))

    signal.signal(signal.SIGINT, note)
    with Signals() as waiting:
        signal.raise_signal(signal.SIGINT)
        with waiting:
            signal.raise_signal(signal.SIGINT)
        assert not called
        waiting.deliver()
        assert called == [(signal.SIGINT, True)]
        signal.raise_signal(signal.SIGINT)
    assert len(called) == 2 and signal.getsignal(signal.SIGINT) is note


def test_a_handler_that_is_set_meanwhile_stays() -> None:
    with Signals():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Turn the garbage collector off: an exception that a handler raises in one of its callbacks is lost."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
def test_interrupts_at_any_moment_leave_the_body_whole() -> None:
    """A timer interrupts every 20 us: only at the edges of bodies; all handlers are restored, and delayed again."""
    raised = inside = 0
    position = "outside"

    def stop(*_: object) -> None:
        nonlocal raised, position
        if position != "outside":
            raised += 1
            raise TimeoutError

    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGALRM, signal.SIGUSR1)}
    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGUSR1, usual := lambda *_: None)
    waiting = Signals()
    try:
        signal.setitimer(signal.ITIMER_REAL, 2e-5, 2e-5)
        while raised < 3_000:
            try:
                position = "at the edge"
                with waiting:
                    position = "inside"
                    for _ in range(raised % 50):
                        pass
                    position = "at the edge"
                position = "outside"
            except TimeoutError:
                inside += position == "inside"
                position = "outside"
    finally:
        restored = {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGUSR1, signal.SIGINT)}
        end_interrupts(before)
    assert inside == 0 and not waiting.torn
    assert restored == {
        signal.SIGALRM: stop, signal.SIGUSR1: usual, signal.SIGINT: signal.default_int_handler,
    }  # fmt: skip


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {}, "rows": {"store": "rows"}, "memory": {"memory_limit": "1GiB"}, "threads": {"threads": 2},
    "queue": {"shedder": None, "clock": "virtual", "latency_bound": "1h"},
    "shedder": {"shedder": fc.shedding.by_name("rs"), "clock": "virtual", "latency_bound": "1h"},
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("way", OPTIONS)
@pytest.mark.parametrize("returns", [False, True])
def test_interrupts_at_any_moment_lose_no_match_and_repeat_none(way: str, returns: bool) -> None:
    """A timer interrupts every 200 us, also twice within a few instructions."""
    table = stream(4_000, seed=6)
    query = QUERY if returns else fc.parse("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 30us", QUERY.schema)
    found = joined_with_interrupts(fc.Engine(query, **OPTIONS[way]), table, 40, 2e-4, most=400)
    assert found.equals(of_one_engine(query, table, 40))


@pytest.mark.sample(1)
@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("text", ["", "RETURN a.k + b.k AS sum"])
def test_interrupts_of_short_calls_lose_no_match_and_repeat_none(text: str) -> None:
    """Calls of a few us: most interrupts come between the loop and the caller."""
    size, interrupts = 3_000, 0
    batches = [batch(np.arange(at, at + 2)) for at in range(0, size, 2)]

    def stop(_: int, frame: FrameType | None) -> None:
        nonlocal interrupts
        if frame is not None and "/fastcep/" in frame.f_code.co_filename and interrupts < 2_000:
            interrupts += 1
            raise TimeoutError

    engine, found = made(text), []
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 3e-5, 3e-5)
        while (taken := engine._loop.position) < size:
            with suppress(TimeoutError):
                found.append(engine.process(batches[taken // 2]))
    finally:
        end_interrupts({signal.SIGALRM: before})
    found.append(engine.process(batch([size])))
    truth = made(text)
    assert [row for part in found for row in rows(part)] == rows(truth.process(batch(np.arange(size + 1))))


def test_all_handlers_run_if_one_raises() -> None:
    called = []

    def stop(number: int, _: FrameType | None) -> None:
        called.append(number)
        raise TimeoutError(number)

    numbers = (signal.SIGALRM, signal.SIGUSR1)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        with pytest.raises(TimeoutError) as caught, Signals():
            for number in numbers:
                signal.raise_signal(number)
            assert not called
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert called == list(numbers), "in the order in which they came"
    assert caught.value.args == (signal.SIGUSR1,)
    assert isinstance(caught.value.__context__, TimeoutError), "the exception of the other handler"


def test_a_handler_that_a_program_has_taken_during_a_call() -> None:
    """The program sets as its handler what `Signals` had put in its place: a signal then does nothing."""
    with Signals() as waiting:
        taken = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, taken)
    with waiting:
        signal.raise_signal(signal.SIGINT)


def test_other_threads_leave_handlers_alone() -> None:
    def look() -> None:
        with Signals() as waiting:
            found.append(signal.getsignal(signal.SIGINT))
            waiting.deliver()

    found: list[object] = []
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_a_signal_that_comes_again_ends_what_does_not_return() -> None:
    """A listener that hangs can be interrupted; the engine then reports that its state may be inconsistent."""
    engine = made(latency_bound="1h", shedder=None, clock="virtual")
    engine._stream._signals.patience = 0

    def hang(*_: object) -> None:
        while True:
            signal.raise_signal(signal.SIGINT)

    engine.listen(hang)
    with pytest.raises(KeyboardInterrupt):
        engine.process(batch(ALL))
    with pytest.raises(ValidationError, match="a signal that came twice ended an earlier call"):
        engine.process(batch(ALL))


# --------------------------------------------------------------- signals at the end of a call


@pytest.fixture
def at_end(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that lets a signal come once, after the last check of a call and before it returns."""
    deliver, wanted = stream_module.Stream.deliver_after_call, []

    def deliver_then_signal(self: Any) -> None:
        deliver(self)
        if wanted:
            wanted.pop()
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(stream_module.Stream, "deliver_after_call", deliver_then_signal)
    return lambda: wanted.append(True)


@pytest.mark.parametrize("options", [{}, {"memory_limit": "1GiB"}], ids=["direct", "memory"])
def test_the_error_of_a_query_comes_with_the_next_call(
    options: dict[str, Any], at_end: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Any, bindings: Any) -> Any:
        if self.query.name == "r" and bindings.n:
            raise ArithmeticError("of r")
        return columns(self, bindings)

    columns = Returns.columns
    monkeypatch.setattr(Returns, "columns", fail)
    engine = made("RETURN a.k AS k", names="qr", **options)
    at_end()
    with pytest.raises(KeyboardInterrupt):
        engine.process(batch(ALL))
    with pytest.raises(fc.QueryError, match="of r") as caught:
        engine.process(batch(ALL[:0]))
    assert rows(caught.value.matches) == rows(made("RETURN a.k AS k").process(batch(ALL)))
    assert rows(engine.process(batch(ALL[:0]))) == []


@pytest.mark.parametrize("way", ["memory", "RETURN, memory", "shedder"])
def test_a_handler_may_call_the_engine_and_gets_the_matches(way: str, at_end: Callable[[], None]) -> None:
    engine, found = WAYS[way](), []
    signal.signal(signal.SIGINT, lambda *_: found.append(rows(engine.process(batch(ALL[:0])))))
    at_end()
    own = rows(engine.process(batch(ALL)))
    assert (own, *found) == ([], rows(WAYS[way]().process(batch(ALL))))


def test_an_interrupt_while_stores_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is chosen, and the loop runs it, or neither."""
    random, size = np.random.default_rng(1), 30_000
    query = fc.parse("PATTERN SEQ(A a, B b, A c) WHERE [k] WITHIN 300ns", SCHEMA)
    types = random.choice(["A", "B"], size)
    events = pa.table({"type": types, "ts": np.arange(size), "k": random.integers(0, 20, size)})
    truth = len(fc.Engine(query).process(events))
    use, interrupts = QuerySet.use, []

    def use_then_signal(self: Any, *arguments: Any) -> None:
        use(self, *arguments)
        if self.running and self.trials == 0 and not interrupts:
            interrupts.append(True)
            signal.raise_signal(signal.SIGINT)

    engine = fc.Engine(query)
    monkeypatch.setattr(QuerySet, "use", use_then_signal)
    with pytest.raises(KeyboardInterrupt):
        engine.process(events)
    rest = events.slice(engine.metrics()["events"])
    assert len(engine.process(rest)) + len(engine.flush()) == truth


def test_threads_that_try_again_while_the_engine_is_busy_share_its_matches() -> None:
    engine = fc.Engine(fc.parse("PATTERN SEQ(A a) WITHIN 5ns", SCHEMA))
    events = pa.RecordBatch.from_pydict({"type": ["A"] * 3, "ts": [0] * 3, "k": [0] * 3})
    found = [0] * 4

    def work(number: int) -> None:
        for _ in range(500):
            while True:
                try:
                    matches = engine.process(events)
                    break
                except ValidationError:
                    pass
            found[number] += len(matches)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(found))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert sum(found) == 3 * 500 * len(found)


def test_a_query_that_was_replaced_by_one_of_its_name_in_a_call_that_a_signal_ended(at_end: Callable[[], None]) -> None:
    engine = made("RETURN a.k AS k")
    at_end()
    with pytest.raises(KeyboardInterrupt):
        engine.process(batch(ALL))
    old = engine.replace("q", fc.parse("PATTERN SEQ(A a) WITHIN 3ns RETURN a.k AS k", SCHEMA, name="q"))
    assert old.counts() == {"q": len(old)} and len(old.query("q")) == len(old) == len(made().process(batch(ALL)))
