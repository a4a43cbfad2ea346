"""The library's messages in the words of the command line."""

from __future__ import annotations

import re

from fastcep.errors import MemoryLimitError, OrderError

__all__ = ["in_options"]


_NAMES = (
    "allowed_lateness|idle_timeout|memory_limit|on_memory_limit|latency_bound|cost_table|shedder|detector|clock|index"
)
_OF_EVALUATE = "bounds|rates|demands|statistic|seeds|shedders|history|model|skip|repeats"
_OPTION = re.compile(rf"({_NAMES})\b|({_OF_EVALUATE})(?=[=:])")  # what a message about one begins with
_GIVEN = re.compile(rf"\b({_NAMES})=(?:'(…|shed)'|…)")  # what a message about another one says to give

#: What messages about overload say of Python, and what they say here.
_REWORDED = (
    (re.compile(r"^unknown (shedder|detector) "), r"--\1: unknown name "),
    (re.compile(r"^(shedder 'classes' needs .*)$"), r"\1, which Python has: fc.shedding.FixedClasses"),
    (re.compile(r"^a detector without a shedder"), "--detector without --shedder"),
    (re.compile(r"of bounds, rates, demands: give"), "of --bounds, --rates, --demands: give"),
    (re.compile(r"^cost table "), "--cost-table "),
    (re.compile(r"^(clock=.*), or a function that gives nanoseconds$"), r"\1"),
    (re.compile(r"such as fc\.shedding\.RandomMatches\(\)$"), "such as --shedder rs"),
    (re.compile(r'needs a limit; give the engine memory_limit, such as "1GiB"$'), "needs --memory-limit, such as 1GiB"),
)


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
    for words, ours in _REWORDED:
        message = words.sub(ours, message)
    message = _GIVEN.sub(lambda given: f"--{_dashed(given[1])}" + (f" {given[2]}" if given[2] else ""), message)
    option = _OPTION.match(message)
    return message if option is None else f"--{_dashed(option[0])}{message[option.end() :]}"


def _dashed(name: str) -> str:
    return name.replace("_", "-")
