"""Settings under which Hypothesis draws every example independently.

By default Hypothesis derives most examples from earlier ones. With cases as large as these, few examples then differ in
many places: a defect that one in 150 independent cases shows stayed hidden for thousands.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import Phase, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

AVAILABLE_PROVIDERS.setdefault("independent", HypothesisProvider)


def independent(examples: int, **more: Any) -> settings:
    """Return settings for a number of independent examples.

    With ``FASTCEP_SHRINK=0`` in the environment, a failing example is reported as it was drawn.
    """
    if os.environ.get("FASTCEP_SHRINK") == "0":
        more["phases"] = [Phase.generate]
    return settings(max_examples=max(1, examples), backend="independent", **more)
