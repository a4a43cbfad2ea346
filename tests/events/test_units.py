from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.errors import ValidationError
from fastcep.events import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0ns", 0),
        ("500us", 500_000),
        ("8 ms", 8_000_000),
        (" 5min ", 300 * 10**9),
        ("1h", 3600 * 10**9),
        ("2 d", 2 * 86400 * 10**9),
        (timedelta(seconds=1, microseconds=1), 1_000_001_000),
    ],
)
def test_parse(text, ns):
    assert parse_duration(text) == ns


@pytest.mark.parametrize(
    "text", ["", "8", "ms", "1.5h", "-1s", "8 parsecs", "8MS", "99999999d", "9" * 5000 + "s", 8, timedelta(seconds=-1)]
)
def test_no_duration(text):
    with pytest.raises(ValidationError, match="expected"):
        parse_duration(text)


def test_error_on_a_fraction_gives_the_remedy():
    with pytest.raises(ValidationError, match="90min"):
        parse_duration("1.5h")


@pytest.mark.parametrize(("ns", "text"), [(8_000_000, "8ms"), (0, "0ns"), (90 * 60 * 10**9, "90min"), (1001, "1001ns")])
def test_format(ns, text):
    assert format_duration(ns) == text


@given(st.integers(0, 2**63 - 1))
def test_round_trip(ns):
    assert parse_duration(format_duration(ns)) == ns
