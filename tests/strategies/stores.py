"""Queries that both stores support, and a few for rows only; streams of few values: nulls, NaN and huge ones."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st
from support import harness
from support.state_transfer import quiet

import fastcep as fc
from strategies.patterns import Draw
from strategies.queries import Case

SCHEMA = fc.Schema({name: {"k": "int64", "v": "int64", "x": "float64", "s": "string"} for name in "ABCD"}, type="type")
#: Types that several variables may bind, so that an event may match any of these variables.
TYPES = ("A", "B", "C", "D", "(A|B)", "(B|C)")
ATTRIBUTES = ("k", "v", "k", "x", "s")
HUGE = 9_223_372_036_854_775_807


@st.composite
def patterns(draw: Draw) -> tuple[str, list[str]]:
    """Draw a SEQ of two to four variables, inner ones perhaps with ``+``; and its variables."""
    count = draw(st.integers(2, 4))
    types = [draw(st.sampled_from(TYPES)) for _ in range(count)]
    kleene = [0 < place < count - 1 and draw(st.booleans()) for place in range(count)]
    names = [f"{name}[]" if many else name for name, many in zip("abcd", kleene, strict=False)]
    kinds = [f"{kind}+" if many else kind for kind, many in zip(types, kleene, strict=True)]
    parts = map(" ".join, zip(kinds, names, strict=True))
    return f"SEQ({', '.join(parts)})", names


def element(name: str) -> str:
    """Return the start of an attribute of each event of a variable."""
    return name.replace("[]", "[i]")


@st.composite
def conditions(draw: Draw, names: list[str]) -> str:
    """Draw a conjunct, mostly of a kind that the store supports."""
    one, other = draw(st.permutations(names))[:2]
    attribute = draw(st.sampled_from(ATTRIBUTES))
    kind = draw(st.sampled_from(["equal", "equal", "sum", "sum", "less", "neighbours", "local", "same", "longer"]))
    same = {"k": "kv", "v": "kv"}.get(attribute, attribute)  # of one type
    left, right = f"{element(one)}.{attribute}", f"{element(other)}.{draw(st.sampled_from(same))}"
    if kind == "same":
        return f"[{draw(st.sampled_from(['k', 'x', 's']))}]"
    if kind == "local":
        return f"{element(one)}.v {draw(st.sampled_from(['<', '>=', '!=']))} {draw(st.integers(0, 3))}"
    if kind == "neighbours":
        many = [name for name in names if name.endswith("[]")]
        if many:
            name = many[0][:-2]
            return f"{name}[i+1].v {draw(st.sampled_from(['>=', '=', '<']))} {name}[i].v"
    if kind in ("sum", "longer") and len(names) > 2:
        third = element(next(name for name in names if name not in (one, other)))
        sign = draw(st.sampled_from("+-"))
        total = f"{element(one)}.k {sign} {draw(st.sampled_from(['', '', '-']))}{element(other)}.k"
        if kind == "longer":
            total += f" + {draw(st.sampled_from([f'{third}.k', '1', f'{HUGE}', f'-{HUGE} + {third}.v']))}"
        return f"{total} = {third}.v"
    equal = kind != "less" or attribute == "s"
    return f"{left} {'=' if equal else draw(st.sampled_from(['<', '<=', '!=']))} {right}"


VALUES = {
    "k": st.sampled_from(["1", "2", "3", "null", str(HUGE)]),
    "v": st.sampled_from(["1", "2", "3", "4", "null", str(-HUGE)]),
    "x": st.sampled_from(["1.0", "2.0", "-0.0", "0.0", "nan", "null"]),
    "s": st.sampled_from(["'p'", "'q'", "null"]),
}


@st.composite
def cases(draw: Draw) -> Case:
    """Draw a query, mostly one that both stores support, and a stream."""
    pattern, names = draw(patterns())
    where = draw(st.lists(conditions(names), max_size=3))
    window = draw(st.sampled_from(["20ns", "6ns", "12ns", "7 EVENTS", "UNBOUNDED"]))
    returns = draw(st.sampled_from(["", "", f"\nRETURN {element(names[0])}.k AS first"]))
    text = f"PATTERN {pattern}{' WHERE ' + ' AND '.join(where) if where else ''}\nWITHIN {window}{returns}"
    query = fc.parse(text, SCHEMA, name="q")
    words = []
    time = 0
    for kind in draw(st.text("AABBCCD", min_size=4, max_size=16)):
        time += draw(st.sampled_from([0, 1, 1, 2, 5]))
        values = [f"{name}={draw(own)}" for name, own in VALUES.items() if draw(st.integers(0, 3))]
        words.append(f"{kind}({','.join(values)})@{time}")
    return Case(query, text, harness.stream(SCHEMA, " ".join(words)), draw(st.sampled_from([[20], [1], [3, 1], [5]])))


def run(case: Case, store: str) -> tuple[pa.Table, dict[str, object]]:
    """Return all matches, and the metrics at the end of the input."""
    engine = quiet(fc.Engine, case.query, store=store)
    found = [engine.process(data).to_arrow() for data in harness.batches(SCHEMA, case.events, case.batch_sizes)]
    metrics = engine.metrics()
    return pa.concat_tables([*found, engine.flush().to_arrow()]), metrics
