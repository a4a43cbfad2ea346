"""fastcep: complex event processing with a compiled engine.

>>> import fastcep as fc
>>> schema = fc.Schema({"A": {"ID": "int64"}, "B": {"ID": "int64"}}, time="ts", type="type", time_unit="us")
>>> query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 8ms", schema)
>>> engine = fc.Engine(query)
"""

from fastcep import shedding as shedding
from fastcep.engine import Engine, Matches
from fastcep.engine.state.keygroups import key_group
from fastcep.errors import (
    DataError,
    FastcepError,
    MemoryLimitError,
    ModelError,
    OrderError,
    ParseError,
    QueryError,
    QueueFullError,
    SchemaError,
    SnapshotError,
    ValidationError,
)
from fastcep.evaluate import evaluate as evaluate
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
from fastcep.query.registry import function, functions
from fastcep.replay.input_queue import InputQueue
from fastcep.replay.max_throughput import maximum_rate
from fastcep.replay.rate import Rate
from fastcep.replay.replay import replay
from fastcep.shedding.fit import fit
from fastcep.shedding.model import Model, load_model

__version__ = "0.1.0"

__all__ = [
    "CostTable",
    "DataError",
    "Document",
    "Engine",
    "EventBatch",
    "FastcepError",
    "InputQueue",
    "Matches",
    "MemoryLimitError",
    "Model",
    "ModelError",
    "OrderError",
    "ParseError",
    "Query",
    "QueryError",
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
