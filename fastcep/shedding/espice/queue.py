"""Queue detector whose f the shedder chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastcep.shedding.detectors import QueueLength
from fastcep.stored import number

__all__ = ["AutoQueueLength"]

_SHARE = number(0.01, 0.99)


class AutoQueueLength(QueueLength):
    """`QueueLength` with an ``f`` that changes, see ``ESpice(f="auto")``; it is part of the state."""

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        return super().spec() | {"f": "auto"}

    def state(self) -> dict[str, Any]:
        """Return the learned state as JSON values."""
        return super().state() | {"f": self.f}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        super().restore({name: value for name, value in state.items() if name != "f"})
        _SHARE(state.get("f"), "control.learned.f")
        self.f = float(state["f"])
