"""``explain``: golden files of every format, the structure of the JSON, and the display in notebooks."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import queries as strategies
from strategies.whole_cases import query_cases
from support.doc_tables.explained import CASES, ENDINGS, NS, OPERATORS, SCHEMA, query

import fastcep as fc
from fastcep.plan import Plan, explain, make_plan
from fastcep.plan.explain.facts import facts
from fastcep.plan.explain.svg import svg
from fastcep.plan.explain.text_helpers import notes, place, shown

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.parametrize("format", ENDINGS)
@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, format: str) -> None:
    """The output equals the stored files. FASTCEP_GOLDEN=1 rewrites them; review the changes before you commit."""
    output = explain([make_plan(case) for case in CASES[name]], format)
    path = GOLDEN / f"{name}.{ENDINGS[format]}"
    if os.environ.get("FASTCEP_GOLDEN"):
        path.write_text(output + "\n", encoding="utf-8")
    assert output + "\n" == path.read_text(encoding="utf-8")


def test_the_engine_explains_its_queries() -> None:
    for form in ENDINGS:
        plans = [make_plan(case) for case in CASES["several"]]
        assert fc.Engine(CASES["several"]).explain(form) == explain(plans, form)
    assert fc.Engine(CASES["keys"]).explain() == explain(make_plan(CASES["keys"][0]))


def test_unknown_format() -> None:
    with pytest.raises(fc.ValidationError, match="unknown format 'png' of explain; expected one of text, json"):
        explain(make_plan(CASES["keys"][0]), "png")


@pytest.mark.parametrize(
    ("pattern", "loops"),
    [
        ("SEQ(A a, B+ b[], NEG N n, C c)", ["b"]),
        ("SEQ(A a, NEG N n, B+ b[], C c)", ["b"]),
        ("SEQ(A+ a[], NEG N n, B+ b[])", ["a", "b"]),
        ("SEQ(A a, (SEQ(B b, C c))+ g[], NEG N n)", ["g"]),
        ("SEQ(A+ a[], B b, NEG N n, C c)", []),
        ("SEQ(A a, B+ b[] UNTIL N n, C c)", []),
        ("SEQ(A a, (SEQ(B b, NEG N n, C c))+ g[])", []),
        ("SEQ(A a, NEG N n, (SEQ(B b, C c))? g)", []),
    ],
)
def test_loops_that_a_negated_variable_does_not_end(pattern: str, loops: list[str]) -> None:
    schema = fc.Schema({name: {} for name in "ABCN"}, type="type")
    output = explain(make_plan(fc.parse(f"PATTERN {pattern} WITHIN 1h", schema)))
    assert re.findall(r"does not end the loop (\w+), as UNTIL would", output) == loops


def test_the_picture_in_the_docs_is_of_the_query_in_the_docs() -> None:
    docs = Path(__file__).parents[2] / "docs"
    block = re.search(r"```cep\n(.*?)```", (docs / "explain.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    plans = [make_plan(case) for case in fc.parse_document(block[1]).queries]
    assert (docs / "images" / "explain.svg").read_text(encoding="utf-8") == explain(plans, "svg") + "\n"


# ------------------------------------------------------------------------- facts

KEYS = {
    "query": "name text window windows strategy key slices store predicates ring per_event variables states indexes "
    "edges",
    "variables": "name types minimum maximum repeated conditions",
    "states": "number variable accepts accept_guard accept_for_all registers indexes birth",
    "indexes": "number state keys guard for_all",
    "edges": "source target loop index keys predicates for_all",
}
STRATEGY = "strategy select consume limit after_match skip_to weight"
EXTENT = "kind value text"
EVENT = "variable types conditions"


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
    "absences": "variable after before until rounds condition guard for_all",
}


CONTIGUOUS = ("contiguous", "next")


def keys(part: str, name: str) -> list[str]:
    names = [*KEYS[part].split(), *(MORE[part].split() if name in OPERATORS else [])]
    return [*names, "contiguity"] if part == "query" and name in CONTIGUOUS else names


@pytest.mark.parametrize("name", CASES)
def test_the_structure_of_the_json(name: str) -> None:
    document = json.loads(explain([make_plan(case) for case in CASES[name]], "json"))
    assert list(document) == ["fastcep_explain", "queries"]
    assert document["fastcep_explain"] == 1
    for case, query_facts in zip(CASES[name], document["queries"], strict=True):
        assert list(query_facts) == keys("query", name)
        for part in ("variables", "states", "indexes", "edges"):
            assert all([key for key in entry if key != "keeps"] == keys(part, name) for entry in query_facts[part])
        for part in ("groups", "negations"):
            assert all(list(entry) == INNER[part].split() for entry in query_facts.get(part, []))
        for entry in absences(query_facts):
            assert list(entry) == INNER["absences"].split()
        assert list(query_facts["strategy"]) == STRATEGY.split()
        check_windows(query_facts["windows"], explicit=query_facts["window"]["kind"] == "explicit")
        assert fc.parse(query_facts["text"], case.schema) == case


def check_windows(windows: dict[str, Any], *, explicit: bool) -> None:
    """Check the structure of the facts on windows."""
    assert list(windows) == ["mode", "why", *(["opens", "closes"] if explicit else [])]
    for part, event_keys in (("opens", ""), ("closes", " keys predicates")) if explicit else ():
        entry = windows[part]
        event = (EVENT + event_keys).split() if entry["kind"] == "event" else []
        assert list(entry) == [*EXTENT.split(), *event]
        assert (entry["value"] is None) == (entry["text"] is None) == bool(event)


def absences(query_facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all checks of negated variables in the facts of a query."""
    lists = [edge.get("absences", []) for edge in query_facts["edges"]]
    lists += [state.get(key, []) for state in query_facts["states"] for key in ("accept_absences", "end_absences")]
    return [entry for entries in lists for entry in entries]


