"""Shedding by eSPICE: it keeps the contract, and finds more than shedders that ignore positions."""

from __future__ import annotations

import warnings
from functools import cache

import pytest
from support.shedding.contract import SCHEMA as CONTRACT_SCHEMA
from support.shedding.contract import Contract, Make
from support.shedding.contract import stream as stream_

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.shedding import ESpice, Model

stream_of_contract = pytest.fixture(scope="module", name="stream")(stream_.__wrapped__)  # type: ignore[attr-defined]

CONTRACT = fc.parse(
    "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V "
    "WINDOW OPEN EVERY 500us CLOSE AFTER 2ms", CONTRACT_SCHEMA, name="q1",
)  # fmt: skip


@cache
def contract_model() -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return fc.fit(CONTRACT, ds1(events=40_000, seed=21), kind="espice")


class TestESpice(Contract):
    make: Make = staticmethod(lambda: ESpice(contract_model()))
    query = CONTRACT


@pytest.mark.thorough
class TestLiteral(Contract):
    make: Make = staticmethod(lambda: ESpice(contract_model(), literal=True))
    query = CONTRACT
