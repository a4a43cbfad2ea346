"""Files in and out: CSV, JSON lines, Parquet and Arrow, piece by piece in constant memory."""

from __future__ import annotations

from fastcep.io.live import Live
from fastcep.io.sinks import MatchWriter, write_matches
from fastcep.io.source import Source, open_source

__all__ = ["Live", "MatchWriter", "Source", "open_source", "write_matches"]
