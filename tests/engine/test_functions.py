"""Users' functions in queries: compared with the reference matcher; nulls, exceptions, keys, plans and threads."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.user_functions import own_registry, sample
from support import harness

import fastcep as fc
from fastcep._core.matcher.matcher import Matcher
from fastcep.engine.constant_binding import ConstantBinder
from fastcep.events import StringTable
from fastcep.plan import make_plan
from fastcep.query.user_functions.registry import Function

SCHEMA = fc.Schema(
    {name: {"k": "int64", "x": "float64", "b": "bool", "s": "string"} for name in ("A", "B", "C")}, type="type"
)
STREAM = (
    "A(k=1,x=1.0,b=true,s='u') A(k=2,x=nan,b=false) A(k=3,b=true,x=-0.0) B(k=0,x=1.5,b=false,s='u') A(x=2.0,k=0) "
    "B(k=2,x=inf) B(x=0.0,k=3,b=true) C(k=1,x=7.0,b=true) A(k=1,x=9.0) C(k=2,x=0.5,b=false) C"
)


@pytest.fixture(autouse=True)
def registered() -> Iterator[dict[str, Function]]:
    with own_registry():
        yield sample()


def check(text: str, stream: str = STREAM) -> list[harness.Row]:
    """Return the engine's results; they must be those of the reference matcher, in one batch and event by event."""
    query = fc.parse(f"PATTERN {text}", SCHEMA)
    events = harness.stream(SCHEMA, stream)
    found = harness.rows(query, None, events)
    harness.assert_same(query, events, found, "one batch")
    harness.assert_same(query, events, harness.rows_by_send(query, None, events), "one by one")
    return found


def run(query: fc.Query | str, **columns: Any) -> tuple[fc.Matches, dict[str, Any]]:
    """Return matches and metrics over a stream, which is passed as columns."""
    built = fc.parse(f"PATTERN {query}", SCHEMA) if isinstance(query, str) else query
    n = len(columns["type"])
    engine = fc.Engine(built)
    empty: list[Any] = [None] * n
    data = dict.fromkeys(("k", "x", "b", "s"), empty) | {"ts": list(range(n))} | columns
    return engine.process(data), engine.metrics()


@pytest.mark.parametrize(
    ("condition", "some"),
    [
        ("distance(a.x, b.x) < 2.5", True),
        ("distance(a.x, b.x) != 1", True),
        ("NOT distance(a.x, b.x) < 2.5", True),
        ("distance(a.k, 1.5) < distance(b.k, a.k)", True),
        ("odd(a.k, b.b)", True),
        ("odd(a.k + b.k, a.b) AND a.b", True),
        ("odd(a.k, NOT b.b) OR b.k = 3", True),
        ("odd(a.k, TRUE) = odd(b.k, FALSE)", True),
        ("cell(a.x, 1) = cell(b.x, 1)", True),
        ("cell(a.x, a.k) = b.k", True),
        ("cell(a.x, b.k) >= 0", True),
        ("ratio(a.x, b.x) > 0 OR a.k = 3", True),
        ("ratio(1, 0) > 0", False),
        ("ratio(4, 2) = 2", True),
        ("ratio(a.x, NULL) > 0", False),
        ("cell(ratio(b.k, a.k), 1) IN {0, 1}", True),
        ("a.x BETWEEN ratio(a.k, 2) AND distance(b.x, -9)", True),
        ("distance(min(a.x, b.x), sqrt(b.k)) < 2", True),
        ("distance(b.time, a.time) <= 3", True),
        ("a.s = b.s AND distance(a.x, b.x) < 1", True),
    ],
)
def test_conditions(condition: str, some: bool) -> None:
    assert bool(check(f"SEQ(A a, B b) WHERE {condition} WITHIN 1h")) is some


@pytest.mark.parametrize(
    "text",
    [
        "SEQ(A+ a[], C c) WHERE distance(a[i].x, c.x) < 8 WITHIN 1h",
        "SEQ(A+ a[], C c) WHERE distance(a[i+1].k, a[i].k) < 2 WITHIN 1h",
        "SEQ(A+ a[], C c) WHERE odd(a[i].k, c.b) WITHIN 1h RETURN COUNT(a[]) AS n",
        "SEQ(A+ a[], C c) WHERE ratio(SUM(a[].k), COUNT(a[])) > 1 WITHIN 1h",
        "SEQ(A+ a[], C c) WHERE distance(a[first].x, a[last].x) < MAX(a[].k) WITHIN 1h",
        "SEQ(A+ a[], C c) WHERE cell(a[1].x, 1) = c.k WITHIN 1h",
        "SEQ(A+ a[], B+ b[]) WHERE distance(a[i].x, b[i].x) < 2.5 WITHIN 5ns",
        "SEQ(A? a, B b) WHERE distance(a.x, b.x) < 2.5 WITHIN 1h",
        "SEQ(A* a[], B b) WHERE cell(COUNT(a[]), 1) < 2 WITHIN 1h",
        "SEQ((A|B) a, C c) WHERE odd(a.k, c.b) AND distance(a.x, c.x) < 7 WITHIN 1h",
        "SEQ(A a) WHERE odd(a.k, FALSE) WITHIN 1h",
        "SEQ(A a, B b, C c) WHERE cell(a.x, 2) = cell(b.x, 2) AND ratio(a.x + b.x, c.k) > 1 WITHIN 8 EVENTS",
    ],
)
def test_patterns(text: str) -> None:
    assert check(text)


