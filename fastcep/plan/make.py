"""Make the plan of a query, or return one that the process has kept."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import lru_cache

from fastcep.plan.classes import Classes
from fastcep.plan.compile import compile_plan
from fastcep.plan.earlier import EarlierColumns
from fastcep.plan.plan import Plan
from fastcep.query import ast
from fastcep.query.previous import previous_attributes

#: Number of plans that a process keeps; largest length of their pickled queries, and number of their states and edges.
#: A plan of three variables takes 20 to 40 kB, one of the largest 200 kB, so all together take 50 MB at most.
KEPT_PLANS, MAX_QUERY_BYTES, MAX_PARTS = 256, 1 << 14, 100


def make_plan(
    query: ast.Query,
    timed_out: bool = False,
    store: str = "auto",
    index: str = "full",
    classes: Classes | None = None,
    isolated: bool = False,
    observed: bool = False,
    event_classes: Classes | None = None,
    weighed: bool = False,
    earlier: EarlierColumns | None = None,
) -> Plan:
    """Plan a query.

    The latest plans of the process are kept: planning the same query with the same options again takes a tenth of the
    time. Plans with classes or attributes of earlier events depend on more than that and are always made anew, as are
    large ones.

    Parameters
    ----------
    query
        A checked query.
    timed_out
        Whether partial matches that time out can be reported.
    store
        ``"rows"``; ``"factorised"``, which falls back to rows if it is not possible; or ``"auto"``, which lets the
        engine choose (`Plan.other`).
    index
        Equalities that become keys of the row indexes, one of `joins.INDEXES`: all (``"full"``), those between plain
        attributes (``"key"``) or none (``"off"``). The others are tested row by row. Contiguity is always part of the
        keys, and events of negated variables are always found by their keys. Any value but ``"full"`` requires rows.
    classes
        Features of each partial match, computed before it is created, by the variable that it bound last
        (:mod:`fastcep.plan.classes`). The store is rows, so that single partial matches can be shed. None: partial
        matches are not shed.
    isolated
        Whether explicit windows have their own rows because events are dropped from single windows.
    observed
        Whether the lineage of partial matches can be recorded; the store is rows.
    event_classes
        Features of each event, computed before it is tried for a variable, by that variable.
    weighed
        Whether partial matches have weights, from which the recall is estimated; always true with ``classes``.
    earlier
        The columns of attributes of earlier events that the engine computes; columns that the query needs are added.
    """
    classified = classes is not None or event_classes is not None
    if classified or (earlier is not None and earlier.columns) or any(previous_attributes(query)):
        return compile_plan(
            query, timed_out, store, index, classes, isolated, observed, event_classes, weighed, earlier
        )
    # Equal queries can have plans that differ: 0.0 equals -0.0, and spans of the text are not compared.
    pickled = pickle.dumps(query)
    is_short = len(pickled) <= MAX_QUERY_BYTES
    kept = _kept(pickled, bool(timed_out), store, index, isolated, observed, weighed) if is_short else []
    plan = kept[0] if kept else compile_plan(
        query, timed_out, store, index, isolated=isolated, observed=observed, weighed=weighed
    )  # fmt: skip
    if not kept and len(plan.states) + len(plan.edges) <= MAX_PARTS:
        kept.append(plan)
    other = plan.other and replace(plan.other, query=query)
    return replace(plan, query=query, other=other)  # engines distinguish plans by identity


@lru_cache(maxsize=KEPT_PLANS)
def _kept(
    pickled: bytes, timed_out: bool, store: str, index: str, isolated: bool, observed: bool, weighed: bool
) -> list[Plan]:
    """Return the list with the plan that is kept for a query and options; it is empty if there is none."""
    return []
