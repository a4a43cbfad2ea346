"""Fig. 12 and 14: concept drift, and a query with negation, which is not monotonic."""

from __future__ import annotations

from functools import partial

from bench.papers.data import history_of
from bench.papers.figures import Figure, Panel, Part, Picture, Table
from bench.papers.hybrid.common import EVENTS
from bench.papers.hybrid.findings_fig7_16 import adaptation, negation
from bench.papers.hybrid.streams import changing, ds1_with_b_share, q1, q4, stream
from bench.papers.strategies import BASELINES, HYBRID

__all__ = ["FIG12", "FIG14"]

#: Windows in a stream; the first third is before the change. Recall is computed for each half window.
WINDOWS = 18
SIZES = (1_000, 2_000, 4_000, 8_000)
TIGHT = "40%"


def window_part(size: int) -> Part:
    """Return a part that runs Q1 with a window of a number of events over a stream that changes."""
    return Part(
        f"w{size}", f"{size:,} events", partial(q1, f"{size} EVENTS"), changing, WINDOWS * size, ("ri", "rs", HYBRID),
        {"bounds": TIGHT, "cost_table": "paper", "index": "key", "skip": 0.3},
        seeds=1, series=tuple((name, TIGHT) for name in ("ri", "rs", HYBRID)), history=history_of(stream),
        recall_intervals=2 * WINDOWS,
    )  # fmt: skip


FIG12 = Figure(
    "hybrid", "fig12", "Fig. 12: a stream that changes",
    "C.V changes at one point from U(2, 10) to U(12, 20), “thereby reversing the costs (worst case setting)”; with a "
    "bound of 40 % on the mean latency and windows of 1K to 8K events. “At the change point, recall drops to zero as "
    "outdated estimates lead to shedding of all relevant partial matches. However, the change is quickly detected and "
    "incorporated. Convergence is quicker for smaller window sizes.”",
    f"Q1 with these windows, over a stream of {WINDOWS} windows of DS1, of which {WINDOWS // 3} are before the change. "
    "Models are fitted on a stream without the change. Table `paper`, `index=\"key\"`. The pictures show the recall of "
    "every half window.",
    tuple(window_part(size) for size in SIZES),
    (
        Picture(
            "recall", "Recall over the stream, which changes at one third of it",
            tuple(Panel(f"w{size}", "series", "recall", f"event, windows of {size:,}", "recall") for size in SIZES),
        ),
    ),
    tuple(Table(f"w{size}", f"Recall over the whole stream, windows of {size:,} events") for size in SIZES[:1]),
    adaptation,
)  # fmt: skip

_SHARES = {
    f"{share}%": {
        "events": partial(ds1_with_b_share, share=share / 100),
        "history": history_of(ds1_with_b_share, share=share / 100),
    }
    for share in (5, 10, 20, 30, 40, 50)
}
_KEYS = {"recall": "recall", "precision": "precision"}
FIG14 = Figure(
    "hybrid", "fig14", "Fig. 14: negation",
    "Q4, with the negated type B 5 to 50 % of the events, when shedding 10 % of the partial matches: “Recall is "
    "stable, as our approach discards only the least important partial matches […]. Yet, precision decreases when "
    "increasing the probability of the negation.”",
    "Q4 within 1 ms over DS1 with a varied share of B; every decision saves 10 or 30 % of the work. fastcep looks up "
    "negated events among all events of the window. So dropping partial matches costs no precision, but dropping "
    "events can. The figure compares the strategies that drop events (`hyi`, `ri`, `si`) and those that drop partial "
    "matches (`hys`, `rs`, `ss`).",
    tuple(
        Part(
            f"d{demand}", f"{demand} % of the work", q4, partial(ds1_with_b_share, share=0.25), EVENTS,
            (*BASELINES, "hyi", "hys"), {"demands": f"{demand}%", "cost_table": "paper", "index": "key"},
            seeds=1, history=history_of(ds1_with_b_share, share=0.25), points=_SHARES,
        )
        for demand in (10, 30)
    ),
    tuple(
        Picture(
            f"d{demand}", f"Recall and precision over the share of B, saving {demand} % of the work",
            tuple(Panel(f"d{demand}", "target", key, "B, % of the events", label) for key, label in _KEYS.items()),
        )
        for demand in (10, 30)
    ),
    tuple(
        Table(
            f"d{demand}", f"Recall, precision and share of shed events, saving {demand} % of the work; "
            "columns are the share of B", ("recall", "precision", "shed_event_ratio"),
        )
        for demand in (10, 30)
    ),
    negation,
)  # fmt: skip
