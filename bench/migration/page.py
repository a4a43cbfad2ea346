"""Write the stored results of `bench.migration` into docs/migration.md."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from bench.section import Section, wrapped

__all__ = ["SECTION", "text", "write"]

SECTION = Section(
    Path(__file__).resolve().parents[2] / "docs/migration.md", "<!-- results of bench.migration -->",
    "<!-- end of the results -->",
)  # fmt: skip

_GOALS = {
    ("skew10", "equal"): 0.27, ("skew10", "trips"): 0.21, ("skew50", "equal"): 0.39, ("skew50", "trips"): 0.34,
}  # fmt: skip
_TIMES = {(8_000, "greedy"): 50, (8_000, "dp"): 4_000, (100_000, "greedy"): 500}


def write(results: dict[str, Any]) -> None:
    """Write the page."""
    SECTION.write(text(results))


def text(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    environment = results["environment"]
    parts = [
        f"{environment['machine']}, Python {environment['python']}, {environment['date']}; "
        "`python -m bench.migration`, about a minute. All but the run times is simulated, with fixed seeds.",
        *_over_time(results["over_time"]), *_shares(results["shares"]), *_comparison(results["comparison"]),
        *_run_times(results["run_times"]),
    ]  # fmt: skip
    return wrapped(parts)


def _over_time(runs: list[dict[str, Any]]) -> list[str]:
    table = [
        "| utilities | order | states received | share of the states | of the bytes | of the utility |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for run in runs:
        table.append(
            f"| {run['utility']} | {run['method']} | {run['received_states']:,} | "
            f"{run['received_states'] / 8_000:.1%} | {run['received_bytes'] / run['bytes']:.1%} | "
            f"{run['received_share']:.1%} |"
        )
    return [
        "### Utility over time: figures 4(a) and (b)",
        "8,000 states with sizes of trips, and a bandwidth at which all of them take 10 s. Figure 4(a): the share of "
        "the utility that has arrived.",
        "![Utility over time](images/migration/figure_4a.svg)",
        f"Figure 4(b): the number of states at the new host, if the link fails after {runs[0]['deadline']:g} s.",
        "![States over time](images/migration/figure_4b.svg)",
        "\n".join(table),
    ]


def _shares(cells: list[dict[str, Any]]) -> list[str]:
    table = [
        "| utilities | sizes | share of the time, median of 10 seeds | smallest | largest | goal |",
        "|---|---|---:|---:|---:|---|",
    ]
    for cell in cells:
        middle, goal = median(cell["shares"]), _GOALS.get((cell["utility"], cell["sizes"]))
        verdict = "" if goal is None else f"≤ {goal:.2f}: {'met' if middle <= goal else 'not met'}"
        table.append(
            f"| {cell['utility']} | {cell['sizes']} | {middle:.3f} | {min(cell['shares']):.3f} | "
            f"{max(cell['shares']):.3f} | {verdict} |"
        )
    return ["### Time for 80 % of the utility", "8,000 states, by descending density:", "\n".join(table)]


def _comparison(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    table = [
        "| states | method | utility received, mean | better than greedy | worse | largest gain | largest loss |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    names = {"few": "8, sizes with a spread of 0.3", "varied": "8, a spread of 0.7", "many": "8,000, sizes of trips"}
    for name, runs in found.items():
        for run in runs:
            gains = f"{run['better']:.0%} | {run['worse']:.0%} | {run['largest_gain']:.1%} | {run['largest_loss']:.1%}"
            gains = "| | |" if run["method"] == "greedy" else gains
            table.append(f"| {names[name]} | {run['method']} | {run['mean']:.2%} | {gains} |")
    return [
        "### Few large states, many small ones: figures 4(c) and (d)",
        "The utility of a state is its size to the power of 1.5. The share of the utility that has arrived at the "
        "deadline, for deadlines from 5 % to 100 % of the full time. *8 states*: log-normal sizes, 100 draws; *spread* "
        "is the standard deviation of the logarithm. *8,000 states*: 3 draws. *Better than greedy*: share of the draws "
        "and deadlines. The pictures show the first draw of 8 states with a spread of 0.3, and of 8,000 states.",
        "![Few large states](images/migration/figure_4c.svg)",
        "![Many small states](images/migration/figure_4d.svg)",
        "\n".join(table),
    ]


def _run_times(rows: list[dict[str, Any]]) -> list[str]:
    table = [
        "| states | sizes | method | CPU time | share of the upper bound | goal |", "|---:|---|---|---:|---:|---|",
    ]  # fmt: skip
    for row in rows:
        goal = _TIMES.get((row["states"], row["method"]))
        verdict = "" if goal is None else f"≤ {goal:,} ms: {'met' if row['ms'] <= goal else 'not met'}"
        name = row["method"] if row["used"] == row["method"] else f"{row['method']} ({row['used']})"
        table.append(
            f"| {row['states']:,} | {row['sizes']} | {name} | {row['ms']:,.1f} ms | {row['of_bound']:.5f} | {verdict} |"
        )
    return [
        "### Run times",
        "A third of all bytes fits. *even*: sizes of 1 to 10,000 bytes, utilities of 90 to 100; *trips*: skew10; "
        "*varied*: log-normal sizes, utilities within 10 % of the sizes. The upper bound is that of a selection that "
        "may send one state in part.",
        "\n".join(table),
    ]
