"""Somebody who has queries in Flink CEP and in SQL's MATCH_RECOGNIZE, and events in a CSV file.

The first query, in Flink CEP: a small payment, then a large one of the same card within a minute; each small payment
takes the next large one.

    Pattern.<Payment>begin("small").where(p -> p.amount < 1)
        .followedBy("large").where(p -> p.amount > 500).within(Duration.ofMinutes(1))   on stream.keyBy(p -> p.card)

The second, in SQL: falls in a row, then a rise, for each symbol; matches do not overlap.

    PARTITION BY symbol ORDER BY ts
    MEASURES A.price AS top, LAST(B.price) AS bottom, C.price AS now
    ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
    PATTERN (A B{2,} C) WITHIN INTERVAL '1' HOUR
    DEFINE B AS B.price < LAST(B.price, 1), C AS C.price > LAST(B.price)

Each comment ``docs/PAGE#SECTION`` is a look-up: the section where what is on that line was found.
"""

import csv
import subprocess
import sys
from pathlib import Path

# A file of both streams. The columns that a type does not have are empty.
lines = [
    ("Payment", 0, 7, 0.5, None, None), ("Payment", 10, 8, 0.7, None, None), ("Payment", 20, 7, 900.0, None, None),
    ("Payment", 30, 7, 950.0, None, None), ("Payment", 75, 8, 990.0, None, None),
]  # fmt: skip
prices = {"XYZ": [9, 8, 7, 6, 8, 7, 6, 5, 9], "ABC": [5, 4, 6, 5, 4, 5, 6, 7, 8]}
lines += [("Quote", 100 + n, None, None, symbol, prices[symbol][n]) for n in range(9) for symbol in prices]
with open("events.csv", "w", newline="", encoding="utf-8") as file:
    csv.writer(file).writerows([("kind", "ts", "card", "amount", "symbol", "price"), *lines])

Path("queries.cep").write_text(
    """
STREAM TIME 'ts' UNIT s TYPE 'kind'  -- docs/cep.md
EVENT Payment (card int64, amount float64)  -- docs/cep.md
EVENT Quote (symbol string, price float64)

QUERY spree  -- followedBy: docs/which_strategy.md#the-next-suitable-event
PATTERN SEQ(Payment small, Payment large)
WHERE small.amount < 1 AND large.amount > 500
WITHIN 1min
PARTITION BY card  -- keyBy: docs/language.md#partition-by
STRATEGY skip_till_next

QUERY rebound  -- docs/which_strategy.md#neighbours
PATTERN SEQ(Quote a, Quote{2,} b[], Quote c)  -- docs/language.md#patterns
WHERE b[first].price < a.price AND b[i+1].price < b[i].price  -- docs/conditions.md#conditions-with-i
  AND c.price > b[last].price
WITHIN 1h
PARTITION BY symbol
STRATEGY partition_contiguity
AFTER MATCH SKIP PAST LAST  -- docs/which_strategy.md#events-that-are-used-once
RETURN a.symbol AS symbol, a.price AS top, b[last].price AS bottom, c.price AS now  -- docs/language.md#return
""",
    encoding="utf-8",
)

fastcep = [sys.executable, "-m", "fastcep"]
explain = [*fastcep, "explain", "queries.cep"]  # docs/cli.md#a-first-run
subprocess.run(explain, check=True)
subprocess.run(
    [*fastcep, "run", "queries.cep", "--input", "events.csv", "--output", "matches.csv"],  # docs/cli.md#fastcep-run
    check=True,
)

with open("matches.csv", newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))  # docs/output.md#formats
assert [(row["small"], row["large"]) for row in rows if row["query"] == "spree"] == [("0", "2")]
names = ("symbol", "top", "bottom", "now")
assert [tuple(row[name] for name in names) for row in rows if row["query"] == "rebound"] == [
    ("XYZ", "9", "6", "8"), ("ABC", "6", "4", "5"), ("XYZ", "7", "5", "9"),
]  # fmt: skip
