"""``fastcep.spark.fit``: the models of `fastcep.fit`, fitted on history of any size.

Data flow: the stream is cut by time into pieces with enough context on both sides. The executors observe each piece
once and keep its account (`fastcep.shedding.hybrid.pieces`), but not its events. Three passes compute summaries of the
accounts, two rounds of tasks merge the summaries, and tasks for the parts of the sums compute clusters and trees. The
driver receives only the contents of the model. The functions are those of a fit in one process: the models are equal.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, overload

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fastcep.engine.queries import Buildable
from fastcep.errors import ValidationError
from fastcep.overload.costs import cost_table as cost_table_of
from fastcep.overload.names import check_options
from fastcep.plan import make_plan
from fastcep.plan.slicing import Context, slicing_of
from fastcep.query import ast
from fastcep.query.plain_schema import columns_read, plain_query
from fastcep.shedding.espice.fit import check_options as check_positions
from fastcep.shedding.espice.fit import count_options, fixed_size, warn_few_windows, with_effect
from fastcep.shedding.espice.fit import model_of_counts as model_of_positions
from fastcep.shedding.espice.model import ESpiceModel
from fastcep.shedding.fit import distinct, known_options
from fastcep.shedding.fixed_plan import MOST_EVENTS
from fastcep.shedding.hybrid.history import History, Piece
from fastcep.shedding.hybrid.pieces import check_cut, fit_pieces
from fastcep.shedding.model import Model, check_kind
from fastcep.shedding.pspice.children import events_to_count
from fastcep.shedding.pspice.fit import check_window, model_of_counts, warn_short_counts, with_children
from fastcep.shedding.pspice.model import PSpiceModel
from fastcep.spark.detect import one_query
from fastcep.spark.fitting.counts import position_table, size_table, transition_table, window_contexts
from fastcep.spark.fitting.pieces import ORDER, RESULT_SCHEMA, collect_results, pieces_of, result_rows, results_of
from fastcep.spark.functions import ship_functions
from fastcep.spark.slicing.cutter import check_slices

__all__ = ["fit"]

_HYBRID, _PSPICE, _ESPICE = "hybrid", "pspice", "espice"  #: kinds of the models that are fitted

#: Number of partitions for the parts of the sums; there are as many parts as variables.
_PART_PARTITIONS = 16

Item = TypeVar("Item", covariant=True)
Summary = TypeVar("Summary")
Part = TypeVar("Part")
AnyModel = TypeVar("AnyModel", PSpiceModel, ESpiceModel)
Result = TypeVar("Result")


Query = ast.Query | Buildable


@overload
def fit(query: Query, frame: DataFrame, *, kind: str = "hybrid", order_by: str | Sequence[str] | None = None,
        pieces: int | None = None, **options: Any) -> Model: ...  # fmt: skip
@overload
def fit(query: Sequence[Query], frame: DataFrame, *, kind: str = "hybrid", order_by: str | Sequence[str] | None = None,
        pieces: int | None = None, **options: Any) -> list[Model]: ...  # fmt: skip
def fit(
    query: Query | Sequence[Query],
    frame: DataFrame,
    *,
    kind: str = "hybrid",
    order_by: str | Sequence[str] | None = None,
    pieces: int | None = None,
    **options: Any,
) -> Model | list[Model]:
    """Fit a model of a query on a DataFrame of history, equal to that of `fastcep.fit` with ``validate=False``.

    Parameters
    ----------
    query
        Query to shed load for, or a sequence of queries with different names, whose models are fitted one by one.
    frame, order_by
        Past events, in any order, see `detect`.
    kind
        Kind of model: ``"hybrid"``, ``"pspice"`` or ``"espice"``.
    pieces
        Approximate number of pieces of history, at most 1,024; each core holds the partial matches of one piece in
        memory. None: enough for about 500,000 events per piece, at most 8,192. If the query cannot be cut by time,
        history is a single piece, processed in the memory of one core.
    **options
        Options of the kind, as for `fastcep.fit`, except ``validate=True``: nothing is held out.

    Returns
    -------
    Model, or list of Model
        Model that shedders use and that can be saved. For a sequence of queries, a list in their order.

    Raises
    ------
    ValidationError
        If the kind is unknown, an option is wrong, scikit-learn is missing, or history has no partial match.
    SchemaError, DataError
        If the DataFrame does not fit the schema.
    """
    if isinstance(query, Sequence):
        all_built = distinct("fit", [one_query(item) for item in query])
        return [fit(item, frame, kind=kind, order_by=order_by, pieces=pieces, **options) for item in all_built]
    check_kind(kind)
    if kind not in (_HYBRID, _PSPICE, _ESPICE):
        raise ValidationError(
            f"kind={kind!r}: only models of the kinds {_HYBRID!r}, {_PSPICE!r} and {_ESPICE!r} are fitted on Spark; "
            "fit this one with fastcep.fit()"
        )
    check_slices(pieces, "pieces")
    check_options(f"model {kind!r}", known_options(kind), options)
    if kind == _PSPICE:
        return _fit_pspice(one_query(query), frame, order_by, pieces, **options)
    if kind == _ESPICE:
        return _fit_espice(one_query(query), frame, order_by, pieces, **options)
    if options.get("validate"):
        raise ValidationError(
            "validate=True: a fit on Spark uses the whole history and holds nothing out; omit validate, and validate "
            "on a part of the history with fastcep.fit(), then pass the identifiers it finds as exclude="
        )
    built = one_query(query)
    pieces, context = _cut_of(built, pieces, check_cut(built))
    # One more event after the piece: a NEG at the end of a pattern is decided only when a later event arrives.
    after = Context(context.nanoseconds, context.events or 1)
    columns = columns_read(built, options.get("features"))
    cut = pieces_of(frame, built, order_by, pieces, context, after, columns)
    plain = plain_query(built, columns)
    with ExitStack() as kept:
        observed = partial(cut.map, functions=ship_functions(plain))
        history = _SparkHistory[Piece](observed, len(cut.cut.slices), kept)
        model = fit_pieces(plain, history, references=_in_threads, **options)
    return replace(model, query=built).stored()


def _fit_pspice(
    query: ast.Query, frame: DataFrame, order_by: str | Sequence[str] | None, pieces: int | None, *,
    bin: int | None = None, **options: Any,
) -> Model:  # fmt: skip
    """Count the transitions on the executors, and compute the model from their sums on the driver.

    A task counts the children of partial matches by age in the last windows.
    """
    check_window(query, bin)
    pieces, context = _cut_of(query, pieces, "")
    model = model_of_counts(query, transition_table(frame, query, order_by, pieces, context, **options), bin)
    warn_short_counts(model)
    if model.knows_age():
        model = _measured_on_latest(with_children, model, events_to_count(model.window), frame, order_by)
    return model.stored()


def _fit_espice(
    query: ast.Query, frame: DataFrame, order_by: str | Sequence[str] | None, pieces: int | None, *,
    bin: int | None = None, positions: int | None = None, equal_costs: bool = False, **options: Any,
) -> Model:  # fmt: skip
    """Count windows by size, then positions on the executors, and compute the model from the sums on the driver.

    A task measures the effect of drops on the last events.
    """
    check_positions(bin, positions, equal_costs)
    contexts = window_contexts(query)
    if isinstance(contexts, str):
        pieces, contexts = _one_piece(query, pieces, contexts), (Context(), Context())
    needs_sizes = positions is None and fixed_size(query) is None
    sizes = size_table(frame, query, order_by, pieces, contexts) if needs_sizes else None
    counting = count_options(query, sizes, bin, positions)
    counts = position_table(frame, query, order_by, pieces, contexts, **counting)
    model = model_of_positions(query, counts, counting, bin, positions, equal_costs)
    warn_few_windows(model)
    if not equal_costs:
        options["cost_table"] = cost_table_of(options.get("cost_table", "measured"))
        model = _measured_on_latest(partial(with_effect, **options), model, MOST_EVENTS, frame, order_by)
    return model.stored()


def _measured_on_latest(
    measure: Callable[[AnyModel, pa.Table], AnyModel], model: AnyModel, events: int, frame: DataFrame,
    order_by: str | Sequence[str] | None,
) -> AnyModel:  # fmt: skip
    """Return a model with what one task measures on the last events, as `measure` does in one process."""
    columns = columns_read(model.query)
    plain = replace(model, query=plain_query(model.query, columns))

    def run(piece: Piece) -> bytes:
        return pickle.dumps(measure(plain, piece.table))

    last = pieces_of(frame, model.query, order_by, 1, Context(), Context(), columns, events)
    (measured,) = collect_results(last.map(run, ship_functions(plain.query), "latest"), "latest")
    found: AnyModel = pickle.loads(measured)
    return replace(found, query=model.query)


def _cut_of(query: ast.Query, pieces: int | None, obstacle: str) -> tuple[int | None, Context]:
    """Return the number of pieces to cut history into and the context before each; one piece if it cannot be cut.

    ``obstacle`` says why it cannot be cut although its stream can; it is empty otherwise.
    """
    context = slicing_of(make_plan(query)).time
    if not isinstance(context, str) and not obstacle:
        return pieces, context
    return _one_piece(query, pieces, context if isinstance(context, str) else obstacle), Context()


def _one_piece(query: ast.Query, pieces: int | None, obstacle: str) -> int:
    """Return 1 for history that cannot be cut; raise `ValidationError` for more pieces."""
    if pieces not in (None, 1):
        raise ValidationError(
            f"pieces={pieces!r}: history of query {query.name!r} cannot be cut: {obstacle}; omit pieces"
        )
    return 1


def _in_threads(function: Callable[[Any], Any], items: Iterable[Any], /) -> list[Any]:
    """Apply a function to all items concurrently."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(function, items))


