"""Queries, streams, scaled costs, match probability and false negatives of the pSPICE figures."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastcep as fc
from bench.papers import pspice
from bench.papers.__main__ import main
from bench.papers.figures import Part
from bench.papers.page import cells
from bench.papers.pspice import counting, wall_overhead
from bench.papers.pspice.cases import BOUND, CASES, EVERY, PREDICTION, QUEUE, part_of
from bench.papers.pspice.counting import COUNTING
from bench.papers.pspice.findings import (
    bound_kept,
    bound_kept_on_the_wall,
    bound_used,
    over_match_probability,
    over_rates,
    overheads_on_the_wall,
    retraining,
)
from bench.papers.pspice.overhead import MODEL_WINDOWS, build_times
from bench.papers.pspice.streams import buses, changing_quotes, q1, q1_and_q2, q2, q3, quotes
from bench.papers.pspice.utility import COMPARED, SYMBOLS, WINDOW
from bench.papers.queueing import match_probability, options_of
from bench.papers.recall_over_time import recall_over_time
from bench.papers.results import PartResult
from bench.papers.strategies import FIXED, PSPICE, RENEWED, strategies
from fastcep.evaluation import evaluate
from fastcep.overload.costs import OPERATIONS

pytestmark = pytest.mark.thorough

EVENTS = 8_000


def small_part(**fields: object) -> Part:
    return part_of(CASES["q1"], CASES["q1"].middle_query, ("pm-bl",), **fields)


def matches_of(query: fc.Query, events: pa.Table) -> list[dict[str, object]]:
    matches: list[dict[str, object]] = fc.Engine(query).process(events).to_arrow().to_pylist()
    return matches


def test_the_latency_bound_holds_the_stated_number_of_events() -> None:
    part = small_part()
    events = part.events(EVENTS)
    table = options_of(part, events)["cost_table"]
    engine = fc.Engine(part.query(), clock="virtual", cost_table=table, store="rows", latency_bound="1h", shedder=None)
    engine.process(events)
    mean = engine.metrics()["shedding"]["processing_latency"]["mean"]
    assert BOUND == "1s" and QUEUE * mean == pytest.approx(1e9, rel=1e-6)
    plain = EVERY["cost_table"]
    assert table.decision == plain.decision > 0
    factors = {getattr(table, name) / getattr(plain, name) for name in OPERATIONS[:-1] if getattr(plain, name)}
    assert max(factors) == pytest.approx(min(factors))
    assert options_of(replace(part, queue=0), events) == part.options


def test_the_cost_factor_changes_the_work_and_not_the_matches() -> None:
    events = quotes(40_000, symbols=SYMBOLS)
    expected = matches_of(q1(WINDOW), events)
    table = fc.CostTable("partial matches", visited=1.0, created=1.0)
    costs = []
    for query in (q1(WINDOW), *(q1_and_q2(compared, WINDOW)[0] for compared in COMPARED.values())):
        engine = fc.Engine(query, clock="virtual", cost_table=table, store="rows", latency_bound="1h", shedder=None)
        found = engine.process(events).to_arrow().to_pylist()
        assert found == expected
        costs.append(engine.metrics()["shedding"]["processing_latency"]["mean"])
    assert [cost / costs[0] for cost in costs[1:]] == pytest.approx(list(COMPARED), rel=0.15)
    assert q1_and_q2(85, WINDOW)[1] == q2(WINDOW)


def test_the_time_for_counting_is_that_of_engines_with_and_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_PASSES", 2)
    events = 60_000  # eight windows: with less than five, nothing is counted
    ((label, point),) = COUNTING.parts[-1].points.items()
    result = point["measure"](events, 1)
    (row,) = result["rows"]
    assert row["target"] == label and -0.5 < row["overhead"] < 0.5 and result["truth"]["matches"] > 0
    case, kinds = CASES["q4"], (counting._Counted, counting._Uncounted)
    model = fc.fit(case.query(7), case.history(events), kind="pspice")
    seconds, learning, matches = counting._pass(case.query(7), model, buses(events), kinds[::-1])
    assert list(seconds) == list(kinds) and matches == result["truth"]["matches"] and 0 <= learning < 1
    assert len({len(times) for times in seconds.values()}) == 1
    with pytest.raises(ValueError, match="no event of 0 was counted"):
        counting._pass(case.query(7), model, buses(events).slice(0, 0), kinds)


def test_match_probability_counts_every_window() -> None:
    schema = fc.Schema({name: {} for name in "AB"}, time="ts", type="type", time_unit="us")
    query = fc.parse("PATTERN SEQ(A a, B b) WINDOW OPEN ON A o CLOSE AFTER 3 EVENTS STRATEGY skip_till_next", schema)
    events = {"type": list("AABAA"), "ts": list(range(5))}
    assert match_probability(query, events) == pytest.approx(3 / 7)
    assert match_probability([query, query], events) == pytest.approx(3 / 7)


def test_a_larger_window_or_a_smaller_pattern_has_a_higher_match_probability() -> None:
    for case in CASES.values():
        if case.required_path is None:
            events = case.events(20_000)
            values = [match_probability(case.query(size), events) for size in case.sizes]
            assert values == sorted(values) and values[0] < 0.2 and values[-1] > 0.7


def test_streams_have_the_types_of_their_queries() -> None:
    kinds = changing_quotes(EVENTS)["type"]
    plain = quotes(EVENTS)["type"]
    change = 2 * EVENTS // 5
    counts = [
        [pc.sum(pc.equal(column.slice(*part), kind)).as_py() for part in ((0, change), (change, EVENTS - change))]
        for kind in ("RE", "FE") for column in (kinds, plain)
    ]  # fmt: skip
    rising, all_rising, falling, all_falling = counts
    assert rising[0] == all_rising[0] and 0.6 < rising[1] / all_rising[1] < 0.8
    assert falling[1] == all_falling[1] and 0.6 < falling[0] / all_falling[0] < 0.8
    reports = buses(EVENTS)
    assert reports.num_rows == EVENTS and reports == buses(EVENTS)
    assert 0.1 < pc.mean(pc.equal(reports["type"], "DE")).as_py() < 0.4
    assert len(fc.Engine(q3(2)).process(CASES["q3"].events(EVENTS))) > 0


def test_real_events_are_repeated_without_those_of_the_history() -> None:
    case = CASES["q3_real"]
    if case.required_path is not None and not case.required_path.exists():
        pytest.skip("needs real data")
    history, events = case.history(10_000), case.events(10_000)
    assert len(history) < len(events) == 10_000 and pc.max(history["ts"]).as_py() <= events["ts"][0].as_py()
    times = events["ts"].to_numpy()
    assert (times[1:] >= times[:-1]).all() and events.slice(0, 10)["x"] == events.slice(len(history), 10)["x"]


def row(
    shedder: str, target: str, recall: float | None, precision: float | None, **values: object
) -> dict[str, object]:
    return {
        "shedder": shedder, "target": target, "seed": 0, "recall": recall, "precision": precision,
        "mean_latency": 8e8, "throughput": None, "why": "", **values,
    }  # fmt: skip


def result(*rows: dict[str, object]) -> PartResult:
    names, targets = (list(dict.fromkeys(str(item[key]) for item in rows)) for key in ("shedder", "target"))
    truths = {target: {"match_probability": number / 10 + 0.2} for number, target in enumerate(targets)}
    setting = {
        "targets": targets, "latency_bound": 1e9, "mode": "rates", "cost_table": {"name": "paper"},
        "strategies": [{"name": name, "reference": False} for name in names],
    }  # fmt: skip
    return PartResult({"setting": setting | {"cost_table": "paper"}, "truths": truths, "truth": {}, "rows": list(rows)})


def test_false_negatives_count_matches_whatever_they_bind() -> None:
    part = result(row("e-bl", "100", 0.3, 0.5), row("pspice", "100", 0.6, 1.0), row("pm-bl", "100", 0.0, None))
    assert part.value("e-bl", "100", "false_negatives") == pytest.approx(0.4)
    assert part.value("pspice", "100", "false_negatives") == pytest.approx(0.4)
    assert part.value("pm-bl", "100", "false_negatives") == 1.0
    assert part.value("pspice", "100", "used") == pytest.approx(0.8)
    assert part.value("pspice", "100", "match_probability") == pytest.approx(0.2)
    assert result(row("pspice", "100", None, None)).value("pspice", "100", "false_negatives") is None


def test_late_points_do_not_count() -> None:
    late = {"why": "bound not held"}
    rows = [
        row("pspice", "100", 0.8, 1.0), row("pm-bl", "100", 0.7, 1.0), row("e-bl", "100", 0.1, 0.1, **late),
        row("pspice", "200", 0.5, 1.0), row("pm-bl", "200", 0.6, 1.0), row("e-bl", "200", 0.5, 1.0, **late),
    ]  # fmt: skip
    part = result(*rows)
    sentences = over_match_probability({"q1": part}, is_sequence=True)
    assert "At 2 of 2 points, both pspice and pm-bl held the bound. There, pm-bl is not worse at 30%" in sentences[1]
    assert "NOT met" in sentences[1] and "At no point did both pspice and e-bl hold the bound" in sentences[2]
    figure = pspice.FIGURES[0]
    table = cells(figure.tables[0], part)
    assert "| 100 (20 %) | 200 (30 %) |" in table and "| e-bl | (0.00, 0.80) | (0.50, 0.80) |" in table


def at_one_rate(**recalls: float) -> PartResult:
    rows = [row(name.replace("_", "-"), "120%", recall, 1.0) for name, recall in recalls.items()]
    return PartResult({**result(*rows).document, "series": [], "truth": {"match_probability": 0.4}, "truths": {}})


def test_goals_are_judged_over_the_rates_too() -> None:
    (lost,) = over_rates({"q1": at_one_rate(pspice=0.5, pm_bl=0.6, e_bl=0.4)})
    assert "pspice below pm-bl where the match probability is < 70%: NOT met." in lost
    assert "pspice below e-bl where the match probability is < 50%: met." in lost
    (other,) = over_rates({"q3": at_one_rate(pspice=0.5, pm_bl=0.4, e_bl=0.6)})
    assert "pspice below pm-bl where the match probability is < 70%: met." in other and "pspice below e-bl" not in other
    rows = [row(name, "120%", 0.5, 1.0, why="late") for name in ("pspice", "pm-bl", "e-bl")]
    (late,) = over_rates({"q4": PartResult({**result(*rows).document, "truth": {}})})
    assert late.count("Goal not judged: one of them missed the bound at every point.") == 1


def test_large_factors_are_not_spelled_out() -> None:
    (large,) = over_rates({"q3": at_one_rate(pspice=0.9999, pm_bl=0.5, e_bl=0.995)})
    assert "by a factor of more than 100. " in large and "by a factor of up to 50.00" in large


@pytest.mark.parametrize(
    ("renewed", "fixed", "said"),
    [(0.9, 0.7, ": met). "), (0.8, 0.7, ": NOT met). "), (0.9, 0.89, ": not shown, as"),
     (0.9, None, ": not judged, as there is no run")],
)  # fmt: skip
def test_retraining_is_compared_with_a_model_that_is_kept(renewed: float, fixed: float | None, said: str) -> None:
    ends = {FIXED: fixed, PSPICE: 0.88, RENEWED: renewed}
    series = [
        {"shedder": name, "target": "140%", "recall": [0.9] * 8 + [0.5] * 8 + [end] * 4}
        for name, end in ends.items() if end is not None
    ]  # fmt: skip
    part = result(*(row(name, "140%", 0.8, 1.0) for name in ends))
    *_, goal, _ = retraining({"change": PartResult({**part.document, "series": series})})
    assert said in goal


def test_the_control_of_retraining_keeps_its_model() -> None:
    part = small_part()
    events = part.events(EVENTS)
    changed = {}
    for strategy in strategies([PSPICE, FIXED], {}):
        shedder = strategy.fit([part.query()], events, cost_table=EVERY["cost_table"])(0)
        shedder._drifts = {"q1": SimpleNamespace(value=9.0)}
        changed[strategy.name] = shedder.has_changed(), shedder._renew_after > 10**8
    assert changed == {PSPICE: (True, False), FIXED: (False, True)}


def test_a_bound_that_is_used_little_is_explained() -> None:
    line = {"shedder": "pspice", "target": "120%", "largest": 1.2e9, "bound": 1e9}
    low = row("pspice", "120%", 0.8, 1.0, share_over_bound=0.0, overhead=0.02)
    part = PartResult({**result(low).document, "series": [line]})
    (sentence,) = bound_kept({"queue": part})
    assert "1.200 of the bound (goal ≤ 1: NOT met)" in sentence and "(goal ≥ 0.95: NOT met, [why](#fig-7-" in sentence
    (wall,) = bound_kept_on_the_wall({"queue": part})
    assert "of the judged events are within" in wall and "is 1.2 times the bound at 120 %" in wall
    rows = [row("pspice", label, 0.8, 1.0, mean_latency=used, throughput=2400.0) for label, used in
            (("40", 3e8), ("80", 9.7e8))]  # fmt: skip
    part = result(*rows)
    setting = {**part.document["setting"], "asked": "120%"}
    truths = {label: {"throughput": 2000.0} for label in part.targets}
    used, _ = bound_used({"q2": PartResult({**part.document, "setting": setting, "truths": truths})})
    assert "0.300 and 0.970 of the bound (goal ≥ 0.95: NOT met)" in used and "at least 100.0% of the time" in used


def test_the_time_for_decisions_is_judged_on_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("pspice", label, None, None, overhead=share, seconds=2e-6) for label, share in
            (("3500", 0.009), ("10000", 0.011))]  # fmt: skip
    (first,) = overheads_on_the_wall({"wall": result(*rows)})
    assert "0.90% at windows of 3,500 events (goal ≤ 1%: met)" in first and "up to 2.0 us" in first
    assert "1.10% at windows of 10,000 events (goal ≤ 1%: NOT met)" in first
    for limit, value in (("_WALL_OVERHEAD", 1e9), ("_NEAREST", 0)):  # of any stream, at any cost
        monkeypatch.setattr(f"fastcep.overload.decision_schedule.{limit}", value)
    stored = PartResult(wall_overhead.decision_times(100, 100_000, 1))
    assert 0 < stored.values("pspice", "overhead")[0] < 1 and stored.values("pspice", "seconds")[0] > 0
    assert stored.truth("100")["matches"] > 0


def test_recall_over_time_at_a_rate_agrees_with_the_recall_of_the_stream() -> None:
    part = small_part(recall_intervals=4, series=(("pm-bl", "120%"),), options={**EVERY, "detector": PREDICTION})
    (line,) = recall_over_time(part, EVENTS)
    events = part.events(EVENTS)
    recall = evaluate(part.query(), events, shedders="pm-bl", **options_of(part, events)).rows[0]["recall"]
    assert line["x"] == [2_000, 4_000, 6_000, 8_000] and min(line["recall"]) <= recall <= max(line["recall"])


def test_the_time_to_build_a_model_is_stored_as_a_part() -> None:
    stored = PartResult(build_times(EVENTS, 1))
    assert stored.targets == [f"{window}" for window in MODEL_WINDOWS] and stored.shedders == ["pspice"]
    assert all(0 < value < 0.5 for value in stored.values("pspice", "seconds"))


def test_figures_that_measure_time_run_alone(monkeypatch) -> None:
    calls: list[object] = []

    class Pool:
        def __init__(self, *arguments: object, **options: object) -> None:
            pass

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *error: object) -> None:
            calls.append("closed")

        def map(self, function: object, names: list[tuple[str, str]]) -> list[None]:
            calls.append(names)
            return []

    monkeypatch.setattr("bench.papers.__main__.ProcessPoolExecutor", Pool)
    monkeypatch.setattr("bench.papers.__main__._run_and_save", lambda name, **settings: calls.append(name))
    monkeypatch.setattr("bench.papers.__main__.write_page", lambda: None)
    main(["pspice", "wall", "fig8", "--jobs", "2"])
    assert calls == [[("pspice", "fig8")], "closed", ("pspice", "wall")]
