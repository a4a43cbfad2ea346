"""The engine: queries and batches of events in, matches out."""

from fastcep.engine.engine import Engine
from fastcep.engine.matches import Matches

__all__ = ["Engine", "Matches"]
