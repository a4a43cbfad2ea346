"""``fastcep fit``: fit the models of shedders on history."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.table import Table

from fastcep.cli.all_events import read_all, sort_hint
from fastcep.cli.inputs import InputOptions
from fastcep.cli.run import load
from fastcep.errors import ModelError, ValidationError
from fastcep.query import Query
from fastcep.shedding.fit import fit as fit_model
from fastcep.shedding.fit import known_options
from fastcep.shedding.model import Model, check_folder, check_kind

if TYPE_CHECKING:
    from fastcep.cli.spark import SparkOptions
    from fastcep.events import Schema

__all__ = ["FitOptions", "fit"]


@dataclass(frozen=True)
class FitOptions:
    """Options of a fit, see `fastcep.fit`; None: the default of the kind.

    ``clusters`` is a number or ``gap``, ``exclude`` a list of attributes, separated by commas.
    """

    kind: str = "hybrid"
    slices: int | None = None
    clusters: str | None = None
    bin: int | None = None
    cost_table: str | None = None
    index: str | None = None
    seed: int | None = None
    exclude: str | None = None
    validate: bool | None = None
    equal_costs: bool | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `fastcep.fit`: the kind, and the options that were given.

        Raises
        ------
        ValidationError
            If the kind has no such option, or a value is malformed.
        """
        check_kind(self.kind)
        given: dict[str, Any] = {
            "slices": self.slices, "clusters": None if self.clusters is None else _clusters(self.clusters),
            "bin": self.bin, "seed": self.seed, "validate": self.validate, "cost_table": self.cost_table,
            "index": self.index, "equal_costs": self.equal_costs,
            "exclude": None if self.exclude is None else _names(self.exclude),
        }  # fmt: skip
        given = {name: value for name, value in given.items() if value is not None}
        for name in given:
            if name not in known_options(self.kind, given):
                spelling = "no-validate" if name == "validate" and not self.validate else name.replace("_", "-")
                raise ValidationError(
                    f"--{spelling}: models of kind {self.kind!r} have no such option; leave it out, or give another "
                    "--kind"
                )
        return {"kind": self.kind, **given}


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
    """Fit a model for each query of a file, and save it.

    Parameters
    ----------
    file
        The ``.cep`` file.
    sources
        Paths of history, in order; ``-`` is standard input.
    output
        Folder of the model. For several queries, each model gets a subfolder with the name of its query.
    options
        Options of the fit.
    inputs
        Options for reading events.
    name
        Name of the only query, None for all.
    json
        Print one JSON object instead of a table.
    spark
        Options for fitting on Spark; None: fit in this process.

    Raises
    ------
    FastcepError
        If a query, the events or an option is wrong, or a model cannot be written. No model is written then, unless
        the disk fills up between two models.
    """
    schema, queries = load(file, name)
    arguments = options.arguments()
    folders = _folders(output, queries)
    inputs = inputs or InputOptions()
    if spark is None:
        models, events, seconds = _fit_here(queries, inputs, sources, schema, arguments)
    else:
        models, events, seconds = _fit_on_spark(queries, inputs, sources, schema, arguments, spark)
    if len(folders) > 1:
        _make_folder(output)
    for model, folder in zip(models, folders, strict=True):
        model.save(folder)
    if json:
        folder_by_query = {model.query.name: str(folder) for model, folder in zip(models, folders, strict=True)}
        costs = {model.query.name: model.decision_cost for model in models}
        validation = {model.query.name: model.validation for model in models}
        print(json_module.dumps({
            "events": events, "seconds": round(seconds, 3), "models": folder_by_query,
            "decision_cost": costs, "validation": validation,
        }))  # fmt: skip
        return
    for model, folder in zip(models, folders, strict=True):
        Console().print(_table(model))
        for line in _validation_lines(model.validation or {}):
            print(line)
        cost = "" if model.decision_cost is None else f"; a decision takes {model.decision_cost / 1e3:,.0f} us"
        print(f"{model.query.name}: fitted on {events:,} events, written to {folder}{cost}")


def _fit_here(
    queries: Sequence[Query], inputs: InputOptions, sources: Sequence[str], schema: Schema, arguments: dict[str, Any]
) -> tuple[list[Model], int, float]:
    """Return the models, the number of events and the time of the fit in seconds."""
    events = read_all(inputs, sources, schema, "a fit")
    start = time.perf_counter()
    with sort_hint():
        models = [fit_model(query, events, **arguments) for query in queries]
    return models, len(events), time.perf_counter() - start


def _fit_on_spark(
    queries: Sequence[Query], inputs: InputOptions, sources: Sequence[str], schema: Schema, arguments: dict[str, Any],
    options: SparkOptions,
) -> tuple[list[Model], int, float]:  # fmt: skip
    from fastcep.cli.spark import events_on_spark, session

    with session(options) as spark_session, events_on_spark(spark_session, inputs, sources, schema, options) as events:
        import fastcep.spark

        if events.frame is None:
            raise ValidationError(f"--input {', '.join(sources)}: found no events; a fit needs at least one")
        start = time.perf_counter()
        models = [
            fastcep.spark.fit(query, events.frame, order_by=events.order_by, **arguments) for query in queries
        ]  # fmt: skip
        return models, events.rows, time.perf_counter() - start


