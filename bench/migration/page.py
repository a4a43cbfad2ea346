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
        *_real_data(results["real_data"]), *_freeze(results["freeze"]), *_run_times(results["run_times"]),
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


def _real_data(found: list[dict[str, Any]]) -> list[str]:
    table = [
        "| query | data | events | states | bytes of a state: smallest, median, largest |", "|---|---|---:|---:|---|",
    ]  # fmt: skip
    shares = ["| query | utility | by density | in random order |", "|---|---|---:|---:|"]
    for run in found:
        table.append(
            f"| {run['query']} | {run['data']} | {run['events']:,} | {run['states']:,} | {run['smallest']:,}, "
            f"{run['median']:,.0f}, {run['largest']:,} |"
        )
        for row in run["shares"]:
            shares.append(f"| {run['query']} | {row['utility']} | {row['greedy']:.3f} | {row['random']:.3f} |")
    return [
        "### States of Qpm1 to Qpm3 on real data",
        "The queries of the paper, as in `examples/papers/migration_q1.cep` to `q3`, cut after half of the events. A "
        "state has all partial matches of a key; sizes are those of `partition(engine, by=\"key\")`.",
        "\n".join(table),
        "The share of the full time after which 80 % of the utility has arrived; for the random order and drawn "
        "utilities, the median of 10 seeds. *matches*: the matches in the second half that began before the cut, which "
        "an ideal estimate would know; *hybrid*: the utility of the hybrid model of the first half; *count*: the "
        "events that begin a partial match; the others are drawn as above.",
        "\n".join(shares),
    ]


def _freeze(runs: list[dict[str, Any]]) -> list[str]:
    table = [
        "| track | link fails after | time without output | new host resumes | has caught up | most events buffered | "
        "share of the outputs |", "|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for run in runs:
        fails = "never" if run["deadline"] is None else f"{run['deadline']:g} s"
        table.append(
            f"| {run['track']} | {fails} | {run['freeze']:.3f} s | {run['resumed']:.2f} s | {run['caught_up']:.2f} s | "
            f"{run['most_buffered']:,} | {run['output_share']:.1%} |"
        )
    return [
        "### Time without output",
        f"All [four nodes](#events-during-the-migration), with {runs[0]['rate']:g} events per second, each of which "
        "takes 1 ms on a host; 8,000 states with sizes of trips and utilities skew50, of which all take 10 s; the new "
        "host needs 100 ms to resume. On the parallel track a new host that has to catch up after the old one is lost "
        "processes the events since the cut again.",
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
