"""Contract tests of the baselines."""

from __future__ import annotations

from support.shedding.contract import Contract, stream

from fastcep import shedding

__all__ = ["stream"]


class TestRandomEvents(Contract):
    make = shedding.RandomEvents


class TestSelectivityEvents(Contract):
    make = shedding.SelectivityEvents


class TestRandomMatches(Contract):
    make = shedding.RandomMatches


class TestSelectivityMatches(Contract):
    make = shedding.SelectivityMatches


class TestBernoulliMatches(Contract):
    make = shedding.BernoulliMatches


class TestTypeWeightedEvents(Contract):
    make = shedding.TypeWeightedEvents


class TestPatternWeightedEvents(Contract):
    make = shedding.PatternWeightedEvents
