"""Checks of the options that say which queue is acceptable."""

from __future__ import annotations

from fastcep.errors import ValidationError
from fastcep.option_checks import check_whole

__all__ = ["LEAST_SAMPLES", "MOST_INSTANCES", "check_target"]

#: Smallest number of times that a distribution is fitted to; their mean is then within 20 % of the true one with a
#: probability of 95 % (exponential).
LEAST_SAMPLES = 100
MOST_INSTANCES = 1_000
_MOST_EVENTS = 10_000_000


def check_target(buffer_limit: int, probability: float, most: int) -> None:
    """Raise a ValidationError if a limit, a probability or a largest number of instances makes no sense."""
    for name, value, largest in (("buffer_limit", buffer_limit, _MOST_EVENTS), ("most", most, MOST_INSTANCES)):
        check_whole(name, value, 1, largest)
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 < probability < 1:
        raise ValidationError(
            f"probability={probability!r}: expected a number above 0 and below 1, such as 0.95; no number of instances "
            "keeps a limit with certainty"
        )
