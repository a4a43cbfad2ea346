"""A stream cut into pieces gives the same partial matches, classes, values and flow as the whole."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pieces import Elsewhere, cut, elsewhere, equal_flows
from support.shedding.shed_runs import Q1, query

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.overload.protocols import Classes, Tree
from fastcep.shedding.hybrid import summary
from fastcep.shedding.hybrid.attribution import Account
from fastcep.shedding.hybrid.flow import Windows, count_flow, total
from fastcep.shedding.hybrid.history import Piece, Pieces
from fastcep.shedding.hybrid.model import HybridModel
from fastcep.shedding.hybrid.pieces import Observer, fit_pieces, observed_piece

pytestmark = pytest.mark.thorough

TABLE = fc.CostTable("mixed", event=3.3, relevant=5.1, visited=7.7, created=11.9, match=13.1)
SAME = "SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V"
QUERIES = {
    "time": Q1,
    "count": Q1.replace("2ms", "150 EVENTS"),
    "kleene": "PATTERN SEQ(A a, B+ b[], C c) WHERE [ID] AND SUM(b[].V) > c.V WITHIN 500us",
    "neg at the end": "PATTERN SEQ(A a, B b, NEG C c) WHERE a.ID = b.ID AND c.ID = a.ID WITHIN 1ms",
    "neg inside, count": "PATTERN SEQ(A a, NEG C c, B b) WHERE a.ID = b.ID AND c.ID = a.ID WITHIN 90 EVENTS",
    "neg inside": "PATTERN SEQ(A a, NEG C c, B b) WHERE a.ID = b.ID AND c.ID = a.ID WITHIN 1ms",
    "neg at the beginning": "PATTERN SEQ(NEG C c, A a, B b) WHERE a.ID = b.ID AND c.ID = a.ID WITHIN 1ms",
    "any order": "PATTERN AND(A a, B b, C c) WHERE [ID] WITHIN 600us",
    "contiguous": "PATTERN SEQ(A a, B b) WITHIN 1ms STRATEGY strict_contiguity",
}
FEATURES = {"a": ["a.V"], "b": ["b.V"]}
EVENTS = 1_600
PLACES = st.one_of(st.just([]), *(st.lists(st.integers(1, EVENTS - 1), min_size=n, max_size=n) for n in (2, 6)))


@cache
def stream() -> pa.Table:
    return ds1(events=EVENTS, seed=5)


def observer(own: fc.Query, index: str = "key", memory: bool = False) -> Observer:
    of_b = "SUM(b[].V)" if own == query(QUERIES["kleene"]) else "b.V"
    names = {"a": ["a.V"], "b": [of_b]}
    return Observer(own, names, names, 3, TABLE, index, memory, seed=2)


def whole_of(events: pa.Table) -> Piece:
    return Piece(events, 0, (0, len(events)))


@cache
def known(name: str, index: str, memory: bool) -> Account:
    return observer(query(QUERIES[name]), index, memory).account(whole_of(stream()))


def by_value(feature: str) -> Classes:
    return Classes((feature,), (0,), (np.arange(12) % 3).astype(np.uint8))


@pytest.mark.parametrize("name", QUERIES)
@given(places=PLACES, index=st.sampled_from(["key", "full"]), memory=st.booleans())
@settings(max_examples=min(12, settings().max_examples))
def test_members_and_flow(name: str, places: list[int], index: str, memory: bool) -> None:
    own, events, whole = query(QUERIES[name]), stream(), known(name, index, memory)
    assert whole.matched.sum() > 5
    asking = observer(own, index, memory)
    accounts = [asking.account(piece) for piece in cut(own, events, places)]
    for kind in [("partial match", of) for of in asking.features if whole.states_of(of)] + [
        ("event", "a"),
        ("event", "b"),
    ]:
        tables = [asking.members(account, kind) for account in accounts]
        assert pa.concat_tables(tables).equals(asking.members(whole, kind)), kind
    windows = Windows.of(sum(account.reach for account in accounts), sum(a.owned[1] - a.owned[0] for a in accounts))
    assert windows == Windows.of(whole.reach, EVENTS)
    classes = {of: by_value(texts[0]) for of, texts in asking.features.items() if whole.states_of(of)}
    of_events = {"b": by_value(asking.event_features["b"][0])}
    flows = [count_flow(account, classes, of_events, windows) for account in accounts]
    expected = total([count_flow(whole, classes, of_events, windows)])
    assert equal_flows(total(flows), expected)
    assert equal_flows(total([total(flows[:2]), *flows[2:]]), expected)
    alone = count_flow(whole, classes, of_events)
    assert alone.by_window is None and np.array_equal(alone.dispersion, expected.dispersion)  # type: ignore[arg-type]


@given(places=PLACES)
@settings(max_examples=min(20, settings().max_examples))
def test_contributions_in_explicit_windows(places: list[int]) -> None:
    """Contribution and memory are equal; work is not, as visits of rows in shared windows are counted to the end."""
    own, events = query(f"PATTERN {SAME} WINDOW OPEN ON A o CLOSE AFTER 500us"), stream()
    asking = Observer(own, FEATURES, {"a": ["a.V"]}, 1, TABLE, "key", True, 0)
    whole = asking.account(whole_of(events))
    assert whole.matched.sum() > 5
    accounts = [asking.account(piece) for piece in cut(own, events, places, span=500_000)]
    for name in FEATURES:
        assert pa.concat_tables([one.matches_of(name) for one in accounts]).equals(whole.matches_of(name))
    assert pa.concat_tables([one.events_of("a") for one in accounts]).equals(whole.events_of("a"))


@pytest.mark.parametrize("name", ["time", "count"])
@pytest.mark.parametrize("around", [{"before": 0.5}, {"after": 0.5}])
def test_half_a_window_is_not_enough(name: str, around: Any) -> None:
    own, whole, asking = query(QUERIES[name]), known(name, "key", False), observer(query(QUERIES[name]))
    places = range(100, EVENTS, 100)
    for more, same in (({}, True), (around, False)):
        accounts = [asking.account(piece) for piece in cut(own, stream(), places, **more)]
        assert pa.concat_tables([one.events_of("b") for one in accounts]).equals(whole.events_of("b")) is same


def test_a_neg_at_the_end_needs_one_event_more() -> None:
    """The first event after the window decides it."""
    own = query(QUERIES["neg at the end"])
    events = pa.table({"type": ["A", "B", "D"], "ID": [1, 1, 1], "V": [1, 1, 1], "ts": [0, 1, 5_000]})
    for more in (0, 1):
        piece = cut(own, events, [2], more=more)[0]
        assert len(piece.table) == 2 + more
        assert observer(own).account(piece).matched.sum() == more


def models(text: str, events: pa.Table, places: list[int], **options: Any) -> tuple[HybridModel, HybridModel]:
    own = query(text)
    options = {"cost_table": TABLE, "index": "key"} | options
    whole = fit_pieces(own, Pieces([whole_of(events)]), **options)
    return whole, fit_pieces(own, Elsewhere(cut(own, events, places)), references=elsewhere, **options)


def same_classes(one: Classes | Tree, other: Classes | Tree) -> bool:
    names = ("feature", "threshold", "left", "right", "value") if isinstance(one, Tree) else ("table", "low")
    return type(one) is type(other) and (one.features, one.other) == (other.features, other.other) and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in names
    )  # fmt: skip


@pytest.mark.parametrize("rows", [500, 100_000])
@pytest.mark.parametrize("options", [{}, {"per": "leaf", "clusters": "gap"}, {"per": "cluster", "percentile": 75}])
def test_models(options: Any, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "_ROWS", rows)
    for places in ([2_000, 4_100], [300, 301, 2_500, 3_000, 4_000, 5_999]):
        whole, pieces = models(Q1, ds1(events=6_000, seed=4), places, **options)
        assert whole.classes and whole.classes.keys() == pieces.classes.keys()
        assert whole.event_classes.keys() == pieces.event_classes.keys()
        for name, own in whole.classes.items():
            assert same_classes(own, pieces.classes[name])
        for name, own in whole.event_classes.items():
            assert same_classes(own, pieces.event_classes[name])
        assert whole.flow.dispersion is not None and whole.flow.dispersion.max() > 1
        assert equal_flows(whole.flow, pieces.flow) and pieces.flow.by_window is None
        for column in whole.values.column_names:
            if column.startswith("mean_"):
                means = zip(whole.values[column].to_pylist(), pieces.values[column].to_pylist(), strict=True)
                assert all(one == pytest.approx(other, rel=1e-9) for one, other in means)
            else:
                assert whole.values[column].equals(pieces.values[column]), column
        assert HybridModel.of(pieces.stored()).variables == whole.variables


def test_an_account_and_an_observer_can_be_pickled() -> None:
    asking = observer(query())
    account = asking.account(whole_of(stream()))
    again = pickle.loads(pickle.dumps(account))
    assert again.matches_of("b").equals(account.matches_of("b"))
    assert len(pickle.dumps(asking)) < 10_000


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"PATTERN {SAME} WINDOW OPEN ON A o CLOSE AFTER 500us", "neither a time nor a number of events"),
        (f"{Q1} SELECT first", "SELECT first"),
        (f"{Q1} CONSUME consumed", "CONSUME consumed"),
    ],
)
def test_what_takes_one_piece_only(text: str, why: str) -> None:
    own = query(text)
    with pytest.raises(fc.ValidationError, match=f"{why}.*give history as one piece"):
        fit_pieces(own, Pieces([whole_of(stream())] * 2), cost_table="paper")
    with pytest.raises(fc.ValidationError, match="found no piece of history"):
        fit_pieces(own, Pieces(), cost_table="paper")


def test_each_piece_is_observed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    observed: list[Any] = []

    def counted(*arguments: Any) -> Account:
        observed.append(arguments)
        return observed_piece(*arguments)

    monkeypatch.setattr("fastcep.shedding.hybrid.pieces.observed_piece", counted)
    history = cut(query(), stream(), [400, 900])
    fit_pieces(query(), Pieces(history), cost_table=TABLE)
    assert len(observed) == len(history) == 3
