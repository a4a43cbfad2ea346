"""Any query, run in any way, reports what the reference matcher does: matches, order, times, RETURN, late events."""

from __future__ import annotations

from pathlib import Path

from hypothesis import event, given, settings
from matrix.cases import Case, cases, check
from matrix.draws import independent
from matrix.tally import Tally

EXAMPLES = settings().max_examples


@independent(10 * EXAMPLES)
@given(cases())
def test_bytecode(case: Case) -> None:
    outcome = check(case, Tally())
    event(f"matches: {'none' if not outcome.matches else '1 to 9' if outcome.matches < 10 else '10 or more'}")


@independent(EXAMPLES // 10)
@given(cases())
def test_kernels(kernels: Path, case: Case) -> None:
    check(case, Tally(), kernels=True)
