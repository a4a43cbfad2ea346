"""Explain plans: the same facts as text, JSON, Mermaid, Graphviz (dot) and SVG."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from fastcep.errors import ValidationError
from fastcep.plan.explain.diagram import dot, mermaid
from fastcep.plan.explain.facts import document, facts
from fastcep.plan.explain.svg import svg
from fastcep.plan.explain.text import text
from fastcep.plan.plan import Plan

__all__ = ["FORMATS", "explain", "facts"]

_WRITERS: dict[str, Callable[[Sequence[dict[str, Any]]], str]] = {
    "text": lambda queries: "\n\n".join(map(text, queries)),
    "json": lambda queries: json.dumps(document(queries), indent=2, ensure_ascii=False),
    "mermaid": mermaid,
    "dot": dot,
    "svg": svg,
}
FORMATS = tuple(_WRITERS)


def explain(plans: Plan | Sequence[Plan], format: str = "text", threads: int = 1) -> str:
    """Describe plans: window, store, states with their indexes and registers, edges with their keys and predicates.

    Parameters
    ----------
    plans
        One plan or several.
    format
        ``"text"``, ``"json"``, ``"mermaid"``, ``"dot"`` or ``"svg"``.
    threads
        Number of threads that match; with one thread the description does not mention threads.

    Returns
    -------
    str
        One document in the format, without a trailing line feed.

    Raises
    ------
    ValidationError
        The format is unknown.
    """
    writer = _WRITERS.get(format)
    if writer is None:
        raise ValidationError(f"unknown format {format!r} of explain; expected one of {', '.join(FORMATS)}")
    return writer([facts(plan, threads) for plan in ([plans] if isinstance(plans, Plan) else plans)])
