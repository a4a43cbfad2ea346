"""``fastcep.spark.fit``: the models of `fastcep.fit`, fitted on history of any size.

Data flow: the stream is cut by time into pieces that have enough around them; three times something is asked of each
piece where it lies (`fastcep.shedding.hybrid.pieces`), what they give is added up in two rounds of tasks, and what
follows from the sums, such as clusters and trees, is found in a task for each kind of members. What comes to the driver
is what the model is made of. All of it are the functions that fit a model in one process, and so the models are equal.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fastcep.engine.queries import Buildable
from fastcep.errors import ValidationError
from fastcep.plan import make_plan
from fastcep.plan.slicing import Context, slicing_of
from fastcep.query import ast
from fastcep.shedding.hybrid.history import Piece
from fastcep.shedding.hybrid.pieces import check_cut, fit_pieces
from fastcep.shedding.model import Model, check_kind
from fastcep.spark.columns import plain_query, read_by
from fastcep.spark.detect import one_query
from fastcep.spark.functions import Shipped, shipped
from fastcep.spark.slicing import check_slices
from fastcep.spark.stream_pieces import FOUND, Pieces, collected, pieces_of, row_of

__all__ = ["fit"]

#: Partitions of what sums are split into, which are as many as variables.
_SPLIT = 16

Found = TypeVar("Found")
Part = TypeVar("Part")
Result = TypeVar("Result")


def fit(
    query: ast.Query | Buildable,
    frame: DataFrame,
    *,
    kind: str = "hybrid",
    order_by: str | Sequence[str] | None = None,
    pieces: int | None = None,
    **options: Any,
) -> Model:
    """Fit a model of a query on a DataFrame of history: the same as `fastcep.fit` does on all of it.

    Parameters
    ----------
    query
        That load is to be shed for.
    frame, order_by
        Events from the past, in any order, see `detect`.
    kind
        Of which shedder: ``"hybrid"``.
    pieces
        Into about how many pieces history is cut; each core holds the partial matches of one in memory. None: so many,
        up to 1,024, that each has about 500,000 events or fewer. Of a query that cannot be cut by time history is one
        piece, which one core has to have memory for.
    **options
        Of the kind, as for `fastcep.fit`.

    Returns
    -------
    Model
        For shedders, and to save.

    Raises
    ------
    ValidationError
        There is no such kind, an option is wrong, scikit-learn is missing, or history has no partial match.
    SchemaError, DataError
        The DataFrame is not as the schema says.
    """
    check_kind(kind)
    check_slices(pieces, "pieces")
    built = one_query(query)
    context = slicing_of(make_plan(built)).time
    whole = context if isinstance(context, str) else check_cut(built)
    if isinstance(context, str) or whole:
        if pieces not in (None, 1):
            raise ValidationError(
                f"pieces={pieces!r}: history of query {built.name!r} is not cut: {whole}; leave pieces out"
            )
        pieces, context = 1, Context()
    # One event more behind: as long as it has not come, a NEG at the end is not decided.
    after = Context(context.nanoseconds, context.events or 1)
    columns = read_by(built, options.get("features"))
    cut = pieces_of(frame, built, order_by, pieces, context, after, columns)
    plain = plain_query(built, columns)
    cut.frame.persist()
    try:
        found = fit_pieces(plain, _There(cut, shipped(plain)), references=_in_threads, **options)
    finally:
        cut.frame.unpersist()
    return replace(found, query=built).stored()


def _in_threads(function: Callable[[Any], Any], items: Iterable[Any], /) -> list[Any]:
    """Apply a function to items at one time."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(function, items))


class _There:
    """Pieces of a stream on Spark, see `fastcep.shedding.hybrid.history.History`."""

    def __init__(self, pieces: Pieces, functions: Shipped) -> None:
        self._pieces, self._functions = pieces, functions

    def __len__(self) -> int:
        return len(self._pieces.cut.slices)

    def gather(
        self,
        name: str,
        function: Callable[[Piece], Found],
        merge: Callable[[Sequence[Found]], Found],
        split: Callable[[Found], Sequence[Part]],
        each: Callable[[Part], Result],
    ) -> list[Result]:
        """Ask all pieces, merge what they give, split that, and give what follows from each part."""
        found = self._pieces.map(partial(_asked, function), self._functions, name)
        size = max(1, round(len(self) ** 0.5))  # of a first round, so that no task has all
        groups = -(-len(self) // size)
        found = _run(found, F.floor(F.col("piece") / size).cast("int"), groups, partial(_merged, merge))
        found = _run(found, F.lit(0), 1, partial(_divided, merge, split))
        found = _run(found, F.col("piece"), _SPLIT, partial(_concluded, each))
        return [pickle.loads(one) for one in collected(found, name)]


Batches = Iterator[pa.RecordBatch]


def _run(frame: DataFrame, partition: Any, partitions: int, task: Callable[[Batches], Batches]) -> DataFrame:
    """Send rows to partitions, in order, and run a task over each."""

    def fastcep_sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    sent = frame.withColumn("to", partition).repartitionById(partitions, F.col("to"))
    return sent.sortWithinPartitions("piece").drop("to").mapInArrow(fastcep_sums, FOUND)


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        for number, found in zip(batch.column("piece"), batch.column("found"), strict=True):
            yield number.as_py(), pickle.loads(found.as_py())


def _packed(number: int, found: Any) -> pa.RecordBatch:
    return row_of(number, pickle.dumps(found, protocol=5))


def _asked(function: Callable[[Piece], Any], piece: Piece) -> bytes:
    return pickle.dumps(function(piece), protocol=5)


def _sum(merge: Callable[[Sequence[Any]], Any], batches: Iterator[pa.RecordBatch]) -> tuple[int, Any] | None:
    """Merge one after the other, so that two are held at one time."""
    total: tuple[int, Any] | None = None
    for number, found in _rows(batches):
        total = (number, merge([found])) if total is None else (total[0], merge([total[1], found]))
    return total


def _merged(merge: Callable[[Sequence[Any]], Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    total = _sum(merge, batches)
    if total is not None:
        yield _packed(*total)


def _divided(
    merge: Callable[[Sequence[Any]], Any], split: Callable[[Any], Sequence[Any]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    total = _sum(merge, batches)
    for number, part in enumerate(split(total[1]) if total is not None else ()):
        yield _packed(number, part)


def _concluded(each: Callable[[Any], Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for number, part in _rows(batches):
        yield _packed(number, each(part))
