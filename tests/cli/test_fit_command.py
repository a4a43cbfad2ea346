"""``fastcep fit``, and models of it for ``fastcep run`` and ``fastcep evaluate``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.csv as csv
import pytest
from support.shedding.shed_runs import Q1, cep_text
from typer.testing import CliRunner

import fastcep as fc
from fastcep.cli import app
from fastcep.datasets import ds1

runner = CliRunner()

QUERIES = cep_text(q1=Q1, q2=Q1.replace("2ms", "1ms"))
PAPER = ["--cost-table", "paper", "--index", "key"]
ONE = ["--query", "q1"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Queries, events and history; a model of q1 in m."""
    folder = tmp_path_factory.mktemp("fit")
    (folder / "q.cep").write_text(QUERIES)
    csv.write_csv(ds1(10_000, seed=1), folder / "h.csv")
    csv.write_csv(ds1(10_000, seed=2), folder / "e.csv")
    files = [str(folder / "q.cep"), "--input", str(folder / "h.csv"), "--output", str(folder / "m")]
    assert runner.invoke(app, ["fit", *files, *ONE, *PAPER], catch_exceptions=False).exit_code == 0
    return folder


@pytest.fixture(autouse=True)
def folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("q.cep", "h.csv", "e.csv", "m"):
        (tmp_path / name).symlink_to(prepared / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(command: str, *more: str) -> Any:
    return runner.invoke(app, [command, "q.cep", *more], catch_exceptions=False)


def fitted(*more: str) -> Any:
    return start("fit", "--input", "h.csv", *PAPER, *more)


def run(*more: str) -> dict[str, Any]:
    result = start("run", "--input", "e.csv", "--json", "--clock", "virtual", *PAPER, *ONE, *more)
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


def test_the_model_is_that_of_python() -> None:
    model = fc.load_model("m")
    own = fc.fit(model.query, ds1(10_000, seed=1), cost_table="paper", index="key")
    assert own.numbers == model.numbers and own.parameters == model.parameters
    assert own.parts.keys() == model.parts.keys()
    assert all(own.parts[name].equals(model.parts[name]) for name in own.parts)


def test_a_table_of_classes() -> None:
    result = fitted(*ONE, "--output", "n")
    assert result.exit_code == 0 and "Classes of q1" in result.stdout
    assert "q1: fitted on 10,000 events, written to n" in result.stdout


def test_several_queries_and_options() -> None:
    result = fitted("--output", "all", "--slices", "2", "--clusters", "gap", "--seed", "3", "--json")
    told = json.loads(result.stdout)
    assert told["models"] == {"q1": str(Path("all/q1")), "q2": str(Path("all/q2"))} and told["events"] == 10_000
    for name in ("q1", "q2"):
        model = fc.load_model(Path("all") / name)
        assert model.query.name == name
        assert {key: model.parameters[key] for key in ("slices", "clusters", "seed", "index")} == {
            "slices": 2, "clusters": "gap", "seed": 3, "index": "key",
        }  # fmt: skip
    more = ["--shedder", "hybrid", "--latency-bound", "2ns", "--model", "all/q1", "--model", "all/q2"]
    result = start("run", "--input", "e.csv", "--json", "--clock", "virtual", *PAPER, *more)
    both = json.loads(result.stdout)
    assert set(both["matches_by_query"]) == {"q1", "q2"}
    assert both["shed_matches"] > 0


@pytest.mark.parametrize("shedder", ["hybrid", "hyi", "hys"])
def test_run_with_a_model(shedder: str) -> None:
    plain = run()
    told = run("--shedder", shedder, "--latency-bound", "2ns", "--model", "m")
    assert 0 < told["matches"] <= plain["matches"]
    assert (told["shed_events"] > 0, told["shed_matches"] > 0) == (shedder != "hys", shedder != "hyi")
    assert told["estimated_recall"] < 1


@pytest.mark.parametrize("more", [["--model", "m"], ["--history", "h.csv"], []])
def test_evaluate(more: list[str]) -> None:
    own = [*PAPER, *ONE, "--shedders", "rs,hybrid,hyi,hys", "--bounds", "40%", "--skip", "0.1", "--json", *more]
    document = json.loads(start("evaluate", "--input", "e.csv", *own).stdout)
    assert [row["shedder"] for row in document["rows"]] == ["rs", "hybrid", "hyi", "hys"]
    if more:  # else few matches are left to be judged by
        found = {row["shedder"]: row["recall"] for row in document["rows"]}
        assert found["hybrid"] > found["rs"]
    expected = {"--model": (10_000, 0), "--history": (10_000, 10_000)}.get(more[0] if more else "", (5_000, 5_000))
    assert (document["stream"]["events"], document["stream"]["fitted_on"]) == expected


def test_evaluate_finds_the_same_by_history_as_by_its_model() -> None:
    documents = []
    for more in (["--model", "m"], ["--history", "h.csv"]):
        own = [*PAPER, *ONE, "--shedders", "hybrid", "--bounds", "40%", "--json", *more]
        documents.append(json.loads(start("evaluate", "--input", "e.csv", *own).stdout))
    assert documents[0]["rows"] == documents[1]["rows"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--shedder", "hybrid"], "--shedder hybrid needs a model; make one with fastcep fit, and give --model FOLDER"),
        (["--shedder", "ri", "--model", "m"], "--model is for a shedder that learns; give --shedder hybrid, "),
        (["--model", "m"], "--model is for a shedder that learns"),
        (["--shedder", "hybrid", "--model", "none"], "'none' does not exist"),
        (["--shedder", "hybrid", "--model", "m", "--query", "q2"], "has a model for 'q1', none for 'q2'; fit one"),
    ],
)
def test_what_cannot_be_run(more: list[str], message: str) -> None:
    query = [] if "--query" in more else ONE
    result = start("run", "--input", "e.csv", "--latency-bound", "2ns", *query, *more)
    assert result.exit_code == 2 and message in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--clusters", "0"], "--clusters 0: expected a whole number from 1 on, or gap"),
        (["--clusters", "many"], "--clusters many: expected"),
        (["--slices", "65"], "slices=65; expected at most 64"),
        (["--kind", "hybird"], "hybird"),
        (["--query", "q3"], "has no query 'q3'; it has q1, q2"),
        (["--cost-table", "x"], "there is no such file"),
    ],
)
def test_what_cannot_be_fitted(more: list[str], message: str) -> None:
    output = [] if "--output" in more else ["--output", "n"]
    query = [] if "--query" in more else ONE
    result = start("fit", "--input", "h.csv", *PAPER, *output, *query, *more)
    assert result.exit_code == 2 and re.search(message, result.stderr.replace("\n", " ")), result.stderr
    assert not Path("n").exists()


