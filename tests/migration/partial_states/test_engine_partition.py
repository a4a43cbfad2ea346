"""Cutting the state of an engine: what a state is, what is sent, and what cannot be cut."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from support import snapshot_engines
from support.partial_states import assert_same_snapshot, payload, rebuilt, send, ways
from support.snapshot_engines import UNKEYED, ending, query, running
from support.state_transfer import quiet

import fastcep as fc
from fastcep.migration import partition
from fastcep.migration.partial_states import entries
from fastcep.migration.partial_states.assembly import EngineAssembly

SEQUENCE = "PATTERN SEQ(A a, B b, C c) WHERE [k] WITHIN 60ns"
KLEENE = "PATTERN SEQ(A a, B+ b[], C c) WHERE [k] WITHIN 60ns RETURN a.s AS s, SUM(b[].v) AS total"
TRAILING = "PATTERN SEQ(A a, B b, NEG C c) WHERE [k] AND c.v > a.v WITHIN 40ns RETURN b.s AS s"
ISOLATED = "PATTERN SEQ(A a, B b) WHERE [k] WINDOW OPEN ON C w CLOSE AFTER 30ns LIMIT 3 PER WINDOW"
SHARED = "PATTERN SEQ(A a, B+ bs[]) WHERE [k] WINDOW EVERY 14ns CLOSE AFTER 20ns"

#: Texts of queries, and options of their engines.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sequence": (SEQUENCE, {"store": "rows"}),
    "factorised store": (SEQUENCE, {"store": "factorised"}),
    "several indexes": ("PATTERN AND(A a, B b, C c) WHERE a.k = b.k AND b.v = c.v AND a.v <= c.v WITHIN 60ns", {}),
    "text key": ("PATTERN SEQ(A a, B b, C c) WHERE [s] WITHIN 60ns RETURN a.s AS s", {"store": "rows"}),
    "float key": ("PATTERN SEQ(A a, B b, C c) WHERE [x] WITHIN 60ns", {"store": "rows"}),
    "null key": ("PATTERN SEQ(A a, B? b, NEG C c) WHERE [k] WITHIN 60ns", {}),
    "Kleene": (KLEENE, {}),
    "Kleene, skip_till_next": (KLEENE.replace("60ns", "60ns STRATEGY skip_till_next"), {}),
    "Kleene first": ("PATTERN SEQ(A+ a[], B b, C c) WHERE [k] WITHIN 40ns RETURN a[first].s AS s, b.s AS t", {}),
    "group": ("PATTERN SEQ(A a, (SEQ(B b, A d))+ g[], C c) WITHIN 60ns", {}),
    "negation between": ("PATTERN SEQ(A a, NEG B n, C c) WHERE [s] AND n.x > a.x WITHIN 40ns", {}),
    "negation at the end": (TRAILING, {}),
    "alternatives": ("PATTERN SEQ(A a, OR(B b, C c), A d) WITHIN 30ns", {}),
    "isolated windows": (ISOLATED, {}),
    "shared windows": (SHARED, {}),
    "windows by pairs": ("PATTERN SEQ(A a, B b) WINDOW OPEN ON C w CLOSE ON C z WHERE z.s = w.s", {}),
    "count window": ("PATTERN SEQ(A a, B b, C c) WHERE [p] WITHIN 20 EVENTS", {"store": "rows"}),
    "limit by partition": (
        "PATTERN SEQ(A a, B b) WINDOW OPEN ON C w CLOSE AFTER 30ns PARTITION BY s LIMIT 2 PER WINDOW", {}),
    "contiguity": ("PATTERN SEQ(A a, B b, C c) WITHIN 60ns PARTITION BY k STRATEGY partition_contiguity", {}),
    "consumption": ("PATTERN SEQ(A a, B b, C c) WHERE [k] WITHIN 60ns CONSUME consumed", {}),
    "late events": (SEQUENCE, {"allowed_lateness": "8ns", "store": "rows"}),
    "timed out": ("PATTERN SEQ(A a, B+ bs[], C c) WHERE [k] WITHIN 12ns", {"timed_out": True}),
    "attributes": (KLEENE, {"attributes": True}),
    "threads": (SEQUENCE, {"threads": 2, "store": "rows"}),
}  # fmt: skip


@pytest.mark.sample(11)
@pytest.mark.parametrize("name", CASES)
def test_all_states_are_the_engine(name: str) -> None:
    """In each possible way; the old engine continues, and both find the same."""
    text, options = CASES[name]
    engine = running(text, **options)
    ready = {by: partition(engine, by) for by in ways(engine)}
    assert ready, "no way to cut it"
    engines = []
    for by, parts in ready.items():
        assembly = EngineAssembly(parts.base(), {"threads": options.get("threads", 1)})
        send(parts, assembly, random.Random(by).sample(range(len(parts.states)), len(parts.states)), random.Random(0))
        assert_same_snapshot(assembly.snapshot(), engine.snapshot())
        engines.append(assembly.build())
        assert parts.position == 60
    expected = ending(engine)
    assert len(expected) > 30
    for built in engines:
        assert ending(built) == expected


@pytest.mark.sample(7)
@pytest.mark.parametrize("name", CASES)
def test_no_states_are_needed(name: str) -> None:
    """The base alone is an engine without partial matches, at the same event of the stream."""
    text, options = CASES[name]
    engine = running(text, **options)
    for by in ways(engine):
        built = EngineAssembly(partition(engine, by).base()).build()
        metrics, old = built.metrics(), engine.metrics()
        assert metrics["live_partial_matches"] == metrics["waiting_matches"] == 0
        for counter in ("events", "matches", "held_events", "late_waiting", "timed_out_waiting", "open_windows"):
            assert metrics[counter] == old[counter], counter
        ending(built)


@pytest.mark.sample(7)
@pytest.mark.parametrize("name", CASES)
def test_any_state_alone_is_enough(name: str) -> None:
    """With a state come all starts, lists and events that it needs."""
    text, options = CASES[name]
    engine = running(text, **options)
    for by in ways(engine):
        count = len(partition(engine, by).states)
        for number in random.Random(by).sample(range(count), min(count, 3)):
            parts = partition(engine, by)
            assembly = EngineAssembly(parts.base())
            batch = parts.encode(np.array([number]))
            assert payload(batch) == parts.states.size[number]
            assert assembly.add(batch).tolist() == [number]
            metrics = assembly.build().metrics()
            assert metrics["live_partial_matches"] + metrics["waiting_matches"] > 0


def test_copies_in_several_indexes_are_sent_together() -> None:
    """The indexes have the rows in different orders; rows are copies of each other if they bind the same events."""
    text = "PATTERN SEQ(A a, B b, AND(C c, D d)) WHERE c.k = b.k AND d.v = b.v WITHIN 1min"
    schema = fc.Schema({key: {"k": "int64", "v": "int64"} for key in "ABCD"}, type="type", time="ts", time_unit="ms")
    before = {"type": list("AABBBB"), "ts": range(6), "k": [0, 0, 1, 2, 1, 2], "v": [0, 0, 1, 1, 2, 2]}
    after = {"type": list("CCDD"), "ts": range(6, 10), "k": [1, 2, 0, 0], "v": [0, 0, 1, 2]}
    engine = fc.Engine(query(text, schema=schema))
    engine.process(before)
    table: list[dict[str, int]] = []

    def utility(partial_matches: Any) -> Any:
        table[:] = partial_matches.to_pylist()
        return [1] * len(table)

    ready = []
    for number in range(len(partition(engine).states)):
        parts = partition(engine, utility=utility)
        assembly = EngineAssembly(parts.base())
        assembly.add(parts.encode(np.array([number])))
        ready.append(assembly.build())
    every = engine.process(after).to_arrow().to_pylist()
    pairs = [row for row in table if row["variable"] == "b"]
    assert len(pairs) == 8 and len(every) == 8
    for row in pairs:
        (match,) = ready[row["state"]].process(after).to_arrow().to_pylist()
        assert (match["a"], match["b"]) == (row["started"], row["created"]) and match in every


def test_several_queries() -> None:
    texts = {
        "kleene": KLEENE.replace("b[]", "bs[]"),
        "trailing": TRAILING,
        "pair": "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20ns",
    }
    pair = [query(text, name) for name, text in texts.items()]
    engine = quiet(fc.Engine, pair, store="rows")
    engine.process(snapshot_engines.part(snapshot_engines.stream(), 0, 60))
    choices = random.Random(3)
    engines = [rebuilt(engine, choices, {}) for _ in range(4)]
    assert ways(engine) == ["auto", "partial match", "key", "key group", "query"]
    assert len(partition(engine, "key").states) == 4, "the queries share the keys"
    expected = ending(engine)
    assert [ending(built) for built in engines] == [expected] * 4


def test_automatic_cuts() -> None:
    """The finest that all queries allow."""
    rows, factorised = {"store": "rows"}, {"store": "factorised"}
    unkeyed = "PATTERN SEQ(A a, B b, C c) WITHIN 60ns"
    for text, options, by in (
        (SEQUENCE, rows, "partial match"), (SEQUENCE, factorised, "key"), (unkeyed, factorised, "query"),
    ):  # fmt: skip
        engine = running(text, **options)
        found, expected = partition(engine).states, partition(engine, by).states
        assert found.size.tolist() == expected.size.tolist() and len(found) >= 1, by
    both = quiet(fc.Engine, [query(SEQUENCE, "q"), query(UNKEYED, "r")], store="factorised")
    both.process(snapshot_engines.part(snapshot_engines.stream(), 0, 60))
    assert len(partition(both).states) == 2


def test_a_state_is_sent_once_and_shares_nodes_and_events() -> None:
    engine = running(KLEENE)
    parts = partition(engine)
    everything = np.arange(len(parts.states))
    sent = payload(parts.encode(everything))
    assert sent < parts.states.total_size / 2, "lists are shared"
    assert payload(parts.encode(everything)) == 0
    assert payload(parts.encode(np.empty(0, np.int64))) == 0
    (by_key, whole) = (partition(engine, "key"), partition(engine, "key"))
    assert payload(whole.encode(np.arange(len(whole.states)))) == by_key.states.total_size, "keys share nothing"


def test_the_engine_continues_while_states_are_sent() -> None:
    engine, other = running(KLEENE), running(KLEENE)
    parts = partition(engine, "key")
    ending(engine)
    assembly = EngineAssembly(parts.base())
    send(parts, assembly, list(range(len(parts.states))), random.Random(1))
    assert ending(assembly.build()) == ending(other)


def test_states_of_key_groups_have_their_group_as_key() -> None:
    engine = running("PATTERN SEQ(A a, B b, C c) WHERE [k] WITHIN 60ns", store="rows")
    groups = {fc.key_group(key) for key in range(4)}
    assert set(partition(engine, "key group").states.key.tolist()) == groups


def test_windows_are_states() -> None:
    isolated = running(ISOLATED)
    assert 1 < len(partition(isolated, "window").states) <= isolated.metrics()["open_windows"]
    shared = running(SHARED)
    assert 1 < len(partition(shared, "window").states) <= shared.metrics()["open_windows"]


def test_key_groups_that_an_engine_does_not_have_stay_away() -> None:
    engine = running(SEQUENCE, store="rows")
    engine.extract([fc.key_group(2)])
    built = rebuilt(engine, random.Random(1), {})
    assert built.groups == engine.groups
    assert ending(built) == ending(engine)


@pytest.mark.parametrize(
    ("text", "options", "by", "message"),
    [
        (SEQUENCE, {"store": "factorised"}, "partial match",
         "query 'q': its state cannot be cut by partial match: the factorised store has no single partial matches. "
         "Create the engine with store='rows', or cut the state by key"),
        (UNKEYED, {}, "key",
         "query 'q': its state cannot be cut by key: no attribute is equal .*agree in an attribute: WHERE"),
        (UNKEYED, {}, "key group", "cannot be cut by key group: no attribute"),
        (SEQUENCE, {"store": "rows"}, "window",
         "query 'q': its state cannot be cut by window: it has no windows that events or a schedule open .* Cut the "
         "state by partial match"),
        (SEQUENCE, {}, "keys", "by: found 'keys'; expected one of 'auto', 'partial match', 'key', .*'query'"),
    ],
)  # fmt: skip
def test_what_cannot_be_cut(text: str, options: dict[str, Any], by: str, message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        partition(running(text, **options), by)


def test_one_of_several_queries_cannot_be_cut() -> None:
    pair = [query(SEQUENCE, "keyed"), query(UNKEYED, "unkeyed")]
    with pytest.raises(fc.ValidationError, match="query 'unkeyed': its state cannot be cut by key"):
        partition(fc.Engine(pair), "key")


def test_wrong_arguments() -> None:
    with pytest.raises(fc.ValidationError, match="engine: found str; expected an Engine"):
        partition("engine")  # type: ignore[arg-type]
    parts = partition(running(SEQUENCE, store="rows"), "key")
    for numbers, message in [
        ([0, 99], "found the state 99; expected 0 to"),
        ([-1], "found the state -1"),
        ([0.5], "type float64; expected numbers of states"),
        ([[0]], "an array of 2 dimensions"),
    ]:
        with pytest.raises(fc.ValidationError, match=message):
            parts.encode(np.array(numbers))
    assert payload(parts.encode(np.array([0]))) == parts.states.size[0], "an error sends nothing"


def test_after_the_end_there_is_no_state() -> None:
    engine = running(SEQUENCE, store="rows")
    engine.flush()
    with pytest.raises(fc.ValidationError, match="ended by flush"):
        partition(engine)


def test_too_many_words_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The states are not lost: they can be sent in smaller batches."""
    parts = partition(running(SEQUENCE, store="rows"), "key")
    count = len(parts.states)
    with monkeypatch.context() as patched:
        patched.setattr(entries, "_MOST", 10)
        with pytest.raises(fc.ValidationError, match=r"states have more than 10 words.* encode fewer at once"):
            parts.encode(np.arange(count))
    assert payload(parts.encode(np.arange(count))) == parts.states.total_size
