"""The setting of an evaluation, as pairs of a name and a text."""

from __future__ import annotations

from collections.abc import Iterator

from fastcep.plan.explain.text_helpers import shown
from fastcep.report.evaluation.cells import Evaluation
from fastcep.report.evaluation.number_text import STATISTICS, count, duration, percent, rate

__all__ = ["setting_facts"]


def setting_facts(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Return the setting as pairs of a name and a text, without control characters."""
    return [(name, shown(text)) for name, text in [*_input(evaluation), *_clock(evaluation), *_method(evaluation)]]


def _input(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    stream, truth = evaluation.document["stream"], evaluation.truth
    events = count(stream["events"])
    if stream["source"]:
        events += f" of {stream['source']}"
    if stream.get("span"):
        events += f", over {duration(stream['span'])}"
    yield "Events judged", events
    if stream["fitted_on"]:
        yield "Models fitted on", f"{count(stream['fitted_on'])} other events"
    yield "Without shedding", (
        f"{count(truth['matches'])} matches; latency {duration(truth['mean_latency'])} in the mean, "
        f"{duration(truth['p95_latency'])} p95, {duration(truth['p99_latency'])} p99; {rate(truth['throughput'])}"
    )
    if evaluation.document["query"]["monotonic"]:
        yield "Monotonic", "yes: shedding never causes false matches"
    else:
        yield "Monotonic", "no: shedding can cause false matches; see the precision"


def _clock(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    setting = evaluation.setting
    if setting["clock"] == "wall":
        yield "Clock", f"wall; medians over {setting['repeats']} repeats"
        machine = evaluation.document.get("machine") or {}
        if machine:
            yield "Machine", ", ".join(f"{key} {value}" for key, value in machine.items())
    else:
        yield "Clock", "virtual: counted operations have the costs of the cost table"
    table = setting.get("cost_table")
    if table:
        costs = [f"{key} {value:g}" for key, value in table["nanoseconds"].items() if value]
        zeros = ", all others 0" if len(costs) < len(table["nanoseconds"]) else ""
        yield "Cost table", f"{table['name']} ({table['hash']}): {', '.join(costs)}{zeros} ns"


def _method(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    setting = evaluation.setting
    if evaluation.mode == "bounds":
        yield "Bound on", f"the {STATISTICS[setting['statistic']]} of the processing latency"
    if setting.get("latency_bound") is not None:
        yield "Bound on", f"the event latency, time in the queue included: {duration(setting['latency_bound'])}"
    if setting.get("maximum_rate") is not None:
        yield "Maximum rate", f"{rate(setting['maximum_rate'])} without shedding"
    if evaluation.mode == "demands":
        yield "Bound on", "nothing: a fixed share of the work is saved"
    if setting.get("detectors"):
        yield "Detectors", ", ".join(setting["detectors"])
    if setting["statistic"] != "mean" and any(strategy["name"] == "oracle" for strategy in setting["strategies"]):
        yield "Oracle", "saves work where it costs the least recall; its recall is no upper limit under a percentile"
    warm_up = f"latencies of the first {percent(setting['skip'])} of the events are ignored" if setting["skip"] else "–"
    yield "Warm-up", warm_up
    yield "Index, store", f"{setting['index']}, {setting.get('store') or '–'}"
    yield "Seeds", ", ".join(map(str, setting["seeds"]))
    yield "Created with", f"fastcep {evaluation.document['fastcep']}"
