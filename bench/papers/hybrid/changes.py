"""Fig. 12 and 14: a stream that changes, and a query that is not monotonic."""

from __future__ import annotations

from functools import partial

from bench.papers.figures import Figure, Panel, Part, Picture, Table
from bench.papers.hybrid.asked import adapted, negated
from bench.papers.hybrid.common import EVENTS, learned
from bench.papers.hybrid.streams import b_often, changing, q1, q4, stream
from bench.papers.strategies import BASELINES, HYBRID

__all__ = ["FIG12", "FIG14"]

#: Windows in a stream; the first third is before the change. Recall is told by half a window.
WINDOWS = 18
SIZES = (1_000, 2_000, 4_000, 8_000)
TIGHT = "40%"


def of_window(size: int) -> Part:
    """Q1 within so many events, over a stream that changes."""
    return Part(
        f"w{size}", f"{size:,} events", partial(q1, f"{size} EVENTS"), changing, WINDOWS * size, ("ri", "rs", HYBRID),
        {"bounds": TIGHT, "cost_table": "paper", "index": "key", "skip": 0.3},
        seeds=1, series=tuple((name, TIGHT) for name in ("ri", "rs", HYBRID)), history=learned(stream),
        recalls=2 * WINDOWS,
    )  # fmt: skip


FIG12 = Figure(
    "hybrid", "fig12", "Fig. 12: a stream that changes",
    "C.V changes at one point from U(2, 10) to U(12, 20), “thereby reversing the costs (worst case setting)”; with a "
    "bound of 40 % on the mean latency and windows of 1K to 8K events. “At the change point, recall drops to zero as "
    "outdated estimates lead to shedding of all relevant partial matches. However, the change is quickly detected and "
    "incorporated. Convergence is quicker for smaller window sizes.”",
    f"Q1 within so many events over {WINDOWS} windows of DS1, of which {WINDOWS // 3} are before the change; models "
    "are fitted on what is before it. Table `paper`, `index=\"key\"`. Drawn is the recall of every half window.",
    tuple(of_window(size) for size in SIZES),
    (
        Picture(
            "recall", "Recall over the stream, which changes at one third of it",
            tuple(Panel(f"w{size}", "series", "recall", f"event, windows of {size:,}", "recall") for size in SIZES),
        ),
    ),
    tuple(Table(f"w{size}", f"Recall over the whole stream, windows of {size:,} events") for size in SIZES[:1]),
    adapted,
)  # fmt: skip

_SHARES = {
    f"{share}%": {"events": partial(b_often, share=share / 100), "history": learned(b_often, share=share / 100)}
    for share in (5, 10, 20, 30, 40, 50)
}
_KEYS = {"recall": "recall", "precision": "precision"}
FIG14 = Figure(
    "hybrid", "fig14", "Fig. 14: negation",
    "Q4, with the negated type B 5 to 50 % of the events, when shedding 10 % of the partial matches: “Recall is "
    "stable, as our approach discards only the least important partial matches […]. Yet, precision decreases when "
    "increasing the probability of the negation.”",
    "Q4 within 1 ms over DS1 where B has a share of the events; every decision saves 10 or 30 % of the work. Here "
    "negated events are looked up among all events of the window, so that dropping partial matches costs no precision, "
    "and only dropping events can. So it is events that are shed (`hyi`, `ri`, `si`), and `hys`, `rs`, `ss` beside it.",
    tuple(
        Part(
            f"d{demand}", f"{demand} % of the work", q4, partial(b_often, share=0.25), EVENTS,
            (*BASELINES, "hyi", "hys"), {"demands": f"{demand}%", "cost_table": "paper", "index": "key"},
            seeds=1, history=learned(b_often, share=0.25), points=_SHARES,
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
            f"d{demand}", f"Recall, precision and share of the events that were shed, saving {demand} % of the work; "
            "columns are the share of B", ("recall", "precision", "shed_event_ratio"),
        )
        for demand in (10, 30)
    ),
    negated,
)  # fmt: skip
