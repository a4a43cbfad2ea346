"""Fig. 8: what the processing time contributes to the utility; and retraining, when the stream changes."""

from __future__ import annotations

from functools import partial

import fastcep as fc
from bench.papers.data import history_of
from bench.papers.figures import Figure, Panel, Picture, Table
from bench.papers.pspice.cases import CASES, EVERY, QUEUE, part_of
from bench.papers.pspice.findings import cost_factor, retraining
from bench.papers.pspice.streams import changing_quotes, q1, q1_and_q2, quotes, rising_quotes
from bench.papers.sentences import join_words
from bench.papers.strategies import FIXED, PSPICE, PSPICE_PROBABILITY, RENEWED

__all__ = ["COMPARED", "FIG8", "RETRAINING", "SYMBOLS", "WINDOW"]

#: 20 minutes, as the paper's 10,000 events of 500 symbols.
SYMBOLS, WINDOW = 200, 4_000
#: From the factor to the number of symbols that a partial match of Q1 is compared with, so that the operations on
#: partial matches of Q1 are this many times those of the shipped query.
COMPARED = {1: 1, 2: 10, 4: 27, 8: 57, 12: 85, 16: 113}
_FACTORS = {f"{factor}": {"query": partial(q1_and_q2, count, WINDOW)} for factor, count in COMPARED.items()}
FIG8 = Figure(
    "pspice", "fig8", "Fig. 8: processing time in the utility",
    "Q1 and Q2 in one operator, windows of 10K events, weights of 1, at 120 % of the maximum rate; a partial match of "
    "Q1 takes 1, 2, 4, 8, 12 or 16 times as long as one of Q2. “The performance of pSPICE and pSPICE-- is same for low "
    "factors”. At 16, pSPICE has 23 % false negatives, pSPICE-- 37.5 %.",
    f"Q1 and Q2 in one engine over generated quotes of {SYMBOLS} symbols, windows of {WINDOW:,} events (20 minutes, as "
    "in the paper). A partial match of Q2 is compared with the quotes of the next symbol only, a partial match of Q1 "
    f"with those of {join_words(map(str, COMPARED.values()))} symbols: this takes {join_words(map(str, COMPARED))} "
    "times the operations of the shipped Q1. Some events then take hundreds of times the mean, so the detector aims at "
    "40 % of the queue.",
    (
        part_of(
            CASES["q1"], partial(q1_and_q2, 1, WINDOW), (PSPICE, PSPICE_PROBABILITY, "pm-bl"), name="factors",
            size=100_000, events=partial(quotes, symbols=SYMBOLS), history=history_of(quotes, symbols=SYMBOLS),
            points=_FACTORS, options={**EVERY, "detector": fc.shedding.QueueLength(f=0.4, q_max=QUEUE)},
        ),
    ),
    (
        Picture(
            "missing", "False negatives of both queries over the cost factor",
            (Panel("factors", "target", "false_negatives", "time of Q1 / time of Q2", "false negatives, share"),),
            columns=1,
        ),
    ),
    (Table("factors", "False negatives, and mean latency as a share of the bound, by factor",
           ("false_negatives", "used")),),
    cost_factor,
)  # fmt: skip

#: Intervals of the stream for which recall is computed; the stream changes after two fifths.
INTERVALS = 20
_RATE, _Q1_WINDOW = "140%", 350
RETRAINING = Figure(
    "pspice",
    "retraining",
    "Section III-D: a stream that changes",
    "The model is built again when the distribution of the events changes: “there might be a need to retrain the "
    "model in case the distribution of input event stream and/or the content of input events change”.",
    f"Q1 in windows of {_Q1_WINDOW} events over generated quotes at {_RATE.replace('%', ' %')} of the maximum rate. "
    "At first, three tenths of the falling quotes count as unchanged, so that sequences of rising quotes are more "
    "likely to complete; after two fifths of the stream, it is the reverse. `pspice-renewed` fits a new model on "
    "20,000 events after each 30,000 events (`history=`, `renew=`). `pspice` has the defaults: it fits one on 50,000 "
    "events after it has seen that [the stream changed](pspice.md#keeping-up). `pspice-fixed` keeps the first model; "
    "the others are compared with it.",
    (
        part_of(
            CASES["q1"],
            partial(q1, _Q1_WINDOW),
            (FIXED, PSPICE, RENEWED, "pm-bl"),
            name="change",
            size=200_000,
            events=changing_quotes,
            history=history_of(rising_quotes),
            options={**EVERY, "rates": _RATE},
            series=tuple((name, _RATE) for name in (FIXED, PSPICE, RENEWED, "pm-bl")),
            recall_intervals=INTERVALS,
        ),
    ),
    (
        Picture(
            "recall",
            "Recall over the stream, which changes at two fifths of it",
            (Panel("change", "series", "recall", "event", "recall"),),
            columns=1,
        ),
    ),
    (Table("change", "Recall over the whole stream"),),
    retraining,
)
