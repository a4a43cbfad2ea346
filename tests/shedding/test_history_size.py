"""`fastcep.fit` warns about a history that is too short."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import fastcep as fc

pytestmark = pytest.mark.filterwarnings("ignore:model 'espice'.*say almost nothing")

SCHEMA = fc.Schema({"A": {"id": "int64"}, "B": {"id": "int64"}}, type="kind", time_unit="s")
PATTERN = "PATTERN SEQ(A a, B b) WHERE a.id = b.id"
WITHIN = fc.parse(f"{PATTERN} WITHIN 10s", SCHEMA, name="q")
WINDOWS = fc.parse(f"{PATTERN} WINDOW EVERY 10s CLOSE AFTER 9s", SCHEMA, name="q")


def history(pairs: int) -> dict[str, Any]:
    """Return A and B of the same id in turn, every second."""
    return {"kind": ["A", "B"] * pairs, "ts": list(range(2 * pairs)), "id": [n // 2 % 50 for n in range(2 * pairs)]}


@pytest.mark.parametrize(
    ("kind", "query", "pairs", "options", "found"),
    [
        ("pspice", WITHIN, 8, {},
         "history of 16 events is short for a model of kind 'pspice' of query 'q': found 8 matches "
         "and 1.6 windows, expected at least 20 matches and 5 windows"),
        ("espice", WINDOWS, 8, {"equal_costs": True}, "found 2 windows, expected at least 20 windows"),
        ("hybrid", WITHIN, 8, {"validate": False}, "found 8 matches and"),
    ],
)  # fmt: skip
def test_too_short(
    caplog: pytest.LogCaptureFixture, kind: str, query: fc.Query, pairs: int, options: dict[str, Any], found: str
) -> None:
    with caplog.at_level(logging.WARNING, "fastcep.shedding"):
        fc.fit(query, history(pairs), kind=kind, **options)
    (message,) = caplog.messages
    assert found in message and message.endswith("what it predicts is uncertain; give more history")


@pytest.mark.parametrize(
    ("kind", "query", "options"),
    [
        ("pspice", WITHIN, {}), ("espice", WINDOWS, {"equal_costs": True}), ("hybrid", WITHIN, {"validate": False}),
        ("hybrid", WITHIN, {}),
    ],
)  # fmt: skip
def test_long_enough(caplog: pytest.LogCaptureFixture, kind: str, query: fc.Query, options: dict[str, Any]) -> None:
    with caplog.at_level(logging.WARNING, "fastcep.shedding"):
        fc.fit(query, history(150), kind=kind, **options)
    assert caplog.messages == []


def test_no_warning_before_an_error(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(fc.ValidationError, match="has no partial match in 1 events of history; give events"):
        fc.fit(WITHIN, {"kind": ["B"], "ts": [1], "id": [1]})
    assert caplog.messages == []
