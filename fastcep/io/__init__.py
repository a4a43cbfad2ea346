"""Read and write CSV, JSON lines, Parquet and Arrow in constant memory."""

from __future__ import annotations

from fastcep.io.read.live_input import Live
from fastcep.io.read.source import Source, open_source
from fastcep.io.write.matches import MatchWriter, write_matches

__all__ = ["Live", "MatchWriter", "Source", "open_source", "write_matches"]