def fill() -> None:
    """What cannot be written over: a file, a folder with something else, one with it in the place of a query."""
    Path("file").write_text("")
    for name in ("strange", "all/q2"):
        Path(name).mkdir(parents=True)
        Path(name, "notes.txt").write_text("mine")
    Path("other.cep").write_text(cep_text(q1=Q1, **{"../q3": Q1}))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([*ONE, "--output", "file"], "--output: 'file' is a file; a model is a folder: give another name"),
        ([*ONE, "--output", "strange"], "--output: 'strange' exists and is not a model; give"),
        ([*ONE, "--output", "no/m"], "--output: cannot write 'no/m': there is no folder '.*no'; create it first"),
        ([*ONE, "--output", "file/m"], "--output: cannot write 'file/m': '.*file' is no folder"),
        (["--output", "file"], "--output: cannot write 'file/q1': '.*file' is no folder"),
        (["--output", "file/all"], "--output: cannot write 'file/all/q1': '.*file' is no folder"),
        (["--output", "all"], "--output: 'all/q2' exists and is not a model; give another name"),
        (["--output", "x" * 300], "--output: cannot write 'x*/q1': File name too long; "),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_the_events_are_read(more: list[str], message: str) -> None:
    fill()
    before = sorted(Path().rglob("*"))
    result = start("fit", "--input", "none.csv", *PAPER, *more)
    assert result.exit_code == 2 and re.search(message, result.stderr), result.stderr
    assert sorted(Path().rglob("*")) == before


def test_models_stay_in_their_folder() -> None:
    fill()
    result = runner.invoke(app, ["fit", "other.cep", "--input", "h.csv", "--output", "n"], catch_exceptions=False)
    assert result.exit_code == 2 and "--output: no folder in 'n' can have the name of query '../q3'" in result.stderr
    assert not Path("q3").exists() and not Path("n").exists()


def test_a_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    result = fitted("--output", "n")
    assert result.exit_code == 2 and "--output: cannot make the folder 'n': No space left on device" in result.stderr


def test_folders_around_several_models_are_made_and_links_followed() -> None:
    Path("link").symlink_to("a/b")
    assert fitted("--output", "link").exit_code == 0
    assert [fc.load_model(Path("a/b") / name).query.name for name in ("q1", "q2")] == ["q1", "q2"]
    assert fitted("--output", "link").exit_code == 0  # models are replaced


def test_history_in_disorder() -> None:
    whole = ds1(2_000, seed=1)
    csv.write_csv(whole.take([*range(1_000, 2_000), *range(1_000)]), "w.csv")
    more = [*PAPER, *ONE, "--output", "n"]
    result = start("fit", "--input", "w.csv", *more)
    assert result.exit_code == 2 and "sort the input with --sort" in result.stderr and not Path("n").exists()
    assert start("fit", "--input", "w.csv", *more, "--sort").exit_code == 0
