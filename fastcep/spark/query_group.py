"""Queries that one pass over a stream processes: the cut, the filter and the columns that suit all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fastcep.events import Schema
from fastcep.plan import Plan, make_plan
from fastcep.plan.plan import KeyPlan
from fastcep.plan.slicing import Context, Slicing, slicing_of
from fastcep.query import ast
from fastcep.query.plain_schema import columns_read, plain_query
from fastcep.spark.key_groups import group_text
from fastcep.spark.relevant_events import condition, condition_of_source
from fastcep.spark.slicing.statistics import GROUPS, Specification

__all__ = ["QueryGroup", "group_of"]


@dataclass(frozen=True)
class QueryGroup:
    """Queries with the same schema, and ways to cut their stream.

    Attributes
    ----------
    plans
        Plan of each query.
    possible
        Ways to cut the stream that suit all queries.
    """

    plans: tuple[Plan, ...]
    possible: Slicing

    @property
    def queries(self) -> tuple[ast.Query, ...]:
        """All queries, in order."""
        return tuple(plan.query for plan in self.plans)

    @property
    def schema(self) -> Schema:
        """Schema of all queries."""
        return self.plans[0].query.schema

    @property
    def name(self) -> str:
        """Names of the queries, for messages."""
        return ", ".join(query.name for query in self.queries)

    @cached_property
    def columns(self) -> frozenset[int]:
        """Indexes of the schema columns that the queries read."""
        return frozenset[int]().union(*(columns_read(query) for query in self.queries))

    @property
    def group(self) -> str | None:
        """SQL expression of the key group of an event; None: the stream cannot be cut by key."""
        key = self.possible.key
        return group_text(self.plans[0], key, GROUPS) if isinstance(key, KeyPlan) else None

    def plain(self) -> tuple[ast.Query, ...]:
        """Return the queries over plain events with `columns`."""
        return tuple(plain_query(query, self.columns) for query in self.queries)

    def relevant(self, *, by_source: bool = False) -> str | None:
        """Return the SQL condition of events that can affect a query; None: all can.

        With ``by_source``, it reads the type as it is stored, so that Spark evaluates the condition in the source.
        """
        conditions = [condition_of_source(plan) if by_source else condition(plan) for plan in self.plans]
        texts = [text for text in dict.fromkeys(conditions) if text is not None]
        if None in conditions:
            return None
        return texts[0] if len(texts) == 1 else " OR ".join(f"({text})" for text in texts)

    def specification(self) -> Specification:
        """Return the statistics that the queries need."""
        group, where = self.group, self.relevant(by_source=True)
        only_relevant = self.schema.sequence is not None and not self.possible.numbered and where is not None
        # Positions of events in the stream count all events.
        return Specification(self.schema, group, where if group is not None or only_relevant else None, only_relevant)


def group_of(queries: Sequence[ast.Query], longest_window: int | None = None) -> QueryGroup:
    """Plan queries with the same schema; ``longest_window`` is the maximum length of explicit windows in ns."""
    plans = tuple(make_plan(query) for query in queries)
    slicings = [slicing_of(plan, longest_window) for plan in plans]
    numbered = any(slicing.numbered for slicing in slicings)
    return QueryGroup(plans, Slicing(_key_of(plans, slicings), _time_of(slicings), numbered))


def _key_of(plans: Sequence[Plan], slicings: Sequence[Slicing]) -> KeyPlan | str:
    texts: dict[str, tuple[str, KeyPlan]] = {}
    for plan, slicing in zip(plans, slicings, strict=True):
        if isinstance(slicing.key, str):
            return slicing.key
        texts.setdefault(group_text(plan, slicing.key, GROUPS), (plan.query.name, slicing.key))
    (name, key), *others = texts.values()
    return f"queries {name!r} and {others[0][0]!r} have different keys" if others else key


def _time_of(slicings: Sequence[Slicing]) -> Context | str:
    contexts: list[Context] = []
    for slicing in slicings:
        if isinstance(slicing.time, str):
            return slicing.time
        contexts.append(slicing.time)
    periods = {(one.every_nanoseconds, one.every_events) for one in contexts} - {(0, 0)}
    if len(periods) > 1:
        return "WINDOW EVERY differs between queries"
    every_nanoseconds, every_events = next(iter(periods), (0, 0))
    return Context(
        max(one.nanoseconds for one in contexts), max(one.events for one in contexts), every_nanoseconds, every_events
    )