def _folders(output: Path, queries: Sequence[Query]) -> list[Path]:
    """Return the folder of each model; raise an error if any of them cannot be written."""
    several = len(queries) > 1
    for query in queries if several else ():
        if query.name == ".." or Path(query.name).name != query.name:
            raise ValidationError(
                f"--output: query name {query.name!r} cannot be the name of a folder in '{output}'; rename the query, "
                "or fit it alone with --query"
            )
    folders = [output / query.name if several else output for query in queries]
    try:
        for folder in folders:
            check_folder(folder, parents=several)
    except (ModelError, ValidationError) as error:
        raise type(error)(f"--output: {error}") from None
    return folders


def _make_folder(output: Path) -> None:
    try:
        output.resolve().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValidationError(
            f"--output: cannot create the folder '{output}': {error.strerror or error}; free space, or write elsewhere"
        ) from error


def _names(text: str) -> list[str]:
    """Return the names in a list that is separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _clusters(text: str) -> int | Literal["gap"]:
    if text == "gap":
        return "gap"
    if not text.isdigit() or int(text) < 1:
        raise ValidationError(f"--clusters {text}: expected a positive integer, or gap")
    return int(text)


def _validation_lines(validation: dict[str, Any]) -> list[str]:
    """Describe a validation; the warning is logged, so it is not repeated here."""
    lines = [f"feature {item['feature']} of {item['of']} {item['variable']} removed: {item['reason']}"
             for item in validation.get("removed", ())]  # fmt: skip
    if "held_out_recall" in validation:
        names = ("shares", "held_out_recall", "estimated_recall", "random_recall")
        lines += [
            f"saving {share:.0%} of the work: held-out recall {held_out:.3f}, estimated {estimated:.3f}, "
            f"random shedding {random:.3f}"
            for share, held_out, estimated, random in zip(*(validation[name] for name in names), strict=True)
        ]
    return lines


def _table(model: Model) -> Table:
    """Table of what a model distinguishes."""
    if "positions" in model.parts:
        return _type_table(model)
    return _class_table(model) if "values" in model.parts else _state_table(model)


def _type_table(model: Model) -> Table:
    """Table of the types of a model of eSPICE: events that can be bound, and of these in matches."""
    table = Table(
        "type", title=f"Types of {model.query.name} in a window of {model.numbers['positions']:,} events",
        caption=f"Type and position have {model.numbers['information']:.3f} of 1 bit of information on matches.",
    )  # fmt: skip
    for column in ("events", "matched", "positions of matched events"):
        table.add_column(column, justify="right")
    size, last = model.numbers["bin"], model.numbers["positions"] - 1
    rows = model.parts["positions"].to_pylist()
    for name in dict.fromkeys(row["type"] for row in rows):
        of_type = [row for row in rows if row["type"] == name]
        events, matched = (sum(row[key] for row in of_type) / model.numbers["windows"] for key in ("events", "matched"))
        places = [row["position"] for row in of_type if row["matched"]]
        spread = f"{places[0] * size:,} to {min((places[-1] + 1) * size - 1, last):,}" if places else "none"
        table.add_row(name, f"{events:.3g}", f"{matched:.3g}", spread)
    return table


def _state_table(model: Model) -> Table:
    """Table of the states of a model of pSPICE at the start of a window of mean size; without the final state."""
    table = Table("state", title=f"States of {model.query.name} at the start of a window")
    for column in ("matches expected", "remaining time, us"):
        table.add_column(column, justify="right")
    rows = [row for row in model.parts["utility"].to_pylist() if row["remaining"] <= model.numbers["window"]]
    for row in rows[-len(model.numbers["states"]) :]:
        if row["time"] > 0:
            table.add_row(row["state_name"], f"{row['probability']:.3g}", f"{row['time'] / 1e3:.3g}")
    return table


def _class_table(model: Model) -> Table:
    """Table of the classes of a model: their number, their members, and the range of their mean contribution."""
    table = Table("variable", "of", title=f"Classes of {model.query.name}")
    for column in ("classes", "members", "matches of a member"):
        table.add_column(column, justify="right")
    rows = [row for row in model.parts["values"].to_pylist() if row["members"]]
    for variable, of in dict.fromkeys((row["variable"], row["of"]) for row in rows):
        classes = [row for row in rows if (row["variable"], row["of"]) == (variable, of)]
        contributions = sorted(sum(row["mean_contribution"]) for row in classes)
        members = sum(row["members"] for row in classes)
        value_range = f"{contributions[0]:.3g} to {contributions[-1]:.3g}"
        table.add_row(variable, of, str(len(classes)), f"{members:,}", value_range)
    return table
