"""Figures of the paper on pSPICE."""

from __future__ import annotations

from bench.papers.pspice.counting import COUNTING
from bench.papers.pspice.false_negatives import FIG5, FIG6
from bench.papers.pspice.latency import FIG7, FIG7_USED, WALL
from bench.papers.pspice.overhead import FIG9
from bench.papers.pspice.utility import FIG8, RETRAINING
from bench.papers.pspice.wall_overhead import FIG9_WALL

__all__ = ["FIGURES", "INTRODUCTION"]

FIGURES = (*FIG5, *FIG6, FIG7, FIG7_USED, WALL, FIG8, RETRAINING, COUNTING, FIG9, FIG9_WALL)
INTRODUCTION = """\
Q1 to Q4 are the queries of the paper, as shipped in `examples/papers/`: a sequence, a sequence with repetitions, a
sequence with `ANY`, and `ANY` alone, all in explicit windows under `skip_till_next`. They run over generated quotes
of 50 symbols (`market`), generated positions (`soccer`) and generated buses, and over real ones: the [public
data](datasets.md#events-of-the-papers-from-public-data) of minute bars, of one soccer team, and of buses in Dublin at
night. These are short. So models are fitted on their first half (buses: on another day), and the second half is
repeated. Where the paper has 500 symbols and windows of 3,500 to 14,000 events, there are 50 symbols and windows of
about a tenth.

* The table `paper` is scaled to what the paper describes: 2,000 events take 1 s, which is the latency bound. A decision
  takes its measured 30 us.
* A *false negative* is a match of which there is no counterpart, whatever events the match found has bound: if `e-bl`
  drops an event and a later one completes the partial match, the match counts as found, as in the paper. Strategies
  that drop partial matches find the same events or nothing.
* The *match probability* is the number of matches divided by the number of partial matches that events begin, over all
  windows of the run without shedding.
* All strategies of a figure have the same overload [detector](shedding.md#detectors): by default `queue` with
  `q_max=2000` and `f=0.6`, which aims at 60 % of it: with 80 %, events were late at half of the points, because some
  take several times the mean. `prediction` is the paper's Algorithm 1, here with 8 % of the bound as buffer;
  figures 5 to 7 also show it. With it, `pspice` drops partial matches as the paper's Algorithm 2 does.
* The queue fills in the first 30 % of the events. Their latencies are not judged, but their matches count.
* `pspice--` does not divide by the remaining time. `hybrid` is not in the paper; in these queries it also sees the
  attributes of events.
* `oracle` knows which partial matches complete, and in how many windows. It drops all others and the events that are in
  no match, then those with the fewest matches per work; it has no detector and takes no time for decisions. It is in
  figures 5 and 6, with one seed, as it draws nothing. Figures 7 and 9 do not compare shedders by their false
  negatives, and figure 8 has two queries, which it [does not support](evaluation.md#references).
* A point at which more than 0.1 % of the events were late is invalid: its false negatives do not count, because more
  would have had to be dropped."""
