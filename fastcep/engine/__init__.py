"""The engine: matches queries against batches of events."""

from fastcep.engine.engine import Engine
from fastcep.engine.results.match import Event, Match
from fastcep.engine.results.matches import Matches

__all__ = ["Engine", "Event", "Match", "Matches"]