def test_returns() -> None:
    found = check(
        "SEQ(A a, B? b) WITHIN 3ns RETURN distance(a.x, b.x) AS d, cell(a.x, a.k) AS c, odd(a.k, a.b) AS o, "
        "ratio(a.x, b.x) AS r, distance(2, 4), ratio(a.k, 0) AS n"
    )
    assert {type(row[1]["d"]) for row in found} == {float, type(None)}
    assert {type(row[1]["c"]) for row in found} == {int, type(None)}
    assert {type(row[1]["o"]) for row in found} == {bool, type(None)}
    assert found[0][1]["distance(2, 4)"] == 2.0


# ------------------------------------------------------------- nulls, exceptions


def test_a_null_is_not_handed_over() -> None:
    fc.function("int64(int64, float64)", name="raises")(lambda k, x: k // 0)
    matches, metrics = run(
        "SEQ(A a) WITHIN 1h RETURN raises(a.k, a.x) AS r", type=["A"] * 3, k=[1, None, None], x=[None, 1.0, None]
    )
    assert matches.to_arrow()["r"].to_pylist() == [None] * 3
    assert metrics["function_errors"] == 0


def test_exceptions_are_null_and_counted() -> None:
    rows: dict[str, Any] = {"type": ["A", "B"] * 300, "x": [1.0, 0.0, 1.0, 2.0] * 150}
    matches, metrics = run("SEQ(A a) WITHIN 1h RETURN ratio(1, a.x) AS r, ratio(a.x, a.x - a.x) AS s", **rows)
    assert matches.to_arrow()["s"].to_pylist() == [None] * 300 and metrics["function_errors"] == 300
    matches, metrics = run("SEQ(B b) WHERE ratio(1, b.x) > 0 WITHIN 1h", **rows)
    assert (len(matches), metrics["function_errors"], metrics["arithmetic_nulls"]) == (150, 150, 0)
    matches, metrics = run("SEQ(B b) WHERE NOT ratio(1, b.x) > 0 WITHIN 1h", **rows)
    assert (len(matches), metrics["function_errors"]) == (0, 150)


def test_a_condition_written_before_guards_the_call() -> None:
    rows: dict[str, Any] = {"type": ["A", "B"] * 300, "x": [1.0, 0.0, 1.0, 2.0] * 150}
    matches, metrics = run("SEQ(B b) WHERE b.x > 0 AND ratio(1, b.x) > 0 WITHIN 1h", **rows)
    assert (len(matches), metrics["function_errors"]) == (150, 0)
    found, metrics = run("SEQ(A a, B b) WHERE a.x != b.x AND ratio(1, a.x - b.x) < 0 WITHIN 3 EVENTS", **rows)
    assert len(found) > 0 and metrics["function_errors"] == 0
    same = {"type": ["A", "B"] * 300, "x": [1.0, 1.0] * 300}
    assert (
        run("SEQ(A a, B b) WHERE a.x != b.x AND ratio(1, a.x - b.x) < 0 WITHIN 3 EVENTS", **same)[1]["function_errors"]
        == 0
    )


def test_no_exception_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    run("SEQ(A a) WHERE ratio(1, a.x) > 0 WITHIN 1h", type=["A"] * 5, x=[0.0] * 5)
    assert tuple(capfd.readouterr()) == ("", "")


# ------------------------------------------------------------------------- plans


def test_equal_values_of_functions_are_a_key() -> None:
    plan = fc.Engine(fc.parse("PATTERN SEQ(A a, B b) WHERE cell(a.x, 2) = cell(b.x, a.k - a.k + 2) WITHIN 1h", SCHEMA))
    assert "every row; where cell(a.x, 2)" in plan.explain(), "an argument of each side: no key"
    text = "PATTERN SEQ(A a, B b) WHERE cell(a.x, 2) = cell(b.x, 2) AND odd(b.k, TRUE) = a.b WITHIN 1h"
    engine = fc.Engine(fc.parse(text, SCHEMA))
    assert "index 0   hash on (cell(a.x, 2), a.b)" in engine.explain()
    assert "probe index 0: cell(a.x, 2) = cell(b.x, 2), a.b = odd(b.k, TRUE)" in engine.explain()
    n = 4000
    cells = np.arange(n) % 3.0 * 2
    engine.process({
        "type": ["A"] * n + ["B"], "x": [*cells, 2.5], "k": [2] * (n + 1), "b": [True] * (n + 1), "s": ["s"] * (n + 1),
        "ts": range(n + 1),
    })  # fmt: skip
    assert 0 < engine.metrics()["rows_visited"] < n / 2


def test_a_value_of_an_earlier_event_is_carried() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE distance(a.x, 7) < b.x WITHIN 1h"
    assert "registers distance(a.x, 7.0)" in fc.Engine(fc.parse(text, SCHEMA)).explain()


def test_plans_are_picklable_and_hold_no_code(registered: dict[str, Function]) -> None:
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE distance(a.x, b.x) < 2 WITHIN 1h", SCHEMA)
    plan = make_plan(query)
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan and again.query == query
    Matcher(again, ConstantBinder(StringTable()))
    registered["distance"].unregister()
    with pytest.raises(fc.ValidationError, match="'distance' is not registered in this process"):
        Matcher(again, ConstantBinder(StringTable()))


@pytest.mark.thorough
def test_a_query_goes_to_another_process(tmp_path: Path) -> None:
    file = tmp_path / "query.pickle"
    file.write_bytes(pickle.dumps(fc.parse("PATTERN SEQ(A a) WHERE distance(a.x, 1) < 2 WITHIN 1h", SCHEMA, name="q")))
    code = (
        "import pickle, sys, fastcep as fc\n"
        f"query = pickle.load(open({str(file)!r}, 'rb'))\n"
        "try:\n    fc.Engine(query)\n"
        "except fc.ValidationError as error:\n    print(error)\n"
        "fc.function('float64(float64, float64)', name='distance')(lambda x, y: abs(x - y))\n"
        "event = {'type': ['A'], 'ts': [0], 'x': [1.5], 'k': [0], 'b': [True], 's': ['']}\n"
        "print(len(fc.Engine(query).process(event)))\n"
    )
    root = Path(fc.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == (
        "query 'q': function 'distance' is not registered in this process; import the module that registers it\n"
        "1\n"
    )


def test_what_cannot_be_compiled_fails_when_the_engine_is_made() -> None:
    fc.function("float64(float64)", name="broken")(lambda x: x.foo)
    where = fc.parse("PATTERN SEQ(A a) WHERE broken(a.x) > 1 WITHIN 1h", SCHEMA, name="q")
    returned = fc.parse("PATTERN SEQ(A a) WITHIN 1h RETURN broken(a.x)", SCHEMA, name="q")
    for query in (where, returned):
        with pytest.raises(fc.ValidationError, match=r"query 'q': function 'broken' cannot be compiled .*line"):
            fc.Engine(query)


def test_an_engine_keeps_the_function_that_it_began_with(registered: dict[str, Function]) -> None:
    query = fc.parse("PATTERN SEQ(A a) WHERE distance(a.x, 0) > 5 WITHIN 1h RETURN distance(a.x, 0) AS d", SCHEMA)
    old = fc.Engine(query)
    registered.clear()
    fc.function("float64(float64, float64)", name="distance", replace=True)(lambda x, y: 100.0)
    new = fc.Engine(query)
    fc.functions()["distance"].unregister()
    for engine, expected in ((old, [7.0]), (new, [100.0, 100.0])):
        data: dict[str, Any] = {"type": ["A", "A"], "ts": [0, 1], "x": [1.0, 7.0], "k": [1, 1], "b": [True] * 2}
        assert engine.process(data | {"s": ["", ""]}).to_arrow()["d"].to_pylist() == expected


def test_two_engines_in_two_threads() -> None:
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE ratio(a.x, b.x) > 1 WITHIN 40 EVENTS", SCHEMA)
    rng = np.random.default_rng(3)
    n = 20_000
    data: dict[str, Any] = {
        "type": np.where(rng.random(n) < 0.5, "A", "B").tolist(), "ts": np.arange(n), "x": rng.integers(0, 4, n) * 1.0,
        "k": np.arange(n), "b": np.ones(n, bool), "s": ["s"] * n,
    }  # fmt: skip
    engines = [fc.Engine(query) for _ in range(2)]
    found: list[tuple[int, int]] = []

    def work(engine: fc.Engine) -> None:
        count = len(engine.process(data))
        found.append((count, engine.metrics()["function_errors"]))

    threads = [threading.Thread(target=work, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and found[0] == found[1]
    assert min(found[0]) > 0
