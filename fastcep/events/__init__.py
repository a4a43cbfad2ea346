"""Events: schema, columnar batches, and the ring buffer of recent events."""

from fastcep.events.batch import EventBatch
from fastcep.events.ring import EventRing
from fastcep.events.schema import Column, Schema
from fastcep.events.strings import StringTable
from fastcep.events.units import format_duration, parse_duration, parse_size

__all__ = [
    "Column",
    "EventBatch",
    "EventRing",
    "Schema",
    "StringTable",
    "format_duration",
    "parse_duration",
    "parse_size",
]
