"""Rewrite messages of the library for the command line: options instead of Python arguments."""

from __future__ import annotations

import re

from fastcep.errors import MemoryLimitError, OrderError

__all__ = ["in_options"]


_NAMES = (
    "allowed_lateness|idle_timeout|memory_limit|on_memory_limit|latency_bound|cost_table|shedder|detector|clock|index"
)
_EVALUATE_NAMES = (
    "kind|bounds|rates|demands|statistic|seeds|shedders|history|model|skip|repeats|buffer_limit|probability|most|seconds"
    "|states|utility|sizes|method|epsilon|deadline|bandwidth|latency|resume|time_budget|seed|event_rate|event_size|service|track"
)
_OPTION = re.compile(rf"({_NAMES})\b|({_EVALUATE_NAMES})(?=[=:])")  # start of a message about an argument
_SUGGESTION = re.compile(rf"\b({_NAMES})=(?:'(…|shed)'|…)")  # an argument that a message suggests

#: Patterns in messages that mention Python, and their replacements.
_REPLACEMENTS = (
    (re.compile(r"^unknown (shedder|detector) "), r"--\1: unknown name "),
    (re.compile(r"^(shedder 'classes' needs .*)$"), r"\1, which Python has: fc.shedding.FixedClasses"),
    (re.compile(r"^a detector without a shedder"), "--detector without --shedder"),
    (re.compile(r"^found (\w+) and (\w+) of bounds, rates, demands: give"), r"found --\1 and --\2: give"),
    (re.compile(r"of bounds, rates, demands: give"), "of --bounds, --rates, --demands: give"),
    (re.compile(r"^rates need "), "--rates needs "),
    (re.compile(r"fit one with fastcep\.fit\(\)( and save it)?"), "fit one with the command fastcep fit"),
    (re.compile(r"^cost table "), "--cost-table "),
    (re.compile(r"^rate (?=[\d.])"), "--rates "),
    (re.compile(r"^(delimiter|encoding) '"), r"--\1 '"),
    (re.compile(r"^unknown input format "), "--format: unknown input format "),
    (re.compile(r"^unknown encoding "), "--encoding: unknown encoding "),
    (re.compile(r"^(clock=.*), or a function that gives nanoseconds$"), r"\1"),
    (re.compile(r"such as fc\.shedding\.RandomMatches\(\)$"), "such as --shedder rs"),
    (re.compile(r'needs a limit; give the engine memory_limit, such as "1GiB"$'), "needs --memory-limit, such as 1GiB"),
)


def in_options(error: Exception) -> str:
    """Return the message of an error, with the options of the command instead of Python arguments, and its notes."""
    notes = getattr(error, "__notes__", [])
    return "\n".join([_message(error, matches_kept=not notes), *notes])


def _message(error: Exception, *, matches_kept: bool) -> str:
    if isinstance(error, OrderError):
        return f"{error.problem}; sort the input with --sort, or accept late events with --allowed-lateness DURATION"
    if isinstance(error, MemoryLimitError) and error.matches is None:
        reason = error.problem.replace("memory_limit is", "--memory-limit is")
        return f"{reason}. Raise it, pass fewer rows per batch with --batch-rows, or shorten --allowed-lateness"
    if isinstance(error, MemoryLimitError):
        reason = error.problem.replace("memory_limit=", "--memory-limit ")
        kept = "Matches found until then are kept. " if matches_kept else ""
        return f"{reason}. {kept}Raise it, shorten the window or narrow the conditions"
    message = str(error)
    for pattern, replacement in _REPLACEMENTS:
        message = pattern.sub(replacement, message)
    message = _SUGGESTION.sub(lambda match: f"--{_dashed(match[1])}" + (f" {match[2]}" if match[2] else ""), message)
    option = _OPTION.match(message)
    return message if option is None else f"--{_dashed(option[0])}{message[option.end() :]}"


def _dashed(name: str) -> str:
    return name.replace("_", "-")
