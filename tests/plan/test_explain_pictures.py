"""Pictures of ``explain``: names that could break the format, and layout without overlaps."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import queries as strategies
from support.doc_tables.explained import CASES, NS, WIDER, query

import fastcep as fc
from fastcep.plan import explain, make_plan
from fastcep.plan.explain.facts import facts
from fastcep.plan.explain.svg import svg
from fastcep.plan.explain.text_helpers import clip, columns, shown, wrap

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
    """Return a query in which every kind of name is one of these texts."""
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


def nasty_operators(name: str, other: str) -> fc.Query:
    """Return the same for the names of a group, its variables and negated variables."""
    x = f"{other}A"
    schema = fc.Schema({name + "T": {x: "int64"}, "B": {x: "int64"}}, time="ts", type="type")
    first, missing = schema[name + "T"](name), schema.B(name + "N").negated()
    group = fc.group(other + "G", fc.seq(first, missing, schema.B(other + "2"))).plus()
    late = schema.B(other + "L").negated()
    from fastcep.query import i

    return (
        fc.seq(fc.all_of(group, schema[name + "T"](name + "3")), late)
        .where(group[i][name][x] < group[i][other + "2"][x], group[i][name + "N"][x] == group[i][name][x])
        .where(group.inner(name).sum(x) > late[x])
        .within("1s")
        .named(name)
        .build()
    )


def nasty_windows(name: str, other: str) -> fc.Query:
    """Return the same for the events that open and close windows."""
    x = f"{other}A"
    schema = fc.Schema({name + "T": {x: "int64"}, "B": {x: "int64"}}, time="ts", type="type")
    opening, closing = schema[name + "T"](name), schema[name + "T"](other + "2")
    return (
        fc.seq(schema.B(name + "3"), schema.B(other + "L"))
        .window(
            opens=fc.on(opening, opening[x] > 3),
            closes=fc.on(closing, closing[x] == opening[x], closing[x] != 7, closing[x] * 2 > opening[x]),
        )
        .strategy("skip_till_next")
        .named(name)
        .build()
    )


TEXTS = st.sampled_from(NASTY) | st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter("i".__ne__)


@pytest.mark.sample(1)
@pytest.mark.parametrize("make", [nasty_query, nasty_operators, nasty_windows])
@given(name=TEXTS, other=TEXTS)
def test_names_stay_names(make: Callable[[str, str], fc.Query], name: str, other: str) -> None:
    if len({name, name + "N", name + "3", other + "2", other + "G", other + "L"}) < 6:
        return
    query_with_names = make(name, other)
    plan = make_plan(query_with_names)
    plain = make_plan(make("n", "m"))
    assert json.loads(explain(plan, "json"))["queries"][0]["name"] == name
    assert len(explain(plan).split("\n")) >= len(explain(plain).split("\n"))  # a name with a line feed shows in QUERY
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", explain(plan))
    assert list(mermaid_shape(explain(plan, "mermaid"))) == list(mermaid_shape(explain(plain, "mermaid")))
    assert list(dot_shape(explain(plan, "dot"))) == list(dot_shape(explain(plain, "dot")))
    check_svg(explain(plan, "svg"))
    html = query_with_names._repr_html_()
    assert html is not None
    check_html(html)


def mermaid_shape(text: str) -> Iterator[str]:
    """Yield the lines with empty strings; check that no string contains Mermaid syntax."""
    assert "%%" not in text
    for line in text.split("\n"):
        for inside in re.findall(r'"([^"]*)"', line):
            plain = re.sub(r"#\d+;(tyle|lassDef)?", "", inside.replace("<br/>", ""))
            assert not re.search(r"[<>&#;`%{}\\]|style|classDef", plain), inside
        yield re.sub(r'"[^"]*"', '""', line)


def dot_shape(text: str) -> Iterator[str]:
    """Yield the lines with empty strings; check that quotes in strings are escaped."""
    for line in text.split("\n"):
        for inside in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
            assert set(re.findall(r"\\(.)", inside)) <= {"n", "\\", '"'}
            assert all(entity == "&amp;" for entity in re.findall(r"&(?:#?\w+;)?", inside))
        yield re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)


def check_svg(text: str) -> None:
    root = ElementTree.fromstring(text)
    allowed = {"svg", "g", "rect", "text", "path", "polygon"}
    for element in root.iter():
        assert element.tag.removeprefix("{http://www.w3.org/2000/svg}") in allowed
        assert not any(key.startswith("on") or key.endswith("href") for key in element.attrib)


def check_html(text: str) -> None:
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
    parser.feed(text)
    parser.close()
    assert opened == []


# ------------------------------------------------------------------------ layout

TWELVE = ", ".join(f"{'ABC'[k % 3]} x{k}" for k in range(12))
CHAIN = " AND ".join(f"x{k}.ID = x{k + 1}.ID AND x{k}.V + x{k}.ID * 3 < x{k + 1}.V" for k in range(11))
OPTIONAL = ", ".join(f"{'ABC'[k % 3]}{'?+*'[k % 3]} x{k}{'[]' if k % 3 else ''}" for k in range(12))
PICTURES = [
    *(case for queries in CASES.values() for case in queries),
    query(f"PATTERN SEQ({TWELVE}) WHERE {CHAIN} WITHIN 1h"),
    query(f"PATTERN SEQ({OPTIONAL}) WHERE x0.ID = x11[last].ID AND SUM(x1[].V) < x3.V WITHIN 1h"),
    query("PATTERN AND(A a, B b, C+ c[], D? d) WHERE [ID] AND c[i].V < a.V WITHIN 1h", WIDER),
    query("PATTERN SEQ((SEQ(A? a, AND(B b, C? c), NEG N n, D d))* g[], A z, NEG N m) WITHIN 1h", WIDER),
    query("PATTERN AND(A+ a[], B+ b[]) WHERE a[i+1].V > a[i].V AND b[i+1].V > b[i].V WITHIN 1h", WIDER),
    nasty_query("漢字" * 20, "name " * 20),
    nasty_operators("漢字" * 20, "name " * 20),
]


@pytest.mark.parametrize("case", PICTURES, ids=str)
def test_nothing_overlaps_in_the_picture(case: fc.Query) -> None:
    check_picture(case)


@given(strategies.cases())
def test_nothing_overlaps_in_the_picture_of_any_query(case: strategies.Case) -> None:
    check_picture(case.query)


def check_picture(case: fc.Query) -> None:
    """Check that texts and boxes do not overlap, texts fit their boxes, and everything is inside the picture."""
    root = ElementTree.fromstring(svg([facts(make_plan(case))], with_text=False))
    outer = root.find(f"{NS}g")
    assert outer is not None
    picture = outer.find(f"{NS}g")
    assert picture is not None
    texts = [extent(element) for element in picture.iter(f"{NS}text")]
    rects = [rect(element) for element in picture.iter(f"{NS}rect") if element.get("rx") == "8"]
    assert len(rects) == len(make_plan(case).states) + 1
    for number, box in enumerate(texts):
        assert not any(overlap(box, other) for other in texts[:number])
        inside = [frame for frame in rects if overlap(box, frame)]
        assert all(frame[0] <= box[0] and box[1] <= frame[1] for frame in inside)
        assert all(frame[2] <= box[2] and box[3] <= frame[3] for frame in inside)
    for number, frame in enumerate(rects):
        assert not any(overlap(frame, other) for other in rects[:number])
    width, height = map(float, root.get("viewBox", "").split()[2:])
    assert all(box[0] >= -0.1 and box[1] <= width and box[2] >= -0.1 and box[3] <= height for box in texts + rects)


def extent(element: ElementTree.Element) -> tuple[float, float, float, float]:
    """Return left, right, top and bottom of a text at 12 px, in the widest common fixed-width font."""
    width = columns(element.text or "") * 7.3
    x, y = float(element.get("x", "")), float(element.get("y", ""))
    left = x - width / 2 if element.get("text-anchor") == "middle" else x
    return left, left + width, y - 10, y + 3


def rect(element: ElementTree.Element) -> tuple[float, float, float, float]:
    x, y, width, height = (float(element.get(key, "")) for key in ("x", "y", "width", "height"))
    return x, x + width, y, y + height


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def test_too_many_states_are_not_drawn() -> None:
    variables = ", ".join(f"{'ABC'[k % 3]} x{k}" for k in range(8))
    large_plan = make_plan(query(f"PATTERN AND({variables}) WITHIN 1h"))
    picture = svg([facts(make_plan(CASES["keys"][0])), facts(large_plan)])
    check_svg(picture)
    assert "255 states and 1024 edges: too many to draw" in picture
    assert picture.count('rx="8"') == 4, "the other query's"
    assert "state {x0, x1, x2, x3, x4, x5, x6, x7} accepts" in picture


@given(st.text(max_size=60), st.integers(4, 30))
def test_clipped_and_wrapped_text_fits(text: str, most: int) -> None:
    line = shown(text)
    assert line.isprintable() or not line.isascii()
    assert columns(clip(line, most)) <= most
    parts = wrap(line, most)
    assert all(columns(part) <= most for part in parts)
    assert "".join(parts).replace(" ", "") == line.replace(" ", "")
