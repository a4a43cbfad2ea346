"""Mistakes in the options of `Engine`, `fit`, `evaluate` and `ParallelEngine`, and in the query builder."""

from __future__ import annotations

from typing import Any

import fastcep as fc
from fastcep.parallel import Adaptation, ParallelEngine
from mistakes.catalogue import Mistakes

MISTAKES = Mistakes()
SCHEMA = fc.Schema({"Payment": {"card": "int64"}, "Refund": {"card": "int64"}}, type="kind", time_unit="s")
TEXT = "PATTERN SEQ(Payment a, Refund r) WHERE a.card = r.card WITHIN 1h"
QUERY = fc.parse(TEXT, SCHEMA)
HISTORY: dict[str, Any] = {
    "kind": ["Payment", "Refund"] * 100, "ts": list(range(200)), "card": [i // 2 % 5 for i in range(200)],
}  # fmt: skip


def engine(**options: Any) -> None:
    fc.Engine(QUERY, **options)


def fit(**options: Any) -> None:
    fc.fit(QUERY, HISTORY, **options)


def evaluate(**options: Any) -> None:
    fc.evaluate(QUERY, HISTORY, **({"shedders": "ri", "bounds": "50%"} | options))


def parallel(**options: Any) -> None:
    ParallelEngine(QUERY, workers=options.pop("workers", "threads"), **options).close()


CALLS: dict[str, Any] = {
    # Engine
    "engine of a text": lambda: fc.Engine(TEXT),  # type: ignore[arg-type]
    "engine of no query": lambda: fc.Engine([]),
    "engine of a document": lambda: fc.Engine(  # type: ignore[arg-type]
        fc.parse_document("EVENT Payment (card int64)\nQUERY q PATTERN SEQ(Payment a) WITHIN 1h")
    ),
    "engine of two queries with one name": lambda: fc.Engine([QUERY, QUERY]),
    "engine of queries with two schemas": lambda: fc.Engine(
        [QUERY, fc.parse("PATTERN SEQ(Login l) WITHIN 1h", fc.Schema({"Login": {"card": "int64"}}), name="other")]
    ),
    "lateness without a unit": lambda: engine(allowed_lateness="5"),
    "lateness as a number": lambda: engine(allowed_lateness=5),
    "lateness in an unknown unit": lambda: engine(allowed_lateness="5 minutes"),
    "negative lateness": lambda: engine(allowed_lateness="-5s"),
    "late limit of zero": lambda: engine(allowed_lateness="5s", late_limit=-1),
    "memory limit in words": lambda: engine(memory_limit="a lot"),
    "memory limit without a unit": lambda: engine(memory_limit="512 megabytes"),
    "memory limit of zero": lambda: engine(memory_limit=0),
    "memory limit that is too small": lambda: engine(memory_limit="1KiB"),
    "memory limit as a float": lambda: engine(memory_limit=0.5),
    "unknown action on the memory limit": lambda: engine(memory_limit="1GiB", on_memory_limit="drop"),
    "shedding without a memory limit": lambda: engine(on_memory_limit="shed"),
    "unknown store": lambda: engine(store="columns"),
    "unknown index": lambda: engine(index="hash"),
    "no threads": lambda: engine(threads=0),
    "threads as a text": lambda: engine(threads="2"),
    "threads with a latency bound": lambda: engine(threads=2, latency_bound="5ms", shedder="rs"),
    "latency bound without a unit": lambda: engine(latency_bound="5", shedder="rs"),
    "latency bound of zero": lambda: engine(latency_bound="0s", shedder="rs"),
    "latency bound as a percentage": lambda: engine(latency_bound="50%", shedder="rs"),
    "unknown shedder": lambda: engine(latency_bound="5ms", shedder="random"),
    "shedder in capitals": lambda: engine(latency_bound="5ms", shedder="Hybrid"),
    "shedder as a class": lambda: engine(latency_bound="5ms", shedder=fc.shedding.RandomMatches),
    "shedder without a bound": lambda: engine(shedder="rs"),
    "shedder that needs a model": lambda: engine(latency_bound="5ms", shedder="hybrid"),
    "reference as a shedder": lambda: engine(latency_bound="5ms", shedder="oracle"),
    "detector by name": lambda: engine(latency_bound="5ms", shedder="rs", detector="latency"),
    "detector without a shedder": lambda: engine(detector=fc.shedding.SmoothedLatency()),
    "unknown clock": lambda: engine(clock="cpu"),
    "unknown cost table": lambda: engine(clock="virtual", cost_table="mesured"),
    "poll without an idle time-out": lambda: fc.Engine(QUERY).poll(),
    "timed out without the option": lambda: fc.Engine(QUERY).timed_out(),
    "unknown format of explain": lambda: fc.Engine(QUERY).explain("png"),
    "matches of an unknown query": lambda: fc.Engine(QUERY).process(HISTORY).query("fraud"),
    "match with an unknown variable": lambda: fc.Engine(QUERY).process(HISTORY)[0].b,
    "match that does not exist": lambda: fc.Engine(QUERY).process(HISTORY)[100_000],
    # fit
    "fit of an unknown kind": lambda: fit(kind="hybird"),
    "fit with an unknown option": lambda: fit(slice=3),
    "fit with too many slices": lambda: fit(slices=0),
    "fit with clusters in words": lambda: fit(clusters="many"),
    "fit of espice under WITHIN": lambda: fc.fit(QUERY, {"kind": ["Payment"], "ts": [1], "card": [1]}, kind="espice"),
    "fit without events": lambda: fc.fit(QUERY, {"kind": [], "ts": [], "card": []}),
    "fit that excludes an unknown attribute": lambda: fit(exclude=["crad"]),
    "fit of pspice with an option of hybrid": lambda: fit(kind="pspice", slices=4),
    "fit with queries and history swapped": lambda: fc.fit(HISTORY, QUERY),  # type: ignore[call-overload]
    # evaluate
    "evaluate without a target": lambda: evaluate(bounds=None),
    "evaluate with two targets": lambda: evaluate(demands="10%"),
    "evaluate with rates alone": lambda: evaluate(bounds=None, rates="120%"),
    "evaluate an unknown shedder": lambda: evaluate(shedders="random"),
    "evaluate no shedder": lambda: evaluate(shedders=[]),
    "evaluate a bound of zero": lambda: evaluate(bounds="0%"),
    "evaluate a bound in words": lambda: evaluate(bounds="half"),
    "evaluate a demand above 100 %": lambda: evaluate(bounds=None, demands="150%"),
    "evaluate an unknown statistic": lambda: evaluate(statistic="p90"),
    "evaluate zero seeds": lambda: evaluate(seeds=0),
    "evaluate a share of warm-up above 1": lambda: evaluate(skip=2),
    "evaluate repeats on the virtual clock": lambda: evaluate(repeats=3),
    "evaluate a stream without matches": lambda: fc.evaluate(
        QUERY, {"kind": ["Payment"], "ts": [1], "card": [1]}, shedders="ri", bounds="50%"
    ),
    "evaluate an unknown detector": lambda: evaluate(detector="latncy"),
    # ParallelEngine
    "no instances": lambda: parallel(instances=0),
    "instances as a text": lambda: parallel(instances="auto"),
    "too many instances": lambda: parallel(instances=10_000),
    "unknown workers": lambda: parallel(workers="process"),
    "queue limit of zero": lambda: parallel(queue_limit=0),
    "adaptation without a limit": lambda: Adaptation(buffer_limit=0),
    "adaptation with a probability in percent": lambda: Adaptation(buffer_limit=100, probability=95),
    "adaptation with bounds reversed": lambda: Adaptation(buffer_limit=100, least=4, most=2),
    "parallel with an unbounded query": lambda: ParallelEngine(
        fc.parse("PATTERN SEQ(Payment a, Refund r) WITHIN UNBOUNDED", SCHEMA), workers="threads"
    ).close(),
    "window of parallel without a unit": lambda: parallel(longest_window="5"),
    # the builder
    "builder with an unknown attribute": lambda: SCHEMA.Payment("a").amont,
    "builder with a keyword of Python": lambda: fc.seq(SCHEMA.Payment("a")).where(
        SCHEMA.Payment("a").card == 1 and SCHEMA.Payment("a").card == 2
    ),
    "builder without a window": lambda: fc.Engine(fc.seq(SCHEMA.Payment("a"), SCHEMA.Refund("r"))),
    "builder with a text as a pattern": lambda: fc.seq("Payment a", "Refund r"),  # type: ignore[arg-type]
}
for _name, _call in CALLS.items():
    MISTAKES[_name] = lambda folder, call=_call: call()
