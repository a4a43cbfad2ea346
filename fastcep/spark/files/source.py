"""Find the Parquet files of a DataFrame in Spark's plan, if it has only their rows and columns, perhaps renamed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from fastcep.spark.files.filters import class_name, condition_of

__all__ = ["FileSource", "source_of"]

_RELATIONS = "org.apache.spark.sql.execution.datasources."
_PARQUET = f"{_RELATIONS}parquet.ParquetFileFormat"


@dataclass(frozen=True)
class FileSource:
    """Files of a DataFrame.

    Attributes
    ----------
    paths
        Local paths.
    kinds
        Spark's types of the files' columns, by name.
    stored
        The files' column of each column of the DataFrame.
    rebased
        Whether Spark may convert timestamps of files that it did not write from the Julian calendar.
    condition, names
        Condition of the rows that are events, and the files' columns that it reads; None: all are.
    """

    paths: list[str]
    kinds: dict[str, str]
    stored: dict[str, str]
    rebased: bool = False
    condition: pc.Expression | None = None
    names: frozenset[str] = frozenset()


def source_of(frame: DataFrame) -> FileSource | None:
    """Return the files of a DataFrame; None if it is something else, or if a setting lets Spark read other rows."""
    try:
        # If the DataFrame is cached, or computed from one that is, its rows are no longer those of its files. Its own
        # plan may be older than the cache.
        return _source(frame, frame.select("*")._jdf.queryExecution().withCachedData())
    except (Py4JError, PySparkException, AttributeError, TypeError):  # Spark Connect, or another version of Spark
        return None


def _source(frame: DataFrame, plan: Any) -> FileSource | None:
    conditions, output, renamed = [], plan.output(), dict[int, int]()
    while (name := plan.getClass().getName()).endswith((".logical.Project", ".logical.Filter")):
        if name.endswith(".Filter"):
            conditions.append(plan.condition())
        elif (aliases := _aliases(plan.projectList())) is None:
            return None
        else:
            renamed |= aliases
        plan = plan.child()
    if plan.getClass().getName() != f"{_RELATIONS}LogicalRelation":
        return None
    relation = plan.relation()
    if relation.getClass().getName() != f"{_RELATIONS}HadoopFsRelation":
        return None
    if relation.fileFormat().getClass().getName() != _PARQUET or not relation.partitionSchema().isEmpty():
        return None

    def setting(name: str, option: str | None = None) -> str:
        chosen = None if option is None else relation.options().get(option)
        configured: Any = frame.sparkSession.conf.get(f"spark.sql.{name}")
        return str(chosen.get() if chosen is not None and chosen.isDefined() else configured).lower()

    for name in ("ignoreCorruptFiles", "ignoreMissingFiles"):
        if setting(f"files.{name}", name) != "false":
            return None
    if setting("parquet.fieldId.read.enabled") != "false":  # columns may have other names in files
        return None
    names = dict(_named(plan.output()))

    def stored_name(attribute: int) -> str | None:
        while attribute in renamed:
            attribute = renamed[attribute]
        return names.get(attribute)

    translated = condition_of(conditions, stored_name) if conditions else (None, frozenset[str]())
    uris = [urlsplit(uri) for uri in relation.location().inputFiles()]
    if translated is None or any(uri.scheme != "file" for uri in uris):
        return None
    fields = relation.schema().fields()
    return FileSource(
        [path for uri in uris if not _hidden(path := unquote(uri.path))],
        {str(field.name()): str(field.dataType().simpleString()) for field in fields},
        {name: stored for attribute, name in _named(output) if (stored := stored_name(attribute)) is not None},
        setting("parquet.datetimeRebaseModeInRead", "datetimeRebaseMode") != "corrected", *translated,
    )  # fmt: skip


def _named(attributes: Any) -> Iterator[tuple[int, str]]:
    """Yield the identity and the name of each column of a plan."""
    for number in range(attributes.size()):
        attribute = attributes.apply(number)
        yield int(attribute.exprId().id()), str(attribute.name())


def _aliases(items: Any) -> dict[int, int] | None:
    """Return the column that each renamed column stands for; None if a column is computed."""
    aliases = {}
    for number in range(items.size()):
        item = items.apply(number)
        if class_name(item) == "Alias" and class_name(item.child()) == "AttributeReference":
            aliases[int(item.exprId().id())] = int(item.child().exprId().id())
        elif class_name(item) != "AttributeReference":
            return None
    return aliases


def _hidden(path: str) -> bool:
    """Return whether Spark lists a file, such as ``_metadata``, but reads no rows from it."""
    name = PurePosixPath(path).name
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
