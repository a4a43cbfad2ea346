"""Ways to split the stream of a query into slices, and the reasons why it cannot be split."""

from __future__ import annotations

import pytest

import fastcep as fc
from fastcep.plan import make_plan
from fastcep.plan.slicing import Context, slicing_of

SCHEMA = fc.Schema({kind: {"k": "int64", "v": "int64"} for kind in "ABC"}, type="type")


def slicing(text: str, longest_window: int | None = None) -> tuple[tuple[str, ...] | str, Context | str]:
    """Return the attributes of the key and the context of time slices, or the reasons why there are none."""
    result = slicing_of(make_plan(fc.parse(f"PATTERN {text}", SCHEMA)), longest_window)
    return result.key if isinstance(result.key, str) else result.key.attributes, result.time


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("SEQ(A a, B b) WITHIN 9ns", Context(9)),
        ("SEQ(A a, B b) WITHIN 9 EVENTS", Context(events=9)),
        ("SEQ(A a, B b) WITHIN 9ns STRATEGY strict_contiguity", Context(9)),
        ("SEQ(A a, NEG C c, B b) WITHIN 9ns STRATEGY skip_till_next", Context(9)),
        ("SEQ(NEG C c, A a, B b, NEG C d) WITHIN 9ns", Context(18)),
        ("SEQ(NEG C c, A a, B b) WITHIN 9ns STRATEGY skip_till_next", Context(18)),
        ("SEQ(A a, NEG C c FOR 4ns, B b) WITHIN 9ns", Context(9)),
        ("SEQ(A a, B b, NEG C c FOR 4ns) WITHIN 9ns", Context(13)),
        ("SEQ(A a, B b) WINDOW EVERY 3ns CLOSE AFTER 9ns", Context(9, every_nanoseconds=3)),
        ("SEQ(A a, B b) WINDOW EVERY 3 EVENTS CLOSE AFTER 9ns CONSUME consumed", Context(9, every_events=3)),
        ("SEQ(A a, B b) WINDOW EVERY 3 EVENTS CLOSE AFTER 9 EVENTS", Context(0, 9, every_events=3)),
    ],
)
def test_time(text: str, context: Context) -> None:
    assert slicing(text)[1] == context


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SEQ(A a, B b) WITHIN UNBOUNDED", "WITHIN UNBOUNDED"),
        ("SEQ(A a, B b) WITHIN 9ns CONSUME consumed", "CONSUME consumed"),
        ("SEQ(A a, B b) WITHIN 9ns AFTER MATCH SKIP PAST LAST", "AFTER MATCH SKIP PAST LAST"),
        ("SEQ(A a, B b) WINDOW OPEN ON A w CLOSE ON C c", "CLOSE ON"),
        ("SEQ(A a, B b) WHERE prev(b.v, 2) = 1 WITHIN 9ns", "prev(b.v, 2) reads an event that may lie any time before"),
        ("SEQ(A a, B b) WHERE prev(b.v, 2) = 1 WITHIN 9ns PARTITION BY k", "prev(b.v, 2) reads"),
    ],
)
def test_not_by_time(text: str, reason: str) -> None:
    actual = slicing(text)[1]
    assert isinstance(actual, str) and actual.startswith(reason)


def test_windows_that_events_close_have_a_longest() -> None:
    assert slicing("SEQ(A a, B b) WINDOW OPEN ON A w CLOSE ON C c", 70)[1] == Context(70)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SEQ(A a, B b) WHERE [k] WITHIN 9 EVENTS", "WITHIN 9 EVENTS counts"),
        ("SEQ(A a, B b) WHERE [k] WINDOW OPEN ON A w CLOSE AFTER 9ns", "WINDOW is opened"),
        ("SEQ(A a, B b) WHERE [k] WITHIN 9ns STRATEGY strict_contiguity", "contiguity applies to the stream"),
        ("SEQ(A a, NEXT B b) WHERE [k] WITHIN 9ns", "contiguity applies to the stream"),
        ("SEQ(A a, B b) WITHIN 9ns", "no attribute is equal in all variables"),
    ],
)
def test_not_by_key(text: str, reason: str) -> None:
    actual = slicing(text)[0]
    assert isinstance(actual, str) and actual.startswith(reason)


@pytest.mark.parametrize(
    "text",
    [
        "SEQ(A a, B b) WHERE [k] WITHIN 9ns",
        "SEQ(A a, NEXT B b) WITHIN 9ns PARTITION BY k",
    ],
)
def test_key(text: str) -> None:
    assert slicing(text)[0] == ("k", "k")
