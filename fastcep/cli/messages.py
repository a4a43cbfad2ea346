"""The library's messages in the words of the command line."""

from __future__ import annotations

import re

from fastcep.errors import MemoryLimitError, OrderError

__all__ = ["in_options"]


_NAMES = "allowed_lateness|idle_timeout|memory_limit|on_memory_limit|latency_bound|cost_table|shedder|detector|clock"
_OPTION = re.compile(rf"({_NAMES})\b")  # what a message about one begins with


def in_options(error: Exception) -> str:
    """Give the message of an error; where it would speak of the library's arguments, it names the command's options.

    Notes that were added to the error follow.
    """
    notes = getattr(error, "__notes__", [])
    return "\n".join([_message(error, kept=not notes), *notes])


def _message(error: Exception, *, kept: bool) -> str:
    if isinstance(error, OrderError):
        return f"{error.what}; sort the input with --sort, or let events be late with --allowed-lateness DURATION"
    if isinstance(error, MemoryLimitError) and error.matches is None:
        what = error.what.replace("memory_limit is", "--memory-limit is")
        return f"{what}. Raise it, hand over fewer rows with --batch-rows, or shorten --allowed-lateness"
    if isinstance(error, MemoryLimitError):
        what = error.what.replace("memory_limit=", "--memory-limit ")
        told = "Matches found until then are kept. " if kept else ""
        return f"{what}. {told}Raise it, shorten the window or narrow the conditions"
    message = str(error)
    option = _OPTION.match(message)
    return message if option is None else f"--{option[0].replace('_', '-')}{message[option.end() :]}"
