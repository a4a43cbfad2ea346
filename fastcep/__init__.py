"""fastcep: complex event processing with a compiled engine.

>>> import fastcep as fc
>>> schema = fc.Schema({"A": {"ID": "int64"}, "B": {"ID": "int64"}}, time="ts", type="type", time_unit="us")
>>> query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 8ms", schema)
>>> engine = fc.Engine(query)

Names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastcep import arrivals as arrivals
    from fastcep import datasets as datasets
    from fastcep import evaluation as evaluation
    from fastcep import migration as migration
    from fastcep import parallel as parallel
    from fastcep import query as query
    from fastcep import shedding as shedding
    from fastcep.arrivals.input_queue import InputQueue
    from fastcep.arrivals.max_throughput import maximum_rate
    from fastcep.arrivals.rate import Rate
    from fastcep.arrivals.replay import replay
    from fastcep.engine import Engine, Event, Match, Matches
    from fastcep.engine.state.keygroups import key_group
    from fastcep.errors import (
        CapacityError,
        DataError,
        FastcepError,
        InstanceError,
        MemoryLimitError,
        MigrationError,
        ModelError,
        OrderError,
        ParseError,
        QueryError,
        QueryWarning,
        QueueFullError,
        SchemaError,
        SnapshotError,
        ValidationError,
    )
    from fastcep.evaluation import evaluate
    from fastcep.events import EventBatch, Schema
    from fastcep.overload.costs import CostTable
    from fastcep.query import (
        Document,
        Query,
        adjacent,
        after,
        all_of,
        any_of,
        any_type,
        aperiodic,
        every,
        group,
        on,
        one_of,
        parse,
        parse_document,
        parse_file,
        periodic,
        same,
        seq,
        to_text,
        with_attributes,
    )
    from fastcep.query.user_functions.registry import function, functions
    from fastcep.shedding.fit import fit
    from fastcep.shedding.model import Model, load_model

__version__ = "0.1.0"

_MODULE_OF = {
    "CapacityError": "fastcep.errors",
    "CostTable": "fastcep.overload.costs",
    "DataError": "fastcep.errors",
    "Document": "fastcep.query",
    "Engine": "fastcep.engine",
    "Event": "fastcep.engine",
    "EventBatch": "fastcep.events",
    "FastcepError": "fastcep.errors",
    "InputQueue": "fastcep.arrivals.input_queue",
    "InstanceError": "fastcep.errors",
    "Match": "fastcep.engine",
    "Matches": "fastcep.engine",
    "MemoryLimitError": "fastcep.errors",
    "MigrationError": "fastcep.errors",
    "Model": "fastcep.shedding.model",
    "ModelError": "fastcep.errors",
    "OrderError": "fastcep.errors",
    "ParseError": "fastcep.errors",
    "Query": "fastcep.query",
    "QueryError": "fastcep.errors",
    "QueryWarning": "fastcep.errors",
    "QueueFullError": "fastcep.errors",
    "Rate": "fastcep.arrivals.rate",
    "Schema": "fastcep.events",
    "SchemaError": "fastcep.errors",
    "SnapshotError": "fastcep.errors",
    "ValidationError": "fastcep.errors",
    "adjacent": "fastcep.query",
    "after": "fastcep.query",
    "all_of": "fastcep.query",
    "any_of": "fastcep.query",
    "any_type": "fastcep.query",
    "aperiodic": "fastcep.query",
    "evaluate": "fastcep.evaluation",
    "every": "fastcep.query",
    "fit": "fastcep.shedding.fit",
    "function": "fastcep.query.user_functions.registry",
    "functions": "fastcep.query.user_functions.registry",
    "group": "fastcep.query",
    "key_group": "fastcep.engine.state.keygroups",
    "load_model": "fastcep.shedding.model",
    "maximum_rate": "fastcep.arrivals.max_throughput",
    "on": "fastcep.query",
    "one_of": "fastcep.query",
    "parse": "fastcep.query",
    "parse_document": "fastcep.query",
    "parse_file": "fastcep.query",
    "periodic": "fastcep.query",
    "replay": "fastcep.arrivals.replay",
    "same": "fastcep.query",
    "seq": "fastcep.query",
    "to_text": "fastcep.query",
    "with_attributes": "fastcep.query",
}
_PACKAGES = ("arrivals", "datasets", "evaluation", "migration", "parallel", "query", "shedding")

__all__ = [
    "CapacityError",
    "CostTable",
    "DataError",
    "Document",
    "Engine",
    "Event",
    "EventBatch",
    "FastcepError",
    "InputQueue",
    "InstanceError",
    "Match",
    "Matches",
    "MemoryLimitError",
    "MigrationError",
    "Model",
    "ModelError",
    "OrderError",
    "ParseError",
    "Query",
    "QueryError",
    "QueryWarning",
    "QueueFullError",
    "Rate",
    "Schema",
    "SchemaError",
    "SnapshotError",
    "ValidationError",
    "adjacent",
    "after",
    "all_of",
    "any_of",
    "any_type",
    "aperiodic",
    "evaluate",
    "every",
    "fit",
    "function",
    "functions",
    "group",
    "key_group",
    "load_model",
    "maximum_rate",
    "on",
    "one_of",
    "parse",
    "parse_document",
    "parse_file",
    "periodic",
    "replay",
    "same",
    "seq",
    "to_text",
    "with_attributes",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"fastcep.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'fastcep' has no attribute {name!r}")
    if name == "Schema":
        import_module("fastcep.query")  # sets Schema._variable_factory, which the query builder needs
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF, *_PACKAGES])
