"""Card fraud with a latency bound of 25 ms: somebody guesses card numbers at a terminal until a payment is approved.

Two declined payments and an approved one have card numbers in equal steps. Payments arrive 50 % faster than the machine
can match them, so without load shedding the queue grows. With a bound, the engine drops work: at random, or by a model
that was fitted on the payments of the day before. The replay runs on the virtual clock, which counts operations, so the
result is the same on every machine.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import fastcep as fc

BOUND = "25ms"
SCHEMA = fc.Schema(
    {name: {"terminal": "int64", "card": "int64"} for name in ("Declined", "Approved")},
    time="ts", type="result", time_unit="ms",
)  # fmt: skip
QUERY = fc.parse(
    """
    PATTERN SEQ(Declined a, Declined b, Approved c)
    WHERE [terminal] AND b.card > a.card AND c.card - b.card = b.card - a.card
    WITHIN 10s
    RETURN a.terminal AS terminal, b.card - a.card AS step, c.card AS card
    """,
    SCHEMA,
    name="guessed_numbers",
)


def payments(events: int, seed: int) -> pa.Table:
    """Return payments at 10 terminals, 500 a second; in one of 50 places numbers are guessed, in steps of 1 to 9."""
    draw = np.random.default_rng(seed)
    result = np.where(draw.random(events) < 0.3, "Declined", "Approved")
    terminal, card = draw.integers(0, 10, events), draw.integers(0, 10**6, events)
    first = draw.choice(events - 200, events // 50, replace=False)
    step = draw.integers(1, 10, len(first))
    for number, kind in enumerate(("Declined", "Declined", "Approved")):
        at = first + 80 * number
        result[at], terminal[at], card[at] = kind, terminal[first], card[first] + number * step
    return pa.Table.from_pydict({"ts": 2 * np.arange(events), "result": result, "terminal": terminal, "card": card})


def run(events: pa.Table, shedder: str | fc.shedding.Shedder | None, load: float = 1.5) -> tuple[int, float]:
    """Return the number of matches, and the longest time from the arrival of an event until it is processed, in ms."""

    def engine(shedder: str | fc.shedding.Shedder | None) -> fc.Engine:
        return fc.Engine(QUERY, latency_bound=BOUND, shedder=shedder, clock="virtual", store="rows")

    fastest = fc.maximum_rate(lambda: engine(None), [events])
    result = fc.replay(engine(shedder), [events], load * fastest, maximum=fastest)
    return result.matches, result.longest_event / 1e6


def main() -> None:
    """Print the matches and the longest latency without load shedding, with random shedding, and with a model."""
    model = fc.fit(QUERY, payments(20_000, seed=3), exclude=["terminal"])
    today = payments(20_000, seed=2)
    for name, shedder in {"none": None, "random": "rs", "model": fc.shedding.Hybrid(model)}.items():
        matches, longest = run(today, shedder)
        print(f"shedding: {name:6}  matches: {matches:4}  longest latency: {longest:6.1f} ms")


if __name__ == "__main__":
    main()
