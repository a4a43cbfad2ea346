from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.errors import ValidationError
from fastcep.events import format_duration, parse_duration
from fastcep.events.units import NANOSECONDS


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0ns", 0),
        ("500us", 500_000),
        ("8 ms", 8_000_000),
        (" 5min ", 300 * 10**9),
        ("1h", 3600 * 10**9),
        ("2 d", 2 * 86400 * 10**9),
        ("0.5s", 500_000_000),
        ("1.5ms", 1_500_000),
        ("1.5h", 5400 * 10**9),
        ("007.50 us", 7_500),
        ("1.0ns", 1),
        ("0.0000000000000000ns", 0),
        ("0.123456789s", 123_456_789),
        ("9223372036.854775807s", 2**63 - 1),
        (timedelta(seconds=1, microseconds=1), 1_000_001_000),
    ],
)
def test_parse(text, ns):
    assert parse_duration(text) == ns


@pytest.mark.parametrize(
    "text",
    ["", "8", "ms", "1.h", ".5s", "1.5", "-1s", "-0.5s", "1,5s", "1e3s", "9223372036.854775808s", "8 parsecs",
     "8MS", "99999999d", "9" * 5000 + "s", 8, timedelta(seconds=-1)]
)
def test_no_duration(text):
    with pytest.raises(ValidationError, match="expected"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0.5ns", "1.0000000001s", "0." + "3" * 5000 + "d", "0.00000000000000000000001d"])
def test_a_fraction_of_a_nanosecond_is_an_error(text):
    with pytest.raises(ValidationError, match="not a whole number of nanoseconds; round it"):
        parse_duration(text)


@given(st.integers(0, 10**9), st.integers(0, 20), st.sampled_from(list(NANOSECONDS)))
def test_decimals_are_exact_or_an_error(number, places, unit):
    text = f"{number // 10**places}.{number % 10**places:0{max(places, 1)}}{unit}"
    exact = Fraction(number, 10**places) * NANOSECONDS[unit]
    if exact.denominator == 1 and exact < 2**63:
        assert parse_duration(text) == exact
    else:
        with pytest.raises(ValidationError, match=r"not a whole number|too long"):
            parse_duration(text)


@pytest.mark.parametrize(("ns", "text"), [(8_000_000, "8ms"), (0, "0ns"), (90 * 60 * 10**9, "90min"), (1001, "1001ns")])
def test_format(ns, text):
    assert format_duration(ns) == text


@given(st.integers(0, 2**63 - 1))
def test_round_trip(ns):
    assert parse_duration(format_duration(ns)) == ns
