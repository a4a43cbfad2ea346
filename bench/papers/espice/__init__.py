"""Figures of the paper on eSPICE."""

from __future__ import annotations

from bench.papers.espice.latency import FIG7, WALL
from bench.papers.espice.overhead import FIG10
from bench.papers.espice.quality import FIG5, OWN_COSTS
from bench.papers.espice.robustness import FIG8, FIG9

__all__ = ["FIGURES", "INTRODUCTION"]

FIGURES = (*FIG5, OWN_COSTS, FIG7, WALL, FIG8, FIG9, FIG10)
INTRODUCTION = """\
Q1 to Q4 are the queries of the paper, with one match per window under `skip_till_next`. As in the paper, the type of an
event is the symbol of a quote or the player of a position; in `examples/papers/` the type is the move of the quote or
the role of the player. The events are generated (`market`, `soccer`) or real: the [public
data](datasets.md#events-of-the-papers-from-public-data) of minute bars of 50 symbols, and of one soccer team without a
ball. The real ones are short. So models are fitted on their first half, and the second half is repeated.

* On the *paper's operator*, an event takes the same time in each of its windows. A shedder has to drop x = δ · p_size /
  R events of each partition, with δ = R - th: 1/6 of the events of the windows at R1 = 120 % of the maximum rate, 2/7
  at R2 = 140 %. Only events that a variable can bind count: with the others, which can be dropped at no loss of
  matches, the task would be easier. Figures 5, 6, 8 and 9 have this operator: each shedder drops this share, and there
  is no queue. `bl` distributes it over the types with the weights that it has elsewhere. `hybrid`, which is not in the
  paper, saves this share of the work of fastcep. As its fits take long, it is shown for generated events with `first`
  at 120 % only. `last` is shown for Q1 and Q2, as in the paper, on generated events.
* *fastcep* does no work for an event that cannot extend a partial match of a window, and a window ends with its match.
  To save a share of its work, a shedder has to drop events that extend partial matches, which are the more valuable
  ones; and a window whose match is lost has work until its end. So `espice` drops [whole
  windows](espice.md#work-and-whole-windows), where drops of single events save too little. `espice-literal` does not.
  Figure 7 and a further figure have these costs, with the detector `queue`, `q_max=2000` and `f=0.8`: 2,000
  events take 1 s, which is the latency bound. A decision takes its measured 30 us. The queue fills in the first 30 % of
  the events. Their latencies are not judged, but their matches count.
* A *false negative* is a true match that is not found with exactly its events. A *false positive* is a match that is
  not true; its share is relative to the number of true matches.
* `espice-literal` drops everything up to the threshold, as in the paper. `espice` drops, at the threshold, only the
  share that is still needed.
* With the costs of fastcep, a point at which more than 0.1 % of the events were late is invalid. On the paper's
  operator, a point at which too few events were dropped is invalid."""
