"""Figures of the papers, reproduced: declared by paper, run by ``python -m bench.papers``, described by `page`."""

from __future__ import annotations

from bench.papers import espice, hybrid, pspice
from bench.papers.figures import Paper

__all__ = ["PAPERS"]

PAPERS = {
    "hybrid": Paper("Hybrid load shedding", hybrid.FIGURES, hybrid.INTRODUCTION),
    "pspice": Paper("pSPICE", pspice.FIGURES, pspice.INTRODUCTION),
    "espice": Paper("eSPICE", espice.FIGURES, espice.INTRODUCTION),
}
