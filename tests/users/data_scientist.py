"""Data scientist in a notebook: a DataFrame of card payments; who tests a stolen card and then empties it?

Each comment ``docs/PAGE#SECTION`` is a look-up: the section where the call on that line was found.
"""

# %% The data: payments of 500 cards over a day; ten of them are tested with a small payment, then emptied.
import numpy as np
import pandas as pd

import fastcep as fc

draw = np.random.default_rng(1)
usual = pd.DataFrame(
    {
        "time": pd.Timestamp("2026-11-27") + pd.to_timedelta(draw.uniform(0, 86_400, 20_000), unit="s"),
        "card": draw.integers(0, 500, 20_000),
        "amount": draw.lognormal(3.5, 0.5, 20_000).round(2),
    }
)
stolen = draw.choice(500, 10, replace=False)
test = pd.DataFrame({"time": draw.choice(usual.time, 10), "card": stolen, "amount": 0.5})
spree = pd.DataFrame({"time": test.time + pd.Timedelta("40s"), "card": stolen, "amount": 900.0})
payments = pd.concat([usual, test, spree]).sort_values("time", ignore_index=True)

# %% A schema and a query. There is one type of event, so no column of types.
payment = {"card": "int64", "amount": "float64"}
schema = fc.Schema({"Payment": payment}, time="time")  # docs/quickstart.md#a-dataframe-of-events
query = fc.parse(  # docs/quickstart.md#a-query
    "PATTERN SEQ(Payment a, Payment b) WHERE [card] AND a.amount < 1 AND b.amount > 500 WITHIN 1min", schema
)

# %% The matches, first as objects, then as a DataFrame
matches = fc.Engine(query, attributes=True).process(payments)  # docs/quickstart.md#matches
first = matches[0]
print(len(matches), first.a.card, first.a.amount, first.b.amount)
frame = matches.to_pandas()  # docs/quickstart.md#matches
frame  # noqa: B018  (a notebook displays it)

# %% Which cards, how much, and how long did it take?
frame["seconds"] = (frame["b.time"] - frame["a.time"]).dt.total_seconds()  # docs/quickstart.md#matches
cards = frame.groupby("a.card")["b.amount"].sum()
print(frame[["a.card", "b.amount", "seconds", "b.time"]])

# %% The row numbers in the match lead back to the DataFrame.
rows = payments.iloc[[first["a"], first["b"]]]  # docs/quickstart.md#matches

assert sorted(cards.index) == sorted(stolen)
assert (frame["seconds"].round() == 40).all()
assert rows["card"].nunique() == 1
