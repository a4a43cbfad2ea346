"""Figures of the paper on eSPICE."""

from __future__ import annotations

from bench.papers.espice.quality import FIG5, OWN_COSTS

__all__ = ["FIGURES", "INTRODUCTION"]

FIGURES = (*FIG5, OWN_COSTS)
INTRODUCTION = """\
TODO"""
