"""The reference *informed*: sheds by the true expectations of the generator that the events come from.

It is told which generator that is, draws a long stream of its own from it, and observes the query on that. So for
each class of events and of partial matches, told apart by all that the rest of the query wants to know of them, it
knows how one comes of the other (up to the error of a sample of some hundred thousand partial matches). By that it
sheds as `Hybrid` does; but it neither fits classes nor learns, as there is nothing to learn. It knows nothing of the
events that are to come: no shedder that is fitted on history can expect to know more.
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

__all__ = ["Informed", "InformedShedder", "expected"]

#: The stream that is drawn has a seed that no other one is likely to have, and about so many partial matches.
_SEED = 1_000_003
_RECORDS = 500_000
_MOST = 4_000_000  # events, however few partial matches come of them
_PILOT = 5_000  # events by which it is found how many there are

#: Into how many slices the window is cut.
_SLICES = 4


def expected(query: ast.Query, generator: Generator, setting: Setting) -> HybridModel:
    """Draw from the generator, observe the query, and count what comes of what.

    Raises
    ------
    ValidationError
        The query has explicit windows.
    """
    if not isinstance(query.window, ast.TimeWindow | ast.CountWindow):
        raise ValidationError(
            f"shedders: 'informed' is for queries WITHIN a time or number of events; {query.name!r} is none"
        )
    own, of_events = features(query, generator.values), event_features(query, generator.values)
    made = records_per_event(query, generator.draw(_PILOT, _SEED), setting.index)
    table = generator.draw(int(min(max(_PILOT, _RECORDS / max(made, 1 / _MOST)), _MOST)), _SEED)
    names, of_event = ({name: of.features for name, of in told.items()} for told in (own, of_events))
    account = observed_piece(query, table, names, of_event, _SLICES, setting.costs, setting.index)
    flow, variables = count_flow(account, own, of_events), account.variables
    none = pa.table({})  # what people want to know
    return HybridModel(query, own, of_events, flow, none, variables, setting.costs, {"generator": generator.name})


class Informed(ReferenceFit):
    """The strategy ``informed``: knows a generator."""

    name = "informed"
    label = "informed (knows the generator)"
    reference = True

    def knowing(self, queries: Sequence[ast.Query], stream: Stream, setting: Setting) -> partial[InformedShedder]:
        """Find out what can be known of queries over a stream."""
        generator = generator_of(stream.table, queries[0].schema)
        _check_gaps(stream, Stream.of(generator.draw(_PILOT, _SEED), queries[0].schema), generator.name)
        return partial(InformedShedder, tuple(expected(query, generator, setting).stored() for query in queries))


def _check_gaps(stream: Stream, drawn: Stream, name: str) -> None:
    """Refuse events that come faster or slower than the generator's: what is to be expected depends on it."""
    if len(stream) < 2:
        return
    gap, own = stream.span / (len(stream) - 1), drawn.span / (len(drawn) - 1)
    if abs(gap / own - 1) > 0.05 + 5 / len(stream) ** 0.5:
        raise ValidationError(
            f"shedders: 'informed' knows the generator {name}, where two events are {own:,.0f} ns apart in the mean, "
            f"and these are {gap:,.0f} ns; leave it out"
        )


class InformedShedder(Hybrid):
    """Sheds by models that stay true.

    Parameters
    ----------
    models
        Of each query.
    seed
        Of what is drawn.
    """

    name = "informed"

    def __init__(self, models: Sequence[Model], seed: int = 0) -> None:
        super().__init__(models, seed, adapt=False)
