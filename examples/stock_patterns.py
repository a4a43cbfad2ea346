"""Stock patterns: quotes of a symbol that fall at least five times in a row, then recover half of the loss.

The stream is generated: minute quotes of 500 symbols, of which a few lead and the others follow. Its event types are RE
(rising quote), FE (falling) and QE (unchanged).
"""

from __future__ import annotations

import fastcep as fc
from fastcep import datasets

SCHEMA = fc.Schema(
    {kind: {"symbol": "string", "price": "float64", "change": "float64"} for kind in ("RE", "FE", "QE")},
    time="ts", type="type", time_unit="ms",
)  # fmt: skip

fall, rise = SCHEMA.FE("fall").times(at_least=5), SCHEMA.RE("rise").plus()
before = fall.first.price - fall.first.change
QUERY = (
    fc.seq(fall, rise)
    .where(rise.last.price - fall.last.price >= 0.5 * (before - fall.last.price))
    .within("30min")
    .partition_by("symbol")
    .strategy("partition_contiguity")  # no other quote of the symbol in between
    .after_match("skip past last")
    .returns(symbol=rise.last.symbol, before=before, low=fall.last.price, now=rise.last.price)
    .named("recovery")
    .build()
)


def recoveries(minutes: int = 60, seed: int = 7) -> fc.Matches:
    """Return the recoveries in the quotes of some minutes."""
    return fc.Engine(QUERY).process(datasets.market(500 * minutes, seed=seed))


def main() -> None:
    """Print how many there are, and those with the largest falls."""
    matches = recoveries()
    print(f"{len(matches)} recoveries")
    for match in sorted(matches, key=lambda match: match["low"] - match["before"])[:5]:
        prices = f"from {match['before']:.2f} to {match['low']}, now {match['now']}"
        print(f"{match['symbol']} fell {len(match['fall'])} times, {prices}")


if __name__ == "__main__":
    main()
