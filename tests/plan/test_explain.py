"""``explain``: golden files of every format, the JSON's structure, and names that try to break out of a picture."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import fastcep as fc
from fastcep.plan import explain, make_plan
from fastcep.plan.explain.facts import facts
from fastcep.plan.explain.svg import svg
from fastcep.plan.explain.words import clip, columns, notes, place, shown, wrap

GOLDEN = Path(__file__).with_name("golden")
ENDINGS = {"text": "txt", "json": "json", "mermaid": "mmd", "dot": "dot", "svg": "svg"}
NS = "{http://www.w3.org/2000/svg}"
V = {"ID": "int64", "V": "int64"}
SCHEMA = fc.Schema(dict.fromkeys("ABC", V), time="ts", type="type", time_unit="us")
WIDER = fc.Schema(dict.fromkeys("ABCDN", V), time="ts", type="type", time_unit="us")
UNION = fc.Schema(
    {"Buy": {"item": "string", "n": "int64"}, "Sell": {"item": "string", "n": "int64", "fee": "float64"}},
    time="ts",
    type="kind",
    sequence="number",
    sources={"Sell": {"n": "sold"}},
)


def query(text: str, schema: fc.Schema = SCHEMA, name: str = "q1") -> fc.Query:
    return fc.parse(text, schema, name=name)


CASES: dict[str, list[fc.Query]] = {
    "keys": [query("PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 8ms")],
    "kleene": [
        query(
            "PATTERN SEQ(A a, B{2,4} b[], C* c[], (A|B) d) WHERE a.V > 3 AND b[i].V < d.V AND b[i+1].V > b[i].V AND "
            "a.V * 2 < d.V AND SUM(b[].V) < 9 AND [ID] WITHIN 7 EVENTS RETURN a.ID, SUM(b[].V) AS total",
            name="climb",
        )
    ],
    "optional": [
        query(
            "PATTERN SEQ(A a, B? b, C? c, A+ d[]) WHERE a.ID = d[last].ID AND b.V < c.V AND COUNT(d[]) < 3 "
            "AND c.V + d[first].V > 7 WITHIN 1h"
        )
    ],
    "union": [
        query(
            "PATTERN SEQ((Buy|Sell) x, Buy y) WHERE x.item = y.item AND x.n > y.n WITHIN UNBOUNDED RETURN x.n",
            UNION,
            "both ways",
        )
    ],
    "several": [
        query("PATTERN SEQ(A a, B b) WITHIN 1s", name="one"),
        query("PATTERN SEQ(A+ a[]) WHERE a[i+1].V > a[i].V WITHIN 2s", name="two"),
    ],
}
OPERATORS = {
    "and": (
        "PATTERN AND(A a, B+ b[], C? c) WHERE a.ID = b[i].ID AND b[i+1].V > b[i].V AND a.V < c.V AND SUM(b[].V) > 5 "
        "WITHIN 8ms"
    ),
    "or": (
        "PATTERN SEQ(A a, OR(SEQ(B b, C c), D d), A e) WHERE a.V < c.V AND a.V > d.V AND b.ID = e.ID WITHIN 7 EVENTS"
    ),
    "any": "PATTERN ANY(2, A a, (A|B) b, C c) WHERE a.V < b.V AND [ID] WITHIN 1s",
    "distinct": "PATTERN SEQ(C c, ANY(3, A x[] DISTINCT V)) WHERE c.ID = x[i].ID WITHIN UNBOUNDED",
    "negated": (
        "PATTERN SEQ(NEG N l, A a, NEG (B|N) m, B+ b[], C c, NEG N n) WHERE l.V > 3 AND l.V < a.V AND m.ID = a.ID AND "
        "m.V < b[last].V AND n.V < b[i].V AND n.ID = a.ID WITHIN 1s"
    ),
    "group": (
        "PATTERN SEQ(A a, (SEQ(B b, NEG N n, OR(C c, D d))){2,4} g[], (SEQ(C x, D y))? o) WHERE g[i].b.V < g[i].c.V "
        "AND g[i].n.ID = g[i].b.ID AND g[i].n.V > a.V AND g[i+1].b.V > g[i].b.V AND g[last].c.V > a.V AND g[2].c.V < 7 "
        "AND COUNT(g[]) < 4 AND SUM(g[].b.V) > a.V AND o.x.V = a.V WITHIN 1h"
    ),
    "rounds": "PATTERN AND((AND(A a, B? b))+ g[], C c) WHERE g[i].a.V < g[i].b.V AND [ID] WITHIN 1h",
    "periodic": "PATTERN PERIODIC(SEQ(A a, B b), 5min, N n) WHERE n.ID = a.ID AND a.V < b.V WITHIN 1h",
    "aperiodic": "PATTERN APERIODIC(A a, B+ b[], N n) WHERE n.V > b[i].V AND n.V != a.V AND [ID] WITHIN 1h",
}
CASES |= {name: [query(text, WIDER, name)] for name, text in OPERATORS.items()}


@pytest.mark.parametrize("format", ENDINGS)
@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, format: str) -> None:
    """The stored files; with FASTCEP_GOLDEN=1 they are written anew, to be looked at before they are kept."""
    told = explain([make_plan(one) for one in CASES[name]], format)
    path = GOLDEN / f"{name}.{ENDINGS[format]}"
    if os.environ.get("FASTCEP_GOLDEN"):
        path.write_text(told + "\n", encoding="utf-8")
    assert told + "\n" == path.read_text(encoding="utf-8")


def test_the_engine_explains_its_queries() -> None:
    for form in ENDINGS:
        plans = [make_plan(one) for one in CASES["several"]]
        assert fc.Engine(CASES["several"]).explain(form) == explain(plans, form)
    assert fc.Engine(CASES["keys"]).explain() == explain(make_plan(CASES["keys"][0]))


def test_unknown_format() -> None:
    with pytest.raises(fc.ValidationError, match="unknown format 'png' of explain; expected one of text, json"):
        explain(make_plan(CASES["keys"][0]), "png")


def test_the_picture_in_the_docs_is_of_the_query_in_the_docs() -> None:
    docs = Path(__file__).parents[2] / "docs"
    block = re.search(r"```cep\n(.*?)```", (docs / "explain.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    plans = [make_plan(one) for one in fc.parse_document(block[1]).queries]
    assert (docs / "images" / "explain.svg").read_text(encoding="utf-8") == explain(plans, "svg") + "\n"


# ------------------------------------------------------------------------- facts

KEYS = {
    "query": "name text window windows strategy store predicates ring per_event variables states indexes edges",
    "variables": "name types minimum maximum repeated conditions",
    "states": "number variable accepts accept_guard accept_for_all registers indexes birth",
    "indexes": "number state keys guard for_all",
    "edges": "source target loop index keys predicates for_all",
}


MORE = {  # of a pattern that is more than a SEQ of variables
    "query": "groups negations sets period",
    "variables": "group negated optional",
    "states": "name accept_absences waits end_absences",
    "indexes": "",
    "edges": "variable again round absences",
}
INNER = {
    "groups": "name minimum maximum repeated variables",
    "negations": "variable types keys registers kept checks",
    "absences": "variable after before rounds condition for_all",
}


def keys(part: str, name: str) -> list[str]:
    return [*KEYS[part].split(), *(MORE[part].split() if name in OPERATORS else [])]


@pytest.mark.parametrize("name", CASES)
def test_the_structure_of_the_json(name: str) -> None:
    told = json.loads(explain([make_plan(one) for one in CASES[name]], "json"))
    assert list(told) == ["fastcep_explain", "queries"]
    assert told["fastcep_explain"] == 1
    for given_query, one in zip(CASES[name], told["queries"], strict=True):
        assert list(one) == keys("query", name)
        for part in ("variables", "states", "indexes", "edges"):
            assert all(list(entry) == keys(part, name) for entry in one[part])
        for part in ("groups", "negations"):
            assert all(list(entry) == INNER[part].split() for entry in one.get(part, []))
        for entry in absences(one):
            assert list(entry) == INNER["absences"].split()
        assert fc.parse(one["text"], given_query.schema) == given_query


def absences(told: dict[str, Any]) -> list[dict[str, Any]]:
    """All checks of negated variables in the facts of a query."""
    places = [edge.get("absences", []) for edge in told["edges"]]
    places += [state.get(key, []) for state in told["states"] for key in ("accept_absences", "end_absences")]
    return [entry for entries in places for entry in entries]


@given(strategies.cases())
def test_facts_agree_with_the_plan(case: strategies.Case) -> None:
    """Every format tells every plan; births, rings and guards are there, with a reason, where the plan has them."""
    plan = make_plan(case.query)
    told = facts(plan)
    for state, entry in zip(plan.states, told["states"], strict=True):
        assert entry["birth"]["numbered"] == state.needs_birth == bool(entry["birth"]["why"])
        assert (entry["accept_guard"] is None) == (state.accept_guard < 0)
        assert entry.get("waits", False) == state.deferred == bool(entry.get("end_absences"))
        assert len(entry.get("accept_absences", [])) == len(state.accept_absences)
    for index, entry in zip(plan.indexes, told["indexes"], strict=True):
        assert (entry["guard"] is None) == (index.guard < 0)
        assert len(entry["keys"]) == len(index.keys)
    assert all(entry["why"] for entry in told["ring"])
    assert len(told["ring"]) >= len(plan.ring_columns)
    for edge, entry in zip(plan.edges, told["edges"], strict=True):
        assert bool(entry["predicates"]) == (edge.predicate is not None)
        assert len(entry["keys"]) == len(edge.probe)
        assert len(entry.get("absences", [])) == len(edge.absences)
    for absence, entry in zip(told.get("negations", []), plan.negations, strict=True):
        assert len(absence["keys"]) == len(entry.keys)
        assert len(absence["registers"]) == len(entry.registers)
        assert absence["checks"]
    check_whole(told, {form: explain(plan, form) for form in ENDINGS})


def check_whole(told: dict[str, Any], formats: dict[str, str]) -> None:
    """Every state, by a name of its own, every edge and every negated variable is in every format."""
    names = [place(told, state["number"]) for state in told["states"]]
    assert len(set(names)) == len(names)
    lines = formats["text"].split("\n")
    assert [line.split("(")[0].split(" accepts")[0].strip() for line in lines if line.startswith("state ")] == [
        f"state {name}" for name in names
    ]
    assert sum(line.startswith("  from ") for line in lines) == len(told["edges"])
    assert sum(line.startswith("negated ") for line in lines) == len(told.get("negations", []))
    assert len(json.loads(formats["json"])["queries"][0]["edges"]) == len(told["edges"])
    for form, arrow in (("mermaid", "-->"), ("dot", "->")):
        nodes = re.findall(r"^    (q0s\d+) ?\[", formats[form], re.MULTILINE)
        assert nodes == [f"q0s{number}" for number in range(len(names))]
        drawn = re.findall(rf"^    q0(start|s\d+) {arrow}", formats[form], re.MULTILINE)
        assert len(drawn) == len(told["edges"])
        assert ("q0notes" in formats[form]) == bool(notes(told))
    for told_below in (True, False):
        drawing = svg([told], told=told_below)
        root = ElementTree.fromstring(drawing)
        paths = [element for element in root.iter() if element.tag == f"{NS}path"]
        frames = [element for element in root.iter() if element.get("rx") == "8"]
        assert (len(paths), len(frames)) == (len(told["edges"]), len(names) + 1)
        below = re.sub(r"\s+", " ", " ".join(element.text or "" for element in root.iter(f"{NS}text")))
        for _, note in notes(told, full=not told_below):
            assert re.sub(r"\s+", " ", shown(note)) in below


def test_negations_tell_what_is_kept_and_checked() -> None:
    one = facts(make_plan(CASES["negated"][0]))
    told = {entry["variable"]: entry for entry in one["negations"]}
    assert {name: entry["kept"] for name, entry in told.items()} == {
        "l": "window", "m": "first event", "n": "first event",
    }  # fmt: skip
    assert (told["m"]["types"], told["m"]["keys"], told["m"]["registers"]) == (["B", "N"], ["m.ID"], ["m.V"])
    assert told["m"]["checks"] == [{"at": "edge", "source": 1, "target": 2, "variable": "c"}]
    assert told["l"]["checks"] == [{"at": "accept", "state": 2}]
    assert told["n"]["checks"] == [{"at": "end", "state": 2}]
    assert [state["waits"] for state in one["states"]] == [False, False, True]
    text = explain(make_plan(CASES["negated"][0]))
    assert "no m between a and b, c where a.ID = m.ID AND m.V < b[last].V" in text
    assert "waits     for the end of the window: no n after a, b, c where a.ID = n.ID AND for all" in text


def test_groups_read_as_in_the_language() -> None:
    text = explain(make_plan(CASES["group"][0]))
    for part in ("g[i].b.V < g[i+1].b.V", "g[last].c.V", "g[2].c.V", "COUNT(g[])", "SUM(g[].b.V)", "o.x.V",
                 "(g[2] binds c) IMPLIES (g[2].c.V < 7)", "g[i].n.ID = g[i].b.ID"):  # fmt: skip
        assert part in text
    edges = facts(make_plan(CASES["group"][0]))["edges"]
    assert {edge["round"] for edge in edges} == {None, "first", "same", "next"}


def test_which_elements_a_for_all_condition_goes_through() -> None:
    reach = {
        name: {entry["reach"] for edge in facts(make_plan(CASES[name][0]))["edges"] for entry in edge["for_all"]}
        for name in ("distinct", "group", "and")
    }
    assert reach == {"distinct": {"earlier"}, "group": {"latest"}, "and": set()}


def test_states_are_named_after_what_they_bind() -> None:
    def names(case: str) -> list[str]:
        return [state["name"] for state in facts(make_plan(CASES[case][0]))["states"]]

    assert names("or") == ["a", "b", "c", "d", "e"]
    assert names("any") == ["{a}", "{b}", "{c}", "{a, b}", "{a, c}", "{b, c}"]
    assert sorted(names("rounds")) == sorted(
        ["{g.a}", "{g.b}", "{c}", "{g.a, g.b}", "{g.a, c}", "{g.b, c}", "{g.a, g.b, c}"]
    )
    plain = query("PATTERN SEQ(A? a, AND(B b, C c)) WITHIN 1s")
    assert [state["name"] for state in facts(make_plan(plain))["states"]] == ["a", "{a?, b}", "{a?, c}", "{a?, b, c}"]


def test_what_reads_the_ring_is_named() -> None:
    ring = {entry["column"]: entry["why"] for entry in facts(make_plan(CASES["kleene"][0]))["ring"]}
    assert ring == {"ID": ["RETURN a.ID"], "V": ["for all: b[i].V < d.V", "RETURN SUM(b[].V)"]}
    ring = {entry["column"]: entry["why"] for entry in facts(make_plan(CASES["union"][0]))["ring"]}
    assert ring == {
        "type": ["RETURN x.n"],
        "seq": ["matches name their events by it"],
        "n": ["RETURN x.n"],
        "sold": ["RETURN x.n"],
    }


# --------------------------------------------------------------------- injection

NASTY = [
    "<script>alert(1)</script>",
    '"]; evil; ["',
    'a"|b',
    "back\\slash\\",
    "two\nlines",
    "&amp;&#60;",
    "#quot;",
    "%%{init: {'theme': 'dark'}}%%",
    "style:x#y;",
    "`code`",
    "-->",
    "]]>",
    "\x1b[31mred",
    "\u202eturned",
    "nul\x00",
    "漢字かな",
    "'",
    "</text></svg>",
    "\\N\\G",
]


def nasty_query(name: str, other: str) -> fc.Query:
    """A query in which every kind of name is one of these texts."""
    types = {name + "T": {other + "A": "int64", "V": "string"}, "B": {other + "A": "int64", "V": "string"}}
    schema = fc.Schema(types, time="ts", type="type")
    first, second = schema[name + "T"](name), schema.B(other + "2").plus()
    x = f"{other}A"
    from fastcep.query import last

    return (
        fc.seq(first, second)
        .where(first[x] == second[last][x], first["V"] != name, second.sum(x) > first[x])
        .within("1s")
        .returns(first[x], first["V"])
        .named(name)
        .build()
    )


TEXTS = st.sampled_from(NASTY) | st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@given(TEXTS, TEXTS)
def test_names_stay_names(name: str, other: str) -> None:
    if other + "2" == name:
        return
    one = nasty_query(name, other)
    plan = make_plan(one)
    plain = make_plan(nasty_query("n", "m"))
    assert json.loads(explain(plan, "json"))["queries"][0]["name"] == name
    assert len(explain(plan).split("\n")) >= len(explain(plain).split("\n"))  # a name with a line feed shows in QUERY
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", explain(plan))
    assert list(mermaid_shape(explain(plan, "mermaid"))) == list(mermaid_shape(explain(plain, "mermaid")))
    assert list(dot_shape(explain(plan, "dot"))) == list(dot_shape(explain(plain, "dot")))
    check_svg(explain(plan, "svg"))
    html = one._repr_html_()
    assert html is not None
    check_html(html)


def mermaid_shape(told: str) -> Iterator[str]:
    """The lines without what stands in quotes; inside there is nothing that Mermaid would read as its own."""
    assert "%%" not in told
    for line in told.split("\n"):
        for inside in re.findall(r'"([^"]*)"', line):
            rest = re.sub(r"#\d+;(tyle|lassDef)?", "", inside.replace("<br/>", ""))
            assert not re.search(r"[<>&#;`%{}\\]|style|classDef", rest), inside
        yield re.sub(r'"[^"]*"', '""', line)


def dot_shape(told: str) -> Iterator[str]:
    """The lines without their quoted strings, in which a quote follows a backslash."""
    for line in told.split("\n"):
        for inside in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
            assert set(re.findall(r"\\(.)", inside)) <= {"n", "\\", '"'}
            assert all(entity == "&amp;" for entity in re.findall(r"&(?:#?\w+;)?", inside))
        yield re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)


def check_svg(told: str) -> None:
    root = ElementTree.fromstring(told)
    allowed = {"svg", "g", "rect", "text", "path", "polygon"}
    for element in root.iter():
        assert element.tag.removeprefix("{http://www.w3.org/2000/svg}") in allowed
        assert not any(key.startswith("on") or key.endswith("href") for key in element.attrib)


def check_html(told: str) -> None:
    allowed = {"div", "pre", "table", "caption", "tr", "th", "td", "p", "svg", "g", "rect", "text", "path", "polygon"}
    opened: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag in allowed
            assert all(not key.startswith("on") for key, _ in attrs)
            opened.append(tag)

        def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag in allowed

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    parser = Parser()
    parser.feed(told)
    parser.close()
    assert opened == []


# ------------------------------------------------------------------------ layout

TWELVE = ", ".join(f"{'ABC'[k % 3]} x{k}" for k in range(12))
CHAIN = " AND ".join(f"x{k}.ID = x{k + 1}.ID AND x{k}.V + x{k}.ID * 3 < x{k + 1}.V" for k in range(11))
OPTIONAL = ", ".join(f"{'ABC'[k % 3]}{'?+*'[k % 3]} x{k}{'[]' if k % 3 else ''}" for k in range(12))
PICTURES = [
    *(one for queries in CASES.values() for one in queries),
    query(f"PATTERN SEQ({TWELVE}) WHERE {CHAIN} WITHIN 1h"),
    query(f"PATTERN SEQ({OPTIONAL}) WHERE x0.ID = x11[last].ID AND SUM(x1[].V) < x3.V WITHIN 1h"),
    nasty_query("漢字" * 20, "name " * 20),
]


@pytest.mark.parametrize("one", PICTURES, ids=str)
def test_nothing_overlaps_in_the_picture(one: fc.Query) -> None:
    """No two texts meet, a box's text fits the box, boxes stand apart, and all is inside of the picture."""
    root = ElementTree.fromstring(svg([facts(make_plan(one))], told=False))
    outer = root.find(f"{NS}g")
    assert outer is not None
    picture = outer.find(f"{NS}g")
    assert picture is not None
    texts = [extent(element) for element in picture.iter(f"{NS}text")]
    rects = [rect(element) for element in picture.iter(f"{NS}rect") if element.get("rx") == "8"]
    assert len(rects) == len(make_plan(one).states) + 1
    for number, box in enumerate(texts):
        assert not any(meet(box, other) for other in texts[:number])
        inside = [frame for frame in rects if meet(box, frame)]
        assert all(frame[0] <= box[0] and box[1] <= frame[1] for frame in inside)
        assert all(frame[2] <= box[2] and box[3] <= frame[3] for frame in inside)
    for number, frame in enumerate(rects):
        assert not any(meet(frame, other) for other in rects[:number])
    width, height = map(float, root.get("viewBox", "").split()[2:])
    assert all(box[0] >= -0.1 and box[1] <= width and box[2] >= -0.1 and box[3] <= height for box in texts + rects)


