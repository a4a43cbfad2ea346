"""Operators whose state another host has refuse calls."""

from __future__ import annotations

from fastcep.errors import ValidationError

__all__ = ["Suspendable"]


class Suspendable:
    """Base class of operators that can move."""

    _suspended = ""

    def _suspend(self, reason: str) -> None:
        """Refuse all calls with this reason, while another host has the state; ``""``: accept them again."""
        self._suspended = reason

    def _check_here(self) -> None:
        """Raise `ValidationError` while another host has the state."""
        if self._suspended:
            raise ValidationError(self._suspended)
