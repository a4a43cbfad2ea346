"""``fastcep fit``: models of shedders, fitted on history."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.table import Table

from fastcep.cli.all_events import in_order, read_whole
from fastcep.cli.inputs import InputOptions
from fastcep.cli.run import load
from fastcep.errors import ModelError, ValidationError
from fastcep.query import Query
from fastcep.shedding.fit import fit as carry_out
from fastcep.shedding.model import Model, check_folder

if TYPE_CHECKING:
    from fastcep.cli.spark import SparkOptions
    from fastcep.events import Schema

__all__ = ["FitOptions", "fit"]


@dataclass(frozen=True)
class FitOptions:
    """How models are fitted, see `fastcep.fit`; ``clusters`` is a number or ``gap``."""

    kind: str = "hybrid"
    slices: int = 4
    clusters: str = "10"
    cost_table: str = "measured"
    index: str = "full"
    seed: int = 0

    def arguments(self) -> dict[str, Any]:
        """Those of `fastcep.fit`."""
        return {
            "kind": self.kind, "slices": self.slices, "clusters": _clusters(self.clusters), "index": self.index,
            "cost_table": self.cost_table, "seed": self.seed,
        }  # fmt: skip


def fit(
    file: Path,
    sources: Sequence[str],
    output: Path,
    options: FitOptions,
    *,
    inputs: InputOptions | None = None,
    name: str | None = None,
    json: bool = False,
    spark: SparkOptions | None = None,
) -> None:
    """Fit a model for each query of a file, and keep it.

    Parameters
    ----------
    file
        The ``.cep`` file.
    sources
        Paths of history, one after the other; ``-`` is standard input.
    output
        The folder of the model; of several queries, a folder with the query's name in it for each.
    options
        How it is fitted.
    inputs
        How events are read.
    name
        The only query, or None for all.
    json
        Print one JSON object instead of a table.
    spark
        Fit on Spark; None: in this process.

    Raises
    ------
    FastcepError
        If the query, the events or an option are wrong, or there is no place for a model. Nothing is written then;
        but of several models some are, if the disk is full in the middle.
    """
    schema, queries = load(file, name)
    arguments = options.arguments()
    folders = _folders(output, queries)
    inputs = inputs or InputOptions()
    if spark is None:
        models, events, seconds = _fitted(queries, inputs, sources, schema, arguments)
    else:
        models, events, seconds = _fitted_on_spark(queries, inputs, sources, schema, arguments, spark)
    if len(folders) > 1:
        _make(output)
    for model, folder in zip(models, folders, strict=True):
        model.save(folder)
    if json:
        told = {model.query.name: str(folder) for model, folder in zip(models, folders, strict=True)}
        print(json_module.dumps({"events": events, "seconds": round(seconds, 3), "models": told}))
        return
    for model, folder in zip(models, folders, strict=True):
        Console().print(_classes(model))
        print(f"{model.query.name}: fitted on {events:,} events, written to {folder}")


def _fitted(
    queries: Sequence[Query], inputs: InputOptions, sources: Sequence[str], schema: Schema, arguments: dict[str, Any]
) -> tuple[list[Model], int, float]:
    """The models, on how many events, in how many seconds."""
    events = read_whole(inputs, sources, schema, "a fit")
    began = time.perf_counter()
    with in_order():
        models = [carry_out(query, events, **arguments) for query in queries]
    return models, len(events), time.perf_counter() - began


def _fitted_on_spark(
    queries: Sequence[Query], inputs: InputOptions, sources: Sequence[str], schema: Schema, arguments: dict[str, Any],
    options: SparkOptions,
) -> tuple[list[Model], int, float]:  # fmt: skip
    from fastcep.cli.spark import events_on_spark, session

    with session(options) as running, events_on_spark(running, inputs, sources, schema, options) as events:
        import fastcep.spark

        if events.frame is None:
            raise ValidationError(f"--input {', '.join(sources)}: found no events; a fit needs some")
        began = time.perf_counter()
        models = [
            fastcep.spark.fit(query, events.frame, order_by=events.order_by, **arguments) for query in queries
        ]  # fmt: skip
        return models, events.rows, time.perf_counter() - began


def _folders(output: Path, queries: Sequence[Query]) -> list[Path]:
    """Where the model of each query goes; refuse all if one of them cannot be written."""
    several = len(queries) > 1
    for query in queries if several else ():
        if query.name == ".." or Path(query.name).name != query.name:
            raise ValidationError(
                f"--output: no folder in '{output}' can have the name of query {query.name!r}; give the query another "
                "one, or fit it alone with --query"
            )
    folders = [output / query.name if several else output for query in queries]
    try:
        for folder in folders:
            check_folder(folder, parents=several)
    except (ModelError, ValidationError) as error:
        raise type(error)(f"--output: {error}") from None
    return folders


def _make(output: Path) -> None:
    try:
        output.resolve().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValidationError(
            f"--output: cannot make the folder '{output}': {error.strerror or error}; free space, or write elsewhere"
        ) from error


def _clusters(text: str) -> int | Literal["gap"]:
    if text == "gap":
        return "gap"
    if not text.isdigit() or int(text) < 1:
        raise ValidationError(f"--clusters {text}: expected a whole number from 1 on, or gap")
    return int(text)


def _classes(model: Model) -> Table:
    """How many classes of what there are, and what the least and the most of them are worth."""
    table = Table("variable", "of", title=f"Classes of {model.query.name}")
    for column in ("classes", "members", "matches of a member"):
        table.add_column(column, justify="right")
    rows = [row for row in model.parts["values"].to_pylist() if row["members"]]
    for variable, of in dict.fromkeys((row["variable"], row["of"]) for row in rows):
        own = [row for row in rows if (row["variable"], row["of"]) == (variable, of)]
        worth = sorted(sum(row["mean_contribution"]) for row in own)
        members = sum(row["members"] for row in own)
        table.add_row(variable, of, str(len(own)), f"{members:,}", f"{worth[0]:.3g} to {worth[-1]:.3g}")
    return table
