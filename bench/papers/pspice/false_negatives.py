"""Fig. 5 and 6: false negatives over the match probability and over the arrival rate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from bench.papers.figures import Figure, Panel, Part, Picture, Table
from bench.papers.pspice.cases import CASES, EVERY, PREDICTION, Case, part_of
from bench.papers.pspice.findings import over_match_probability, over_rates

__all__ = ["FIG5", "FIG6"]

#: Reference of all parts, which runs with one seed.
ORACLE = ("oracle",)
RATES = ("120%", "140%", "160%", "180%", "200%")
_MISSING = "false negatives, share"
_QUERIES = {"q1": "sequence", "q2": "sequence with repetitions", "q3": "sequence with ANY", "q4": "ANY"}
_STATEMENTS = {
    "q1": "At match probabilities from 6 to 89 %, the false negatives of pSPICE grow from 16 to 32 %, those of PM-BL "
    "from 26 to 37 %, and those of E-BL fall from 65 to 16 %: “E-BL outperforms pSPICE” at 89 %.",
    "q2": "“pSPICE results in a lower percentage of false negatives by up to 58% compared to PM-BL till 81% match "
    "probability. After that, PM-BL outperforms pSPICE.”",
    "q3": "“pSPICE results in reducing the percentage of false negatives by up to 92% compared to PM-BL.” “E-BL "
    "outperforms pSPICE with a smaller match probability (after 27%)”, because any event can replace another one.",
    "q4": "It “shows similar results to the results of Q3”.",
}


def _over_sizes(case: Case, **fields: Any) -> Part:
    """Return a part with a point for each size of a query, at 120 % of the maximum rate."""
    points = {f"{size}": {"query": partial(case.query, size)} for size in case.sizes}
    return part_of(
        case, partial(case.query, case.sizes[0]), points=points, shows_match_probability=True, references=ORACLE,
        **fields,
    )  # fmt: skip


def _with_prediction(case: Case) -> dict[str, Any]:
    """Return the fields of a part with the paper's detector."""
    title = f"{case.title}, detector `prediction`"
    return {"name": f"{case.name}_prediction", "title": title, "options": {**EVERY, "detector": PREDICTION}}


def _fig5(letter: str, name: str) -> Figure:
    """Return the figure of one query, on generated and on real events."""
    generated, real = CASES[name], CASES[f"{name}_real"]
    parts = (_over_sizes(generated), _over_sizes(real), _over_sizes(generated, **_with_prediction(generated)))
    size = "events in a window" if CASES[name].counts_windows else "players" if name == "q3" else "buses"
    return Figure(
        "pspice", f"fig5{letter}", f"Fig. 5{letter}: match probability, {name.upper()}", _STATEMENTS[name],
        f"{name.upper()} ({_QUERIES[name]}) at 120 % of the maximum rate. The number of {size} sets the match "
        "probability.",
        parts,
        (
            Picture(
                "missing",
                f"False negatives over the match probability, {name.upper()}, generated and real events",
                tuple(
                    Panel(part.name, "match_probability", "false_negatives",
                          f"match probability ({part.title.replace('`', '')})", _MISSING)
                    for part in parts
                ),
                columns=3,
            ),
        ),
        tuple(
            Table(
                part.name,
                f"False negatives, and mean latency as a share of the bound, {part.title}; columns are {size} "
                "(match probability)",
                ("false_negatives", "used"),
            )
            for part in parts
        ),
        partial(over_match_probability, is_sequence=name in ("q1", "q2")),
    )  # fmt: skip


def _over_rates(case: Case, **fields: Any) -> Part:
    """Return a part with all rates at the middle size of a query."""
    size = f"{case.middle:,} {'events in a window' if case.counts_windows else 'events in a match'}"
    title = f"{case.query.__name__.upper()}, {size}, {fields.pop('title', case.title)}"
    options = {**fields.pop("options", EVERY), "rates": RATES}
    return part_of(
        case, case.middle_query, title=title, options=options, shows_match_probability=True, references=ORACLE, **fields
    )  # fmt: skip


def _panels(parts: tuple[Part, ...]) -> tuple[Panel, ...]:
    return tuple(
        Panel(part.name, "target", "false_negatives", f"rate, % of the maximum ({part.title.split(',')[0]})", _MISSING)
        for part in parts
    )


FIG5 = tuple(_fig5(letter, name) for letter, name in zip("abcd", _QUERIES, strict=True))
_GENERATED, _REAL = (tuple(_over_rates(CASES[f"{name}{kind}"]) for name in _QUERIES) for kind in ("", "_real"))
_PREDICTION = tuple(_over_rates(CASES[name], **_with_prediction(CASES[name])) for name in ("q1", "q2"))
_STATEMENT = (
    "For Q1 at a match probability of 30 %, the false negatives grow from 18.5 % (pSPICE), 29 % (PM-BL) and 49 % "
    "(E-BL) at 120 % of the maximum rate to 60, 86 and 94 % at 200 %; “pSPICE is consistently better than PM-BL and "
    "E-BL irrespective of the event rate.” Q3 (4 %) “shows similar behavior”, as do Q2 and Q4."
)


def _fig6(letter: str, events: str, setup: str, pictures: Mapping[str, tuple[Part, ...]]) -> Figure:
    """Return the figure of all queries, on generated or on real events; a picture for each detector."""
    parts = tuple(part for of_picture in pictures.values() for part in of_picture)
    return Figure(
        "pspice", f"fig6{letter}", f"Fig. 6{letter}: arrival rate, {events} events", _STATEMENT, setup, parts,
        tuple(
            Picture(name, f"False negatives over the arrival rate, {events} events, detector {name}", _panels(shown))
            for name, shown in pictures.items()
        ),
        tuple(
            Table(part.name, f"False negatives by rate (match probability): {part.title}", ("false_negatives",))
            for part in parts
        ),
        over_rates,
    )  # fmt: skip


FIG6 = (
    _fig6(
        "a", "generated",
        "All queries at 120 to 200 % of the maximum rate, each with one size; Q1 and Q2 also with `prediction`.",
        {"queue": _GENERATED, "prediction": _PREDICTION},
    ),
    _fig6("b", "real", "All queries at 120 to 200 % of the maximum rate, each with one size.", {"queue": _REAL}),
)  # fmt: skip
