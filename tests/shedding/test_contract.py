"""Contract tests of the baselines."""

from __future__ import annotations

import pytest
from support.shedding.contract import Contract, stream

from fastcep import shedding

__all__ = ["stream"]


class TestRandomEvents(Contract):
    make = shedding.RandomEvents


@pytest.mark.thorough
class TestSelectivityEvents(Contract):
    make = shedding.SelectivityEvents


@pytest.mark.thorough
class TestRandomMatches(Contract):
    make = shedding.RandomMatches


@pytest.mark.thorough
class TestSelectivityMatches(Contract):
    make = shedding.SelectivityMatches


@pytest.mark.thorough
class TestBernoulliMatches(Contract):
    make = shedding.BernoulliMatches


@pytest.mark.thorough
class TestTypeWeightedEvents(Contract):
    make = shedding.TypeWeightedEvents


@pytest.mark.thorough
class TestPatternWeightedEvents(Contract):
    make = shedding.PatternWeightedEvents
