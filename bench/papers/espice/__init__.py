"""Figures of the paper on eSPICE."""

from __future__ import annotations

from bench.papers.espice.latency import FIG7, WALL
from bench.papers.espice.quality import FIG5, OWN_COSTS
from bench.papers.espice.robustness import FIG8, FIG9

__all__ = ["FIGURES", "INTRODUCTION"]

FIGURES = (*FIG5, OWN_COSTS, FIG7, WALL, FIG8, FIG9)
INTRODUCTION = """\
TODO"""
