"""Document of an evaluation: one JSON object, the source of tables and pages; docs/evaluation.md lists its keys."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from fastcep.evaluation.judging import Cell, Comparison
from fastcep.evaluation.outcome import Outcome
from fastcep.evaluation.rows import row_of, wins_of
from fastcep.evaluation.setting import STORE
from fastcep.query import ast, to_text
from fastcep.query.patterns import is_monotonic

__all__ = ["FORMAT", "document_of"]

#: Format version of the document; it increases with incompatible changes.
FORMAT = 1


def document_of(
    trial: Comparison,
    cells: Sequence[Cell],
    outcomes: Sequence[Outcome],
    *,
    source: str | None,
    fitted_on: int,
    maximum_rate: float | None,
    machine: dict[str, Any] | None,
) -> dict[str, Any]:
    """Assemble the document.

    Parameters
    ----------
    trial
        Trial that was evaluated.
    cells, outcomes
        Runs in order, and the outcome of each.
    source
        Name of the stream.
    fitted_on
        Number of events that models were fitted on.
    maximum_rate
        Maximum throughput in events per second, to which rates are relative; None without rates.
    machine
        Description of the machine; None on the virtual clock.
    """
    repeats = trial.setting.repeats
    rows, series, shed_by = [], [], []
    for first in range(0, len(cells), repeats):
        cell, cell_outcomes = cells[first], outcomes[first : first + repeats]
        strategy, target = trial.strategies[cell.strategy].name, trial.targets[cell.target]
        rows.append(row_of(trial, strategy, target, cell.seed, cell_outcomes))
        if cell.seed == trial.setting.seeds[0]:
            key = {"shedder": strategy, "target": target.label, "seed": cell.seed}
            x, latency = cell_outcomes[0].line
            series.append({**key, "x": x, "latency": latency, "bound": target.bound})
            shed_by.append({**key, "queries": cell_outcomes[0].shed_by})
    return {
        "format": FORMAT,
        "fastcep": version("fastcep"),
        "query": _query(trial.queries),
        "stream": {
            "source": source, "events": len(trial.stream), "fitted_on": fitted_on, "span": trial.stream.span,
        },
        "setting": _setting(trial, maximum_rate),
        **({} if machine is None else {"machine": machine}),
        "truth": _truth(trial),
        "rows": rows,
        "series": series,
        "shed_by": shed_by,
        "wins": wins_of(trial, rows),
    }  # fmt: skip


def _query(queries: Sequence[ast.Query]) -> dict[str, Any]:
    return {
        "names": [query.name for query in queries],
        "text": "\n\n".join(to_text(query) for query in queries),
        "monotonic": all(is_monotonic(query) for query in queries),
    }


def _setting(trial: Comparison, maximum_rate: float | None) -> dict[str, Any]:
    setting = trial.setting
    return {
        "mode": setting.mode,
        "clock": setting.clock,
        "cost_table": {
            "name": setting.costs.name, "hash": setting.costs.hash, "nanoseconds": setting.costs.nanoseconds,
        },
        "index": setting.index,
        "store": STORE,
        "statistic": setting.statistic,
        "latency_bound": setting.latency_bound,
        "maximum_rate": maximum_rate,
        "skip": setting.skip,
        "detectors": [detector.name for detector in setting.detectors],
        "seeds": list(setting.seeds),
        "repeats": setting.repeats,
        "targets": [target.label for target in trial.targets],
        "strategies": [
            {"name": strategy.name, "label": strategy.label, "reference": strategy.reference}
            for strategy in trial.strategies
        ],
    }  # fmt: skip


def _truth(trial: Comparison) -> dict[str, Any]:
    truth = trial.truth
    x, latency = truth.line
    return {
        "matches": len(truth.identities),
        "mean_latency": truth.mean, "p95_latency": truth.p95, "p99_latency": truth.p99,
        "throughput": truth.throughput,
        "series": {"x": x, "latency": latency},
    }  # fmt: skip