def absence_numbers(plan: Plan) -> list[int]:
    """Return the numbers of the checks, in the order of :func:`absences`."""
    numbers = [n for edge in plan.edges for n in edge.absences]
    return numbers + [n for state in plan.states for part in (state.accept_absences, state.at_end) for n in part]


@given(st.one_of(strategies.cases(), query_cases()))
def test_facts_agree_with_the_plan(case: strategies.Case) -> None:
    """Every format can write every plan; births, rings and guards of the plan are present, with reasons."""
    plan = make_plan(case.query)
    query_facts = facts(plan)
    for state, entry in zip(plan.states, query_facts["states"], strict=True):
        assert entry["birth"]["numbered"] == state.needs_birth == bool(entry["birth"]["why"])
        assert (entry["accept_guard"] is None) == (state.accept_guard < 0)
        if not plan.longest:  # its matches wait without a check
            assert entry.get("waits", False) == state.deferred == bool(entry.get("end_absences"))
        assert len(entry.get("accept_absences", [])) == len(state.accept_absences)
    for index, entry in zip(plan.indexes, query_facts["indexes"], strict=True):
        assert (entry["guard"] is None) == (index.guard < 0)
        assert len(entry["keys"]) == len(index.keys)
    assert all(entry["why"] for entry in query_facts["ring"])
    assert len(query_facts["ring"]) >= len(plan.ring_columns)
    for edge, entry in zip(plan.edges, query_facts["edges"], strict=True):
        assert bool(entry["predicates"]) == (edge.predicate is not None)
        assert len(entry["keys"]) == len(edge.probe)
        assert len(entry.get("absences", [])) == len(edge.absences)
        assert entry.get("keeps", False) == (edge.keeps and plan.must_advance)
    guards = [plan.absences[n].guard >= 0 for n in absence_numbers(plan)]
    assert [entry["guard"] is not None for entry in absences(query_facts)] == guards
    assert ("opens" in query_facts["windows"]) == (plan.windows is not None)
    assert (query_facts["windows"]["mode"] == "isolated") == (plan.windows is not None and plan.windows.isolated)
    in_order = sorted(plan.negations, key=lambda negation: negation.variable)
    for negation, entry in zip(in_order, query_facts.get("negations", []), strict=True):
        assert len(entry["keys"]) == len(negation.keys)
        assert len(entry["registers"]) == len(negation.registers)
        assert entry["checks"]
    negated = [entry["name"] for entry in query_facts["variables"] if entry.get("negated")]
    assert negated == list(dict.fromkeys(entry["variable"] for entry in query_facts.get("negations", [])))
    check_complete(query_facts, {form: explain(plan, form) for form in ENDINGS})


def check_complete(query_facts: dict[str, Any], formats: dict[str, str]) -> None:
    """Check that every format has every state with a distinct name, every edge and every negated variable."""
    names = [place(query_facts, state["number"]) for state in query_facts["states"]]
    assert len(set(names)) == len(names)
    lines = formats["text"].split("\n")
    assert [line.split("(")[0].split(" accepts")[0].strip() for line in lines if line.startswith("state ")] == [
        f"state {name}" for name in names
    ]
    assert sum(line.startswith("  from ") for line in lines) == len(query_facts["edges"])
    assert sum(line.startswith("negated ") for line in lines) == len(query_facts.get("negations", []))
    assert len(json.loads(formats["json"])["queries"][0]["edges"]) == len(query_facts["edges"])
    for form, arrow in (("mermaid", "-->"), ("dot", "->")):
        nodes = re.findall(r"^    (q0s\d+) ?\[", formats[form], re.MULTILINE)
        assert nodes == [f"q0s{number}" for number in range(len(names))]
        drawn = re.findall(rf"^    q0(start|s\d+) {arrow}", formats[form], re.MULTILINE)
        assert len(drawn) == len(query_facts["edges"])
        assert ("q0notes" in formats[form]) == bool(notes(query_facts))
    for with_text in (True, False):
        drawing = svg([query_facts], with_text=with_text)
        root = ElementTree.fromstring(drawing)
        paths = [element for element in root.iter() if element.tag == f"{NS}path"]
        frames = [element for element in root.iter() if element.get("rx") == "8"]
        assert (len(paths), len(frames)) == (len(query_facts["edges"]), len(names) + 1)
        below = re.sub(r"\s+", " ", " ".join(element.text or "" for element in root.iter(f"{NS}text")))
        for _, note in notes(query_facts, full=not with_text):
            assert re.sub(r"\s+", " ", shown(note)) in below


