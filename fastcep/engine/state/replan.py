"""Move the state of a query to another plan of the same query, whose shedder distinguishes other classes.

The plans differ in what rows carry for load shedding: a class word, and registers that only features read. Everything
else is copied word by word, so the matches stay the same. The classes of existing rows cannot be computed, because rows
do not hold all that the new features need: they get the class for unknown values, and the new registers are null.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fastcep.engine.state.row_copies import home_marks
from fastcep.engine.state.word_layout import State, WordLayout
from fastcep.errors import ValidationError
from fastcep.plan import Plan
from fastcep.plan.plan import StatePlan

__all__ = ["check_replan", "converted", "has_same_state"]

Ints = npt.NDArray[np.int64]


def check_replan(old: Plan, new: Plan, shedder: str, *, empty: bool) -> None:
    """Check that the state of one plan can be moved to the other.

    Parameters
    ----------
    old, new
        Plans of the same query.
    shedder
        Name of the new shedder, for messages.
    empty
        Whether there is no state to move.

    Raises
    ------
    ValidationError
        The plans store partial matches in different ways.
    """
    name = old.query.name
    if old.observed or new.observed:
        raise ValidationError(f"shedder {shedder!r}: an engine that records lineage keeps its shedder; create another")
    isolated = [plan.windows is not None and plan.windows.isolated for plan in (old, new)]
    if isolated[0] != isolated[1] and not empty:
        needs, has = ("isolated", "shared") if isolated[1] else ("shared", "isolated")
        raise ValidationError(
            f"query {name!r}: shedder {shedder!r} needs {needs} windows, and the engine has partial matches in {has} "
            "ones; create the Engine with this shedder, or change it before the first event"
        )
    if old.ring_columns != new.ring_columns or (old.store != new.store and not empty):
        raise ValidationError(
            f"query {name!r}: shedder {shedder!r} needs other stored events than the engine keeps; create the Engine "
            "with this shedder"
        )


def has_same_state(plan: Plan, other: Plan) -> bool:
    """Return whether every state of one plan of a query can be moved to the other, so that `converted` never fails."""
    isolated = [item.windows is not None and item.windows.isolated for item in (plan, other)]
    return (
        not (plan.observed or other.observed)
        and isolated[0] == isolated[1]
        and plan.ring_columns == other.ring_columns
        and plan.store == other.store
        and not any(map(_waits_differently, plan.states, other.states))
    )


def _waits_differently(state: StatePlan, other: StatePlan) -> bool:
    """Return whether matches that wait for time keep different values in two plans."""
    return state.deferred and state.register_texts != other.register_texts


def converted(state: State, old: WordLayout, new: WordLayout, unknown: Sequence[int]) -> State:
    """Return the state of a matcher for another plan of its query.

    Parameters
    ----------
    state
        Result of `Matcher.dump`, which stays as it is.
    old, new
        Layouts of both plans; `check_replan` has accepted the plans.
    unknown
        Per state of the new plan, the class for unknown values.

    Raises
    ------
    ValidationError
        Matches wait for time, and the plans keep different values for them.
    """
    moved = {name: values.copy() for name, values in state.items()}
    home = home_marks(state, old)
    for number in range(len(old.fixed)):
        moved[f"rows {number}"] = _rows(state[f"rows {number}"], number, old, new, unknown, home[number])
    moved["waiting"] = _waiting(state["waiting"], old, new)
    return moved


def _rows(rows: Ints, number: int, old: WordLayout, new: WordLayout, unknown: Sequence[int], home: Ints) -> Ints:
    """Return the rows of an index."""
    old_fixed, fixed = old.fixed[number], new.fixed[number]
    state = new.plan.indexes[number].state
    same = old_fixed.shed_class if old_fixed.shed_class >= 0 else old_fixed.size
    out = np.zeros((new.shapes[f"rows {number}"], rows.shape[1]), np.int64)
    out[:same] = rows[:same]
    if fixed.shed_class >= 0:
        out[fixed.shed_class] = home | unknown[state]
    old_texts = list(old.plan.states[state].register_texts)
    texts = new.plan.states[state].register_texts
    if texts:
        nulls = rows[old_fixed.size] if old_texts else None
        for bit, text in enumerate(texts):
            if nulls is not None and text in old_texts:
                before = old_texts.index(text)
                out[fixed.size] |= (nulls >> before & 1) << bit
                out[fixed.size + 1 + bit] = rows[old_fixed.size + 1 + before]
            else:
                out[fixed.size] |= np.int64(1) << bit
    return out


def _waiting(waiting: Ints, old: WordLayout, new: WordLayout) -> Ints:
    """Return the matches that wait for time, with room for the outputs of the new plan."""
    size = new.shapes["waiting"]
    for before, after in zip(old.plan.states, new.plan.states, strict=True):
        if waiting.shape[1] and _waits_differently(before, after):
            raise ValidationError(
                f"query {new.plan.query.name!r}: matches wait for time, and the new shedder needs other values of "
                "them; change the shedder after they are decided"
            )
    out = np.zeros((size, waiting.shape[1]), np.int64)
    shared = min(size, len(waiting))
    out[:shared] = waiting[:shared]
    return out
