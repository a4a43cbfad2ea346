"""Limits of the state that an operator stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastcep.errors import MemoryLimitError, ValidationError
from fastcep.events.units import parse_size
from fastcep.option_checks import check_whole

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """Largest number of stored states and bytes; None: no limit."""

    states: int | None
    size: int | None

    @classmethod
    def of(cls, max_states: int | None, memory_limit: str | int | None) -> Limits:
        """Check the options; ValidationError if one is wrong."""
        if max_states is not None:
            check_whole("max_states", max_states, 1)
        return cls(max_states, None if memory_limit is None else parse_size(memory_limit))

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> Limits:
        """Check the options of an assembly; ValidationError if one is wrong or unknown."""
        unknown = sorted(set(options) - {"max_states", "memory_limit"})
        if unknown:
            raise ValidationError(f"options: found {unknown[0]!r}; expected only max_states and memory_limit")
        return cls.of(options.get("max_states"), options.get("memory_limit"))

    def check(self, states: int, size: int) -> None:
        """Raise a MemoryLimitError if there are more states or bytes."""
        for name, found, limit, unit in (
            ("max_states", states, self.states, "states"), ("memory_limit", size, self.size, "bytes"),
        ):  # fmt: skip
            if limit is not None and found > limit:
                raise MemoryLimitError(
                    f"the operator would store {found:,} {unit}, more than {name}={limit:,}; it is as before the call",
                    f"Raise {name}, shorten the window, or give fewer rows at a time.",
                )
