"""Flows of a query with given classes, from the lineage of a run without drops."""

from __future__ import annotations

import pyarrow as pa
from reference.attribution import times_of

import fastcep as fc
from fastcep.evaluation.features import Values, event_features, features
from fastcep.shedding.hybrid.attribution import Account
from fastcep.shedding.hybrid.flow import Flow, count_flow
from fastcep.shedding.lineage import observe
from support.shedding.drop_plans import Quiet

PAPER = fc.CostTable.named("paper")
VALUES = {"V": Values(1, 10)}
KLEENE = "PATTERN SEQ(A a, B+ b[], C c) WHERE [ID] AND SUM(b[].V) > c.V WITHIN 500us"


def expected(own: fc.Query, events: pa.Table, slices: int, index: str = "key") -> Flow:
    """Return the flow of a stream."""
    classes, of_events = features(own, VALUES), event_features(own, VALUES)
    (record,) = observe(own, events, index=index, classes=classes, event_classes=of_events).records
    names = [{name: list(item.features) for name, item in by_name.items()} for by_name in (classes, of_events)]
    return count_flow(Account(record, times_of(own, events), slices, PAPER, *names), classes, of_events)


def shedder(own: fc.Query, slices: int, seed: int = 0) -> Quiet:
    return Quiet(features(own, VALUES), event_features(own, VALUES), slices, seed)
