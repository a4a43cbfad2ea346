"""Rules for the events of a streaming DataFrame: an engine accepts an event that keeps all of them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from fastcep.query.plain_schema import NUMBER, TYPE
from fastcep.spark.columns import Events

__all__ = ["Rule", "rules_of", "time_message"]

_ORIGIN = "streaming DataFrame"


@dataclass(frozen=True)
class Rule:
    """A rule for each event.

    Attributes
    ----------
    condition
        True for an event that breaks the rule, over the columns of `Events.frame`.
    found, expected
        Parts of the error message.
    """

    condition: Column
    found: str
    expected: str

    def message(self, rows: str = "") -> str:
        """Return the error message; `rows` says which rows break the rule."""
        return f"{self.found}{rows}, expected {self.expected}"


def rules_of(events: Events) -> list[Rule]:
    """Return the rules about nulls and types."""
    schema = events.schema
    required = [("raw", schema.time, "a time")]
    if schema.type is not None:
        required.append((TYPE, schema.type, "an event type"))
    if schema.sequence is not None:
        required.append((NUMBER, schema.sequence, "a sequence number"))
    remedy = "drop these rows or fill them in, before fastcep gets them"
    rules = [
        Rule(F.col(column).isNull(), f"{_ORIGIN}, column {name!r}: found null", f"{expected}; {remedy}")
        for column, name, expected in required
    ]
    if schema.type is not None:
        found = f"{_ORIGIN}, column {schema.type!r}: found undeclared event types"
        rules.append(Rule(F.col(TYPE) < 0, found, 'declared ones; declare them or set other_types="ignore"'))
    return rules


def time_message(events: Events, found: str) -> str:
    """Return the error message for times that are too large."""
    return (
        f"{_ORIGIN}, column {events.schema.time!r}: found {found} in units of {events.unit} ns, expected times that "
        "fit int64 nanoseconds; check the time unit of the schema"
    )
