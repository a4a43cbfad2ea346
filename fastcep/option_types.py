"""Types of options that several public functions take."""

from __future__ import annotations

from typing import Literal

__all__ = ["Clock", "Index", "MemoryLimitAction", "OtherTypes", "SlicingMode", "Statistic", "Store"]

Clock = Literal["wall", "virtual"]
Index = Literal["full", "key", "off"]
MemoryLimitAction = Literal["raise", "shed"]
OtherTypes = Literal["error", "ignore"]
SlicingMode = Literal["auto", "key", "time"]
Statistic = Literal["mean", "p95", "p99"]
Store = Literal["auto", "rows", "factorised"]
