"""Fig. 5 and 6: false negatives and false positives."""

from __future__ import annotations

from functools import partial

from bench.papers.espice.cases import CASES, STRATEGIES, equal_costs_part, own_costs_part
from bench.papers.espice.findings import over_sizes, with_own_costs
from bench.papers.espice.operator import RATES
from bench.papers.figures import Figure, Panel, Part, Picture, Table
from bench.papers.strategies import HYBRID

__all__ = ["FIG5", "OWN_COSTS"]

#: Strategies without hybrid, which takes long to fit.
_WITHOUT_HYBRID = tuple(name for name in STRATEGIES if name != HYBRID)
_SIZES = {"q1": "n", "q2": "n", "q3": "events in a window", "q4": "events in a window"}
_MEASURES = {"missed": "false negatives, share", "false_positives": "false positives, share"}
_TITLES = {
    "q1": "Fig. 5a, 5b and 6a: Q1, a sequence with ANY",
    "q2": "Fig. 5c and 5d: Q2, a sequence with ANY",
    "q3": "Fig. 5e and 6b: Q3, a sequence",
    "q4": "Fig. 5f: Q4, a sequence with repetitions",
}
_STATEMENTS = {
    "q1": "From n = 2 to 6 at 120 % of the maximum rate, the false negatives grow from 9 to 21.2 % (eSPICE) and from "
    "45.6 to 55.9 % (BL) with `first`, from 4 to 6 % and from 27 to 42 % with `last`. eSPICE has fewer false positives "
    "“up to 4.8 and 3.2 times” at the two rates.",
    "q2": "“eSPICE performs better than BL by up to 30 and 24 times using the event input rates R1 and R2”; with "
    "`last` it is “very similar”.",
    "q3": "“The percentage of false negatives is almost zero with both input event rates”, and so is that of false "
    "positives; that of BL increases with the window.",
    "q4": "“The presence of repetitions in the sequence operator does not impact the performance of eSPICE”.",
}
_SETUPS = {
    "q1": "A striker has the ball, then any n = 2 to 6 players defend within 15 s (345 events).",
    "q2": "A leading symbol moves, then any n = 10 to 80 symbols rise, or fall, within 240 s (2,000 events of 500 "
    "symbols).",
    "q3": "20 symbols rise, or fall, in an order, in windows of 300 to 2,000 events; 100 symbols.",
    "q4": "10 symbols rise, or fall, in an order with repetitions, in windows of 600 to 2,000 events, one every 100 "
    "events; 25 symbols. In windows of 300 events, the smallest of the paper, there are too few matches.",
}


def _parts(name: str) -> tuple[Part, ...]:
    """Return the parts of a query: both rates with `first`, those of `last` where the paper has it, and real events."""
    case, real = CASES[name], CASES[f"{name}_real"]
    first = tuple(
        equal_costs_part(case, "first", rate, STRATEGIES if rate == "120%" else _WITHOUT_HYBRID) for rate in RATES
    )
    last_rates = {"q1": tuple(RATES), "q2": ("120%",)}.get(name, ())
    last = tuple(equal_costs_part(case, "last", rate, _WITHOUT_HYBRID) for rate in last_rates)
    return (*first, *last, *(equal_costs_part(real, "first", rate, _WITHOUT_HYBRID) for rate in RATES))


def _figure(letter: str, name: str) -> Figure:
    parts = _parts(name)
    picture = Picture(
        "missed",
        f"False negatives and false positives of {name.upper()}",
        tuple(
            Panel(part.name, "target", key, f"{_SIZES[name]} ({part.title.replace('`', '')})", label)
            for part in parts
            for key, label in _MEASURES.items()
        ),
    )
    tables = tuple(
        Table(
            part.name,
            f"False negatives, false positives, {part.title}; columns are {_SIZES[name]}",
            ("missed", "false_positives"),
        )
        for part in parts
    )
    return Figure(
        "espice", f"fig5{letter}", _TITLES[name], _STATEMENTS[name], _SETUPS[name], parts, (picture,), tables,
        partial(over_sizes, query=name),
    )  # fmt: skip


FIG5 = tuple(_figure(letter, name) for letter, name in zip("acef", _TITLES, strict=True))


_OWN_PARTS = tuple(own_costs_part(CASES[name]) for name in ("q1", "q2", "q3", "q4", "q3_real"))
OWN_COSTS = Figure(
    "espice", "costs", "Fig. 5 and 6 with the costs of fastcep",
    "The paper has one operator: its throughput is that of the prototype.",
    "All queries with `first` and one size, with a queue, a latency bound and the costs of fastcep: an event costs "
    "only what it does with the partial matches of its windows, and a window ends with its match.",
    _OWN_PARTS,
    (
        Picture(
            "missed",
            "False negatives over the arrival rate, costs of fastcep",
            tuple(
                Panel(part.name, "target", "missed", f"rate, % of the maximum ({part.title})", _MEASURES["missed"])
                for part in _OWN_PARTS
            ),
        ),
    ),
    tuple(
        Table(
            part.name,
            f"False negatives, false positives, and mean latency as a share of the bound: {part.title}",
            ("missed", "false_positives", "used"),
        )
        for part in _OWN_PARTS
    ),
    with_own_costs,
)  # fmt: skip