def extent(element: ElementTree.Element) -> tuple[float, float, float, float]:
    """Left, right, top and bottom of a text at 12 px, in the widest of the usual fixed-width fonts."""
    width = columns(element.text or "") * 7.3
    x, y = float(element.get("x", "")), float(element.get("y", ""))
    left = x - width / 2 if element.get("text-anchor") == "middle" else x
    return left, left + width, y - 10, y + 3


def rect(element: ElementTree.Element) -> tuple[float, float, float, float]:
    x, y, width, height = (float(element.get(key, "")) for key in ("x", "y", "width", "height"))
    return x, x + width, y, y + height


def meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


@given(st.text(max_size=60), st.integers(4, 30))
def test_clipped_and_wrapped_text_fits(text: str, most: int) -> None:
    line = shown(text)
    assert line.isprintable() or not line.isascii()
    assert columns(clip(line, most)) <= most
    parts = wrap(line, most)
    assert all(columns(part) <= most for part in parts)
    assert "".join(parts).replace(" ", "") == line.replace(" ", "")


# -------------------------------------------------------------------- notebooks


def test_a_query_shows_itself_in_a_notebook() -> None:
    html = CASES["keys"][0]._repr_html_()
    assert html is not None
    assert "a.V + b.V = c.V" in html
    assert "<svg" in html
    assert "ID int64, V int64" in html


def test_a_builder_shows_its_query_when_it_is_one() -> None:
    a: Any = SCHEMA.A("a")
    begun = fc.seq(a)
    assert begun._repr_html_() is None
    finished = begun.within("1s")
    assert finished._repr_html_() == finished.build()._repr_html_()


def test_a_query_without_a_plan_is_shown_with_the_reason() -> None:
    schema = fc.Schema({"A": {f"v{k}": "int64" for k in range(70)}, "B": {"v": "int64"}}, type="type")
    conditions = " AND ".join(f"a.v{k} < b.v" for k in range(70))
    html = fc.parse(f"PATTERN SEQ(A a, B b) WHERE {conditions} WITHIN 1s", schema)._repr_html_()
    assert html is not None
    assert "expected at most 64" in html
    assert "<svg" not in html
