"""From a checked query to an immutable plan that the engine runs."""

from fastcep.plan.compile import make_plan
from fastcep.plan.explain import explain
from fastcep.plan.plan import Plan

__all__ = ["Plan", "explain", "make_plan"]
