"""Data that several papers use: seeds of streams, histories, the shipped queries, and the folder of real data."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

__all__ = ["EXAMPLES", "HISTORY", "HISTORY_SEED", "SEED", "SHARED", "history_of"]

_ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = _ROOT / "examples" / "papers"
#: Folder of data that does not ship with the package.
SHARED = _ROOT / os.environ.get("FASTCEP_SHARED", "../shared") / "data"
#: Seeds of the evaluated streams and of their histories.
SEED, HISTORY_SEED = 7, 8
#: Largest number of events that models are fitted on.
HISTORY = 300_000


def history_of(generate: Callable[..., Any], **options: Any) -> Callable[[int], Any]:
    """Return the history for a generated stream: another stream of the same generator, with another seed."""
    return partial(_generate_history, generate, tuple(options.items()))


def _generate_history(generate: Callable[..., Any], options: tuple[tuple[str, Any], ...], events: int) -> Any:
    return generate(min(events, HISTORY), seed=HISTORY_SEED, **dict(options))
