"""Fixtures of the tests of adaptation."""

from __future__ import annotations

import pytest
from parallel.adapted import Clock

from fastcep.parallel import engine as module


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "monotonic_ns", clock)
    return clock
