"""Compile a checked query into an immutable plan that the engine runs."""

from fastcep.plan.explain import explain
from fastcep.plan.explain.html import query_html
from fastcep.plan.joins import INDEXES
from fastcep.plan.make import make_plan
from fastcep.plan.plan import Plan
from fastcep.query import Query

Query._html = staticmethod(query_html)  # a query displays its plan, but `fastcep.query` cannot import `fastcep.plan`

__all__ = ["INDEXES", "Plan", "explain", "make_plan"]
