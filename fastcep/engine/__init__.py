"""The engine: matches queries against batches of events."""

from fastcep.engine.engine import Engine
from fastcep.engine.matches import Matches

__all__ = ["Engine", "Matches"]