def test_facts_of_negations() -> None:
    query_facts = facts(make_plan(CASES["negated"][0]))
    negations = {entry["variable"]: entry for entry in query_facts["negations"]}
    assert {name: entry["kept"] for name, entry in negations.items()} == {
        "l": "window", "m": "first event", "n": "first event",
    }  # fmt: skip
    m = negations["m"]
    assert (m["types"], m["keys"], m["registers"]) == (["B", "N"], ["m.ID"], ["m.V"])
    assert m["checks"] == [{"at": "edge", "source": 1, "target": 2, "variable": "c"}]
    assert negations["l"]["checks"] == [{"at": "accept", "state": 2}]
    assert negations["n"]["checks"] == [{"at": "end", "state": 2}]
    assert [state["waits"] for state in query_facts["states"]] == [False, False, True]
    text = explain(make_plan(CASES["negated"][0]))
    assert "no m between a and b, c where a.ID = m.ID AND m.V < b[last].V" in text
    assert "waits     for the end of the window: no n after a, b, c where a.ID = n.ID AND for all" in text


def test_facts_of_explicit_windows() -> None:
    cases = [*CASES["windows"], *CASES["edge"]]
    pairs, every, slide, edge = (facts(make_plan(case))["windows"] for case in cases)
    assert pairs["opens"] == {
        "kind": "event", "value": None, "text": None, "variable": "o", "types": ["A"], "conditions": ["3 < o.V"],
    }  # fmt: skip
    assert pairs["closes"] == {
        "kind": "event", "value": None, "text": None, "variable": "c", "types": ["B", "C"], "conditions": ["c.V < 9"],
        "keys": [{"row": "o.ID", "event": "c.ID"}], "predicates": ["o.V < 7", "o.V < c.V"],
    }  # fmt: skip
    assert every["opens"] == {"kind": "events", "value": 5, "text": "5 EVENTS"}
    assert (every["closes"]["conditions"], every["closes"]["keys"], every["closes"]["predicates"]) == (
        ["c.V < 9"], [], [],
    )  # fmt: skip
    assert slide["opens"] == {"kind": "time", "value": 10**9, "text": "1s"}
    assert slide["closes"] == {"kind": "events", "value": 8, "text": "8 EVENTS"}
    assert edge["closes"] == {"kind": "time", "value": 5 * 10**9, "text": "5s"}
    modes = [windows["mode"] for windows in (pairs, every, slide, edge)]
    assert modes == ["shared", "isolated", "isolated", "isolated"]
    assert [windows["why"].split(" because of ")[1] for windows in (every, slide, edge)] == [
        "SELECT first", "LIMIT 2 PER WINDOW", "NEG at the edge of the window",
    ]  # fmt: skip


def test_pictures_note_clauses_that_differ_from_the_default() -> None:
    for name, heading in (("policies", "strategy"), ("windows", "opens"), ("windows", "closes"), ("must", "strategy")):
        assert heading in dict(notes(facts(make_plan(CASES[name][0]))))
    assert "strategy" not in dict(notes(facts(make_plan(CASES["and"][0]))))


def test_keeps_only_under_skip_till_next() -> None:
    assert [edge.get("keeps", False) for edge in facts(make_plan(CASES["must"][0]))["edges"]].count(True) == 1
    assert not any("keeps" in edge for edge in facts(make_plan(CASES["group"][0]))["edges"])


def test_groups_read_as_in_the_language() -> None:
    text = explain(make_plan(CASES["group"][0]))
    for part in ("g[i+1].b.V > g[i].b.V", "g[last].b.V < g.b.V", "g[2].c.V", "COUNT(g[])", "SUM(g[].b.V)", "o.x.V",
                 "(g[2] binds c) IMPLIES (g[2].c.V < 7)", "g[last].b.ID = g[i].n.ID"):  # fmt: skip
        assert part in text
    edges = facts(make_plan(CASES["group"][0]))["edges"]
    assert {edge["round"] for edge in edges} == {None, "first", "same", "next"}


def test_which_elements_a_for_all_condition_goes_through() -> None:
    reach = {
        name: {entry["reach"] for edge in facts(make_plan(CASES[name][0]))["edges"] for entry in edge["for_all"]}
        for name in ("distinct", "group", "negated")
    }
    assert reach == {"distinct": {"earlier"}, "group": set(), "negated": set()}
    ends = {
        entry["reach"] for state in facts(make_plan(CASES["and"][0]))["states"] for entry in state["accept_for_all"]
    }
    assert ends == {"all"}


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
        "seq": ["matches identify their events by it"],
        "n": ["RETURN x.n"],
        "sold": ["RETURN x.n"],
    }


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