class _SparkHistory(History[Item]):
    """Pieces of a stream on Spark, or what was made of them, see `fastcep.shedding.hybrid.history.History`.

    Parameters
    ----------
    apply
        Function that applies a function from a piece to bytes to all pieces, and returns rows of `RESULT_SCHEMA`.
    count
        Number of pieces.
    kept
        Stack that releases the kept results.
    """

    def __init__(self, apply: Callable[..., DataFrame], count: int, kept: ExitStack) -> None:
        self._apply, self._count, self._kept = apply, count, kept

    def __len__(self) -> int:
        return self._count

    def map(self, name: str, function: Callable[[Item], Result]) -> _SparkHistory[Result]:
        """Apply a function to each piece; Spark keeps the results in memory or on disk."""
        frame = self._apply(partial(_pickled, function), name=name).persist()
        self._kept.callback(frame.unpersist)
        return _SparkHistory(partial(_applied, frame), self._count, self._kept)

    def gather(
        self,
        name: str,
        function: Callable[[Item], Summary],
        merge: Callable[[Sequence[Summary]], Summary],
        split: Callable[[Summary], Sequence[Part]],
        each: Callable[[Part], Result],
    ) -> list[Result]:
        """Summarise all pieces, merge the summaries, split the sum, and return the result of each part."""
        frame = self._apply(partial(_pickled, function), name=name)
        size = max(1, round(len(self) ** 0.5))  # pieces per task of the first round, so that no task gets all
        groups = -(-len(self) // size)
        frame = _run(frame, F.floor(F.col("piece") / size).cast("int"), groups, partial(_merge, merge))
        frame = _run(frame, F.lit(0), 1, partial(_split, merge, split))
        frame = _run(frame, F.col("piece"), _PART_PARTITIONS, partial(_apply_each, each))
        return [pickle.loads(result) for result in collect_results(frame, name)]


Batches = Iterator[pa.RecordBatch]


def _applied(frame: DataFrame, function: Callable[[Any], bytes], *, name: str) -> DataFrame:
    """Apply a function to the pickled results in a DataFrame."""

    def fastcep_results(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, result in _results(batches):
            yield from result_rows(number, function(result))

    fastcep_results.__name__ = f"fastcep_{name}"
    return frame.mapInArrow(fastcep_results, RESULT_SCHEMA)


def _run(frame: DataFrame, partition: Any, partitions: int, task: Callable[[Batches], Batches]) -> DataFrame:
    """Repartition rows, sort them by piece, and run a task over each partition."""

    def fastcep_sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    partitioned = frame.withColumn("to", partition).repartitionById(partitions, F.col("to"))
    return partitioned.sortWithinPartitions(*ORDER).drop("to").mapInArrow(fastcep_sums, RESULT_SCHEMA)


def _results(batches: Batches) -> Iterator[tuple[int, Any]]:
    for number, result in results_of(batches):
        yield number, pickle.loads(result)


def _pickled_rows(number: int, value: Any) -> Iterator[pa.RecordBatch]:
    return result_rows(number, pickle.dumps(value, protocol=5))


def _pickled(function: Callable[[Any], Any], piece: Any) -> bytes:
    return pickle.dumps(function(piece), protocol=5)


def _sum(merge: Callable[[Sequence[Any]], Any], batches: Iterator[pa.RecordBatch]) -> tuple[int, Any] | None:
    """Merge summaries one after the other, so that only two are in memory; return the first number and the sum."""
    total: tuple[int, Any] | None = None
    for number, summary in _results(batches):
        total = (number, merge([summary])) if total is None else (total[0], merge([total[1], summary]))
    return total


def _merge(merge: Callable[[Sequence[Any]], Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    total = _sum(merge, batches)
    if total is not None:
        yield from _pickled_rows(*total)


def _split(
    merge: Callable[[Sequence[Any]], Any], split: Callable[[Any], Sequence[Any]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    total = _sum(merge, batches)
    for number, part in enumerate(split(total[1]) if total is not None else ()):
        yield from _pickled_rows(number, part)


def _apply_each(each: Callable[[Any], Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for number, part in _results(batches):
        yield from _pickled_rows(number, each(part))
