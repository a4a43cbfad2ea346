"""Figures of the paper on hybrid load shedding."""

from __future__ import annotations

from bench.papers.hybrid.case_studies import FIG15, FIG16
from bench.papers.hybrid.cost_model import FIG10, FIG11, FIG13
from bench.papers.hybrid.drift_and_negation import FIG12, FIG14
from bench.papers.hybrid.overall import FIG4, FIG5, FIG6, REJECTED
from bench.papers.hybrid.sensitivity import FIG7, FIG8, FIG9

__all__ = ["FIGURES", "INTRODUCTION"]

FIGURES = (FIG4, FIG5, FIG6, FIG7, FIG8, FIG9, FIG10, FIG11, FIG12, FIG13, FIG14, FIG15, FIG16, REJECTED)
INTRODUCTION = "Q1 to Q4 are the queries of the paper, DS1 and DS2 its [generated streams](datasets.md)."
