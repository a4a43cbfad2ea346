"""Plans of a query under an overload control that sleeps without load, see `fastcep.overload.sleep`.

A query has two plans: one that is ready to shed, and one for the time of sleep. They store partial matches in the same
way, apart from what only the shedder needs. So the state can move from one to the other at any event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fastcep.engine.partitioned_matcher import AnyMatcher, make_matcher
from fastcep.engine.state.replan import converted, has_same_state
from fastcep.engine.state.word_layout import WordLayout
from fastcep.engine.stores import plan_for
from fastcep.plan import Plan
from fastcep.plan.earlier import EarlierColumns
from fastcep.query import ast

if TYPE_CHECKING:
    from fastcep.engine.running_query import RunningQuery
    from fastcep.overload.control import Control

__all__ = ["moved", "plans_for", "standby_for"]


def plans_for(
    query: ast.Query, store: str, timed_out: bool, index: str, control: Control | None,
    earlier: EarlierColumns | None = None,
) -> tuple[Plan, Plan | None]:  # fmt: skip
    """Return the plan of a query for the present state of the overload control, and the one for its other state.

    Parameters
    ----------
    query, store, timed_out, index
        As for `plan_for`.
    control
        The overload control, or None.
    earlier
        As for `make_plan`.

    Returns
    -------
    tuple of Plan and Plan or None
        None: the control never sleeps.
    """
    options = {} if control is None else control.plan_options(query)
    ready = plan_for(query, store, timed_out, index, **options, earlier=earlier)
    if control is None or not control.can_sleep:
        return ready, None
    rest = plan_for(query, ready.store, timed_out, index, isolated=options["isolated"], earlier=earlier)
    if not has_same_state(ready, rest):
        rest = ready
    rest = replace(rest, why=ready.why, rows_only=ready.rows_only, other=ready.other)
    return (rest, ready) if control.sleep.asleep else (ready, rest)


def standby_for(item: RunningQuery, plan: Plan | None) -> AnyMatcher | None:
    """Return the matcher to hold on standby for the control's other state, so that its kernels are compiled."""
    return None if plan is None else make_matcher(plan, item.link, None)


def moved(item: RunningQuery, plan: Plan, unknown: Sequence[int]) -> AnyMatcher:
    """Return a matcher of a plan with the state of a query.

    Parameters
    ----------
    item
        The query; it does not change.
    plan
        Another plan of the query, see `check_replan`.
    unknown
        Per state of the plan, the class for unknown values.
    """
    matcher = make_matcher(plan, item.link, None)
    layouts = WordLayout(item.plan, item.matcher), WordLayout(plan, matcher)
    matcher.load(converted(item.matcher.dump(), *layouts, unknown), item.matcher.numbers)
    matcher.set_limit(item.matcher.limit)
    return matcher
