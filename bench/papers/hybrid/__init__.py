"""The hybrid paper: its figures, with the strategies that are there."""

from __future__ import annotations

from bench.papers.hybrid.cases import FIG15, FIG16
from bench.papers.hybrid.changes import FIG12, FIG14
from bench.papers.hybrid.model import FIG10, FIG11, FIG13
from bench.papers.hybrid.overall import FIG4, FIG5, FIG6, LOUD
from bench.papers.hybrid.properties import FIG7, FIG8, FIG9

__all__ = ["FIGURES"]

FIGURES = (FIG4, FIG5, FIG6, FIG7, FIG8, FIG9, FIG10, FIG11, FIG12, FIG13, FIG14, FIG15, FIG16, LOUD)
