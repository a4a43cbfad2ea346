"""The page of an evaluation: self-contained, reproducible, and prominent about rows that do not count."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.shedding import evaluation_documents as documents
from support.waiting import LIMIT

from fastcep.errors import ValidationError
from fastcep.report.evaluation import html, save_html

Make = Callable[[], dict[str, Any]]
ALL = [
    documents.bounds, documents.rates, documents.demands, documents.wall, documents.small, documents.nasty,
]  # fmt: skip
VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Parses a page: texts by element, attributes, scripts. Checks that every element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        path = tuple(tag for tag, _ in self.open)
        if path and path[-1] == "script":
            self.scripts.append((self.open[-1][1], data))
        else:
            self.texts.append((path, data))

    def text(self) -> str:
        return " ".join(data for path, data in self.texts if "style" not in path)


class Pages(dict[Make, str]):
    """Pages of documents, each made when it is needed."""

    def __missing__(self, make: Make) -> str:
        self[make] = html(make())
        return self[make]


@pytest.fixture(scope="module")
def pages() -> dict[Make, str]:
    return Pages()


def rows_of(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [row for row in document["rows"] if row["shedder"] == name]


def section(page: str, name: str) -> str:
    """Return a section of the page."""
    match = re.search(rf'<section[^>]* id="{name}".*?</section>', page, re.DOTALL)
    assert match, name
    return match[0]


@pytest.mark.thorough
@pytest.mark.parametrize("make", ALL)
def test_page_is_well_formed_and_self_contained(pages: dict[Make, str], make: Make) -> None:
    reader = Reader(pages[make])
    for tag, name, value in reader.attributes:
        if name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
            assert (value or "").startswith("#"), (tag, name, value)
        assert not name.startswith("on"), (tag, name)
    assert not re.search(r"url\(|@import|<(?:link|img|iframe|object|embed|base)\b", pages[make])
    ids = [value for _, name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value for _, name, value in reader.attributes if name == "href"} <= {f"#{each}" for each in ids}


@pytest.mark.thorough
@pytest.mark.parametrize("make", ALL)
def test_pictures_are_xml(pages: dict[Make, str], make: Make) -> None:
    pictures = re.findall(r"<svg.*?</svg>", pages[make], re.DOTALL)
    assert len(pictures) > 15
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert root.get("viewBox")
        assert not [each for each in root.iter() if each.tag.endswith(("script", "style", "image"))]


@pytest.mark.sample(1)
@pytest.mark.parametrize("make", ALL)
def test_strategies_are_named_everywhere(pages: dict[Make, str], make: Make) -> None:
    for part in ("pictures", "time", "shed", "summary", "rows"):
        text = Reader(section(pages[make], part)).text()
        for strategy in make()["setting"]["strategies"]:
            assert strategy["name"] in text, part


@pytest.mark.thorough
def test_same_bytes_twice(pages: dict[Make, str], tmp_path: Path) -> None:
    document = documents.bounds()
    before = copy.deepcopy(document)
    save_html(document, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == pages[documents.bounds].encode()
    assert document == before


@pytest.mark.thorough
def test_same_bytes_in_another_process_with_other_styles(pages: dict[Make, str], tmp_path: Path) -> None:
    """Neither the order of sets nor the user's settings of the drawing library change a page."""
    (tmp_path / "matplotlibrc").write_text("axes.facecolor: red\nfont.size: 40\nsvg.fonttype: path\n")
    code = (
        "import sys, support.shedding.evaluation_documents as d, fastcep.report.evaluation as e\n"
        "e.save_html(d.bounds(), sys.argv[1])"
    )
    root = Path(__file__).parents[3]
    environment = {
        "PYTHONPATH": f"{root}:{root / 'tests'}", "PYTHONHASHSEED": "3", "MATPLOTLIBRC": str(tmp_path / "matplotlibrc"),
        "MPLCONFIGDIR": str(tmp_path),
    }  # fmt: skip
    command = [sys.executable, "-c", code, str(tmp_path / "page.html")]
    subprocess.run(command, env=environment, check=True, timeout=LIMIT)
    assert (tmp_path / "page.html").read_bytes() == pages[documents.bounds].encode()


def test_names_are_text(pages: dict[Make, str]) -> None:
    page = pages[documents.nasty]
    assert "<script>alert" not in page
    assert "<b>50%" not in page
    assert "\x1b" not in page
    reader = Reader(page)
    assert [attributes.get("type") for attributes, _ in reader.scripts] == ["application/json", None]
    assert documents.NASTY in reader.text()
    assert "\\x1b[31m & </script>" in reader.text()
    drawn = [text for path, text in reader.texts if "svg" in path]
    assert "<b>50%</b>" in drawn


@pytest.mark.thorough
def test_document_is_in_the_page(pages: dict[Make, str]) -> None:
    for make in ALL:
        stored = [text for attributes, text in Reader(pages[make]).scripts if attributes.get("id") == "document"]
        assert json.loads(stored[0]) == make()


def test_script_is_the_one_that_the_policy_allows(pages: dict[Make, str]) -> None:
    import base64
    import hashlib

    page = pages[documents.bounds]
    (script,) = [text for attributes, text in Reader(page).scripts if not attributes]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy[1] == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def test_rows_that_do_not_count_are_prominent(pages: dict[Make, str]) -> None:
    page = pages[documents.bounds]
    alarm = section(page, "failures")
    assert 'role="alert"' in alarm
    text = Reader(alarm).text()
    assert "8 of 30 rows do not count" in text
    assert "seed 0: bound not held: mean latency 1.623 of the bound" in text
    assert "detector never fired: nothing was shed" in text
    assert page.index('id="failures"') < page.index('id="pictures"')
    assert len(re.findall('<tr class="bad">', section(page, "rows"))) == 8
    assert len(re.findall('<tr class="bad">', section(page, "summary"))) == 4
    assert "bound not held: mean latency 1.623 of the bound (and 1 more)" in Reader(section(page, "time")).text()


