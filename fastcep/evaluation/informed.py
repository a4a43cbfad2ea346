"""The reference *informed*: a shedder that knows the true expectations of the generator of the events.

It recognises the generator, generates a long stream from it, and observes the query on that stream. Classes of events
and partial matches distinguish all features that the open conditions use; for each class it estimates the contribution
and consumption, up to the sampling error of some hundred thousand partial matches. It sheds as `Hybrid` does, but
neither fits classes nor learns. It knows nothing about the coming events: no shedder that is fitted on history can
expect to know more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.evaluation.features import event_features, features
from fastcep.evaluation.generators import Generator, generator_of
from fastcep.evaluation.protocols import ReferenceFit
from fastcep.evaluation.stream import Stream
from fastcep.query import ast
from fastcep.shedding.hybrid import Hybrid
from fastcep.shedding.hybrid.fit import observed_piece, records_per_event
from fastcep.shedding.hybrid.flow import count_flow
from fastcep.shedding.hybrid.model import HybridModel
from fastcep.shedding.model import Model

if TYPE_CHECKING:
    from fastcep.evaluation.setting import Setting

__all__ = ["Informed", "InformedShedder", "expected_model"]

#: Seed of the generated stream, which no other stream is likely to have, and its target number of partial matches.
_SEED = 1_000_003
_RECORDS = 500_000
_MAX_EVENTS = 4_000_000  # events of the generated stream, if partial matches are rare
_PILOT = 5_000  # events of a pilot stream that estimates the number of partial matches per event

#: Number of age slices of the window.
_SLICES = 4


def expected_model(query: ast.Query, generator: Generator, setting: Setting) -> HybridModel:
    """Return the model of a query, observed on a generated stream.

    Raises
    ------
    ValidationError
        If the query has explicit windows.
    """
    if not isinstance(query.window, ast.TimeWindow | ast.CountWindow):
        raise ValidationError(
            f"shedders: 'informed' needs queries WITHIN a time or number of events, which {query.name!r} is not"
        )
    match_classes, event_classes = features(query, generator.values), event_features(query, generator.values)
    per_event = records_per_event(query, generator.draw(_PILOT, _SEED), setting.index)
    events = int(min(max(_PILOT, _RECORDS / max(per_event, 1 / _MAX_EVENTS)), _MAX_EVENTS))
    match_names, event_names = (
        {name: table.features for name, table in classes.items()} for classes in (match_classes, event_classes)
    )
    table = generator.draw(events, _SEED)
    account = observed_piece(query, table, match_names, event_names, _SLICES, setting.costs, setting.index)
    return HybridModel(
        query, match_classes, event_classes, count_flow(account, match_classes, event_classes),
        pa.table({}),  # no values for people to read
        account.variables, setting.costs, {"generator": generator.name},
    )  # fmt: skip


class Informed(ReferenceFit):
    """The strategy ``informed``, which knows the generator."""

    name = "informed"
    label = "informed (knows the generator)"
    reference = True

    def prepare(self, queries: Sequence[ast.Query], stream: Stream, setting: Setting) -> partial[InformedShedder]:
        """Recognise the generator of the stream, and return a factory of shedders with its models."""
        generator = generator_of(stream.table, queries[0].schema)
        _check_gaps(stream, Stream.of(generator.draw(_PILOT, _SEED), queries[0].schema), generator.name)
        return partial(InformedShedder, tuple(expected_model(query, generator, setting).stored() for query in queries))


def _check_gaps(stream: Stream, drawn: Stream, name: str) -> None:
    """Reject events with another rate than the generator, because expectations depend on the rate."""
    if len(stream) < 2:
        return
    gap, expected_gap = stream.span / (len(stream) - 1), drawn.span / (len(drawn) - 1)
    if abs(gap / expected_gap - 1) > 0.05 + 5 / len(stream) ** 0.5:
        raise ValidationError(
            f"shedders: 'informed' knows the generator {name}, with a mean gap of {expected_gap:,.0f} ns between "
            f"events, and these have {gap:,.0f} ns; omit it"
        )


class InformedShedder(Hybrid):
    """Shedder whose models are exact, so that it does not adapt them.

    Parameters
    ----------
    models
        Model of each query.
    seed
        Seed of random draws.
    """

    name = "informed"

    def __init__(self, models: Sequence[Model], seed: int = 0) -> None:
        super().__init__(models, seed, adapt=False)