def test_no_alarm_if_all_rows_count(pages: dict[Make, str]) -> None:
    assert 'id="failures"' not in pages[documents.demands]


def test_hollow_markers_and_no_line_where_rows_do_not_count() -> None:
    """``si`` holds its bound at 50 % only: its recall has no line, and two hollow markers."""
    document = documents.bounds()
    document["setting"]["strategies"] = [each for each in document["setting"]["strategies"] if each["name"] == "si"]
    recall = re.findall(r"<svg.*?</svg>", section(html(document), "pictures"), re.DOTALL)[1]
    root = ElementTree.fromstring(recall)
    uses = [each.get("style", "") for each in root.iter() if each.tag.endswith("use")]
    white, blue = "var(--c-ffffff,#ffffff)", "var(--c-5fa8e0,#5fa8e0)"
    assert sum(style.startswith(f"fill: {white}; stroke: {blue}") for style in uses) == 2
    assert sum(style.startswith(f"fill: {blue}; stroke: {white}") for style in uses) == 1


def test_winners(pages: dict[Make, str]) -> None:
    text = Reader(section(pages[documents.bounds], "winners")).text()
    assert len(re.findall("★", text)) == 3
    assert "oracle 72.0 %" in text
    assert "rs found the most matches at the bounds 200%" in pages[documents.bounds]


@pytest.mark.thorough
def test_strategies_that_do_the_same_are_named(pages: dict[Make, str]) -> None:
    document = documents.bounds()
    for row, other in zip(rows_of(document, "pm-bl"), rows_of(document, "rs"), strict=True):
        row |= {key: value for key, value in other.items() if key != "shedder"}
    assert "rs and pm-bl shed and found exactly the same." in section(html(document), "pictures")
    assert "exactly the same" not in pages[documents.bounds]


def test_unknown_is_not_zero(pages: dict[Make, str]) -> None:
    page = pages[documents.small]
    assert "No ratios are given: the run without shedding found 312 matches, and a recall needs 1,000." in page
    assert section(page, "summary").count(">n/a</td>") == 5 * 3 * 3
    assert "Recall</h3>" not in section(page, "pictures")
    assert "n/a" in Reader(section(page, "winners")).text()


@pytest.mark.thorough
def test_spread_of_the_wall_clock(pages: dict[Make, str]) -> None:
    page = pages[documents.wall]
    assert "1.00 µs – 2.50 µs" in Reader(section(page, "rows")).text()
    assert "cpu Some &lt;CPU&gt;, cores 2" in page
    assert "medians over 3 repeats" in page


@pytest.mark.thorough
def test_modes(pages: dict[Make, str]) -> None:
    assert "rate of arrival" in section(pages[documents.rates], "pictures")
    assert "208.8" not in pages[documents.rates]
    assert "209 M/s" in section(pages[documents.rates], "winners").replace("\u00a0", " ")
    assert "event latency, time in the queue included" in section(pages[documents.rates], "time")
    demands = section(pages[documents.demands], "pictures")
    assert "share of the events that were shed" in demands
    assert "share of the partial matches that were shed" in demands
    assert "The dashed line is the bound" not in pages[documents.demands]


def test_classes_are_tinted_boxes(pages: dict[Make, str]) -> None:
    shed = section(pages[documents.nasty], "shed")
    assert "classes 0–19" in shed
    assert shed.count('class="boxes"') == 5 * 3
    assert "class 19: 1 born, 1 refused, 0 dropped" in shed


@pytest.mark.thorough
def test_strategies_without_series_or_rows() -> None:
    document = documents.bounds()
    document["series"] = [each for each in document["series"] if each["shedder"] != "oracle"]
    document["shed_by"] = []
    document["rows"] = [each for each in document["rows"] if (each["shedder"], each["target"]) != ("ri", "10%")]
    page = html(document)
    assert "oracle" not in Reader(section(page, "time")).text()
    assert 'id="shed"' not in page


@pytest.mark.parametrize("document", [None, {}, {"format": 2}])
def test_other_documents_are_rejected(document: Any) -> None:
    with pytest.raises(ValidationError, match="format 1"):
        html(document)


def test_drawing_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ValidationError, match=r"pip install 'fastcep\[report\]'"):
        html(documents.bounds())


def test_precision_is_shown_where_shedding_may_cause_false_matches(pages: dict[Make, str]) -> None:
    document = documents.bounds()
    assert "<h3>Precision</h3>" not in pages[documents.bounds]
    document["query"]["monotonic"] = False
    assert "<h3>Precision</h3>" in html(document)


@pytest.mark.thorough
def test_every_colour_has_a_value_on_dark_pages(pages: dict[Make, str]) -> None:
    for page in map(pages.__getitem__, ALL):
        used = set(re.findall(r"var\(--c-([0-9a-f]{6}),", page))
        defined = re.findall(r"--c-([0-9a-f]{6}): (#[0-9a-f]{6});", page)
        assert {name for name, _ in defined} == used
        assert not re.findall(r"(?:fill|stroke|background): ?#", section(page, "pictures"))
        assert all(value != f"#{name}" for name, value in defined)
