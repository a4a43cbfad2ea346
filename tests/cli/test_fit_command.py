"""``fastcep fit``, and its models in ``fastcep run`` and ``fastcep evaluate``."""

from __future__ import annotations

import functools
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
from fastcep.shedding import ESpice

runner = CliRunner()

QUERIES = cep_text(q1=Q1, q2=Q1.replace("2ms", "1ms"))
PAPER = ["--cost-table", "paper", "--index", "key"]
ONE = ["--query", "q1"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write queries, events and history, and fit a model of q1 in m."""
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


def start(command: str, *options: str) -> Any:
    return runner.invoke(app, [command, "q.cep", *options], catch_exceptions=False)


def fitted(*options: str) -> Any:
    return start("fit", "--input", "h.csv", *PAPER, *options)


def run(*options: str) -> dict[str, Any]:
    result = start("run", "--input", "e.csv", "--json", "--clock", "virtual", *PAPER, *ONE, *options)
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


def test_the_model_is_that_of_python() -> None:
    model = fc.load_model("m")
    python_model = fc.fit(model.query, ds1(10_000, seed=1), cost_table="paper", index="key")
    assert python_model.numbers == model.numbers and python_model.parameters == model.parameters
    assert python_model.parts.keys() == model.parts.keys()
    assert all(python_model.parts[name].equals(model.parts[name]) for name in python_model.parts)


def test_a_table_of_classes() -> None:
    result = fitted(*ONE, "--output", "n")
    assert result.exit_code == 0 and "Classes of q1" in result.stdout
    assert re.search(r"q1: fitted on 10,000 events, written to n\S*; a decision takes \d+ us", result.stdout)


def test_several_queries_and_options() -> None:
    result = fitted("--output", "all", "--slices", "2", "--clusters", "gap", "--seed", "3", "--json")
    report = json.loads(result.stdout)
    assert report["models"] == {"q1": str(Path("all/q1")), "q2": str(Path("all/q2"))} and report["events"] == 10_000
    assert report["decision_cost"].keys() == report["models"].keys() and min(report["decision_cost"].values()) > 0
    for name in ("q1", "q2"):
        model = fc.load_model(Path("all") / name)
        assert model.query.name == name
        assert {key: model.parameters[key] for key in ("slices", "clusters", "seed", "index")} == {
            "slices": 2, "clusters": "gap", "seed": 3, "index": "key",
        }  # fmt: skip
    options = ["--shedder", "hybrid", "--latency-bound", "2ns", "--model", "all/q1", "--model", "all/q2"]
    result = start("run", "--input", "e.csv", "--json", "--clock", "virtual", *PAPER, *options)
    summary = json.loads(result.stdout)
    assert set(summary["matches_by_query"]) == {"q1", "q2"}
    assert summary["shed_matches"] > 0


@pytest.mark.parametrize("shedder", ["hybrid", "hyi", "hys"])
def test_run_with_a_model(shedder: str) -> None:
    plain = run()
    shed = run("--shedder", shedder, "--latency-bound", "2ns", "--model", "m")
    assert 0 < shed["matches"] <= plain["matches"]
    assert (shed["shed_events"] > 0, shed["shed_matches"] > 0) == (shedder != "hys", shedder != "hyi")
    assert shed["estimated_recall"] < 1


@pytest.mark.thorough
@pytest.mark.parametrize("options", [["--model", "m"], ["--history", "h.csv"], []])
def test_evaluate(options: list[str]) -> None:
    shedders = ["--shedders", "rs,hybrid,hyi,hys", "--bounds", "40%", "--skip", "0.1"]
    document = json.loads(
        start("evaluate", "--input", "e.csv", *PAPER, *ONE, *shedders, "--json", *options).stdout
    )
    assert [row["shedder"] for row in document["rows"]] == ["rs", "hybrid", "hyi", "hys"]
    if options:  # without a model or history, half of the input has too few matches
        recall = {row["shedder"]: row["recall"] for row in document["rows"]}
        assert recall["hybrid"] > recall["rs"]
    option = options[0] if options else ""
    expected = {"--model": (10_000, 0), "--history": (10_000, 10_000)}.get(option, (5_000, 5_000))
    assert (document["stream"]["events"], document["stream"]["fitted_on"]) == expected


@pytest.mark.thorough
def test_evaluate_gives_the_same_with_history_as_with_its_model() -> None:
    documents = []
    for options in (["--model", "m"], ["--history", "h.csv"]):
        arguments = [*PAPER, *ONE, "--shedders", "hybrid", "--bounds", "40%", "--json", *options]
        documents.append(json.loads(start("evaluate", "--input", "e.csv", *arguments).stdout))
    assert documents[0]["rows"] == documents[1]["rows"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shedder", "hybrid"], "--shedder hybrid needs a model; create one with fastcep fit, and give --model"),
        (["--shedder", "ri", "--model", "m"], "--model needs a shedder that uses one; give --shedder hybrid, "),
        (["--shedder", "none", "--model", "m"], "--model needs a shedder that uses one"),
        (["--shedder", "hybrid", "--model", "none"], "'none' does not exist"),
        (["--shedder", "hybrid", "--model", "m", "--query", "q2"], "has a model for 'q1', none for 'q2'; fit one"),
    ],
)
def test_what_cannot_be_run(options: list[str], message: str) -> None:
    query = [] if "--query" in options else ONE
    result = start("run", "--input", "e.csv", "--latency-bound", "2ns", *query, *options)
    assert result.exit_code == 2 and message in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--clusters", "0"], "--clusters 0: expected a positive integer, or gap"),
        (["--clusters", "many"], "--clusters many: expected"),
        (["--slices", "65"], "slices=65; expected at most 64"),
        (["--kind", "hybird"], "hybird"),
        (["--query", "q3"], "has no query 'q3'; it has q1, q2"),
        (["--cost-table", "x"], "there is no such file"),
    ],
)
def test_what_cannot_be_fitted(options: list[str], message: str) -> None:
    output = [] if "--output" in options else ["--output", "n"]
    query = [] if "--query" in options else ONE
    result = start("fit", "--input", "h.csv", *PAPER, *output, *query, *options)
    assert result.exit_code == 2 and re.search(message, result.stderr.replace("\n", " ")), result.stderr
    assert not Path("n").exists()


def block_outputs() -> None:
    """Create paths that cannot be replaced: a file, a folder with other files, and one with the name of a query."""
    Path("file").write_text("")
    for name in ("strange", "all/q2"):
        Path(name).mkdir(parents=True)
        Path(name, "notes.txt").write_text("mine")
    Path("other.cep").write_text(cep_text(q1=Q1, **{"../q3": Q1}))


@pytest.mark.parametrize(
    ("options", "message"),
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
def test_an_output_that_cannot_be_written_is_rejected_before_reading(options: list[str], message: str) -> None:
    block_outputs()
    before = sorted(Path().rglob("*"))
    result = start("fit", "--input", "none.csv", *PAPER, *options)
    assert result.exit_code == 2 and re.search(message, result.stderr), result.stderr
    assert sorted(Path().rglob("*")) == before


def test_models_stay_in_their_folder() -> None:
    block_outputs()
    result = runner.invoke(app, ["fit", "other.cep", "--input", "h.csv", "--output", "n"], catch_exceptions=False)
    assert result.exit_code == 2 and "--output: query name '../q3' cannot be the name of a folder" in result.stderr
    assert not Path("q3").exists() and not Path("n").exists()


def test_a_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    result = fitted("--output", "n")
    assert result.exit_code == 2 and "--output: cannot create the folder 'n': No space left on device" in result.stderr


def test_folders_around_several_models_are_made_and_links_followed() -> None:
    Path("link").symlink_to("a/b")
    assert fitted("--output", "link").exit_code == 0
    assert [fc.load_model(Path("a/b") / name).query.name for name in ("q1", "q2")] == ["q1", "q2"]
    assert fitted("--output", "link").exit_code == 0  # models are replaced


def test_history_in_disorder() -> None:
    events = ds1(2_000, seed=1)
    csv.write_csv(events.take([*range(1_000, 2_000), *range(1_000)]), "w.csv")
    options = [*PAPER, *ONE, "--output", "n"]
    result = start("fit", "--input", "w.csv", *options)
    assert result.exit_code == 2 and "sort the input with --sort" in result.stderr and not Path("n").exists()
    assert start("fit", "--input", "w.csv", *options, "--sort").exit_code == 0


def test_a_model_of_pspice() -> None:
    result = fitted("--output", "n", "--kind", "pspice", "--bin", "2")
    assert result.exit_code == 0 and "States of q1 at the start of a window" in result.stdout
    model = fc.load_model(Path("n") / "q1")
    assert model.kind == "pspice" and model.numbers["bin"] == 2
    result = fitted("--output", "none", "--kind", "pspice", "--clusters", "3")
    assert result.exit_code == 2 and not Path("none").exists()
    assert "--clusters: models of kind 'pspice' have no such option; leave it out" in result.stderr
    result = fitted("--output", "none", "--bin", "3")
    assert result.exit_code == 2 and "--bin: models of kind 'hybrid' have no such option" in result.stderr
    result = fitted("--output", "none", "--kind", "pspice", "--no-validate")
    assert result.exit_code == 2 and "--no-validate: models of kind 'pspice' have no such option" in result.stderr


def test_a_model_of_pspice_sheds() -> None:
    """In a run and in an evaluation, by a model in a folder."""
    assert fitted("--output", "n", "--kind", "pspice", *ONE).exit_code == 0
    summary = run("--shedder", "pspice", "--model", "n", "--latency-bound", "4ns")
    assert summary["shed_matches"] > 0 and 0 < summary["matches"] < run()["matches"]
    options = ["--input", "e.csv", *PAPER, *ONE, "--model", "n", "--demands", "30%", "--json"]
    result = start("evaluate", "--shedders", "rs,pspice,pspice--", *options)
    assert result.exit_code == 0, result.stderr
    assert {"rs", "pspice", "pspice--"} == {row["shedder"] for row in json.loads(result.stdout)["rows"]}


def test_a_model_of_espice(recwarn: pytest.WarningsRecorder) -> None:
    window = "WINDOW OPEN EVERY 90 EVENTS CLOSE AFTER 100 EVENTS"
    text = cep_text(w=f"PATTERN SEQ(A a, B b) WHERE a.ID = b.ID {window}")
    Path("w.cep").write_text(text)
    common = ["w.cep", "--input", "h.csv"]
    result = runner.invoke(app, ["fit", *common, "--output", "n", "--kind", "espice", "--bin", "10"])
    assert result.exit_code == 0, result.stderr
    assert "Types of w in a window of 100 events" in result.stdout and "0 to 99" in result.stdout
    assert re.search(r"Type and position have 0\.\d{3} of 1 bit", " ".join(result.stdout.split()))
    model = fc.load_model("n")
    assert model.kind == "espice" and model.numbers["bin"] == 10
    options = ["--latency-bound", "15ns", "--clock", "virtual", "--index", "key", "--json"]
    result = runner.invoke(app, ["run", *common[:2], "e.csv", "--shedder", "espice", "--model", "n", *options])
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["shed_events"] + summary["shed_windows"] > 0
    result = runner.invoke(app, ["fit", *common, "--output", "none", "--kind", "espice", "--slices", "2"])
    assert result.exit_code == 2 and "models of kind 'espice' have no such option" in result.stderr


WINDOWS = "PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WINDOW OPEN EVERY 90 EVENTS CLOSE AFTER 100 EVENTS"


@pytest.fixture
def espice_model() -> list[str]:
    """Return the arguments of a command on a query with explicit windows, after a fit with equal costs."""
    Path("w.cep").write_text(cep_text(w=WINDOWS))
    for options in (["--output", "n"], ["--output", "equal", "--equal-costs"]):
        result = runner.invoke(app, ["fit", "w.cep", "--input", "h.csv", "--kind", "espice", *PAPER, *options])
        assert result.exit_code == 0, result.stderr
    return ["w.cep", "--input", "e.csv"]


@pytest.mark.filterwarnings("ignore:model .espice.:UserWarning")
def test_equal_costs(espice_model: list[str]) -> None:
    usual, equal = fc.load_model("n"), fc.load_model("equal")
    assert "effect" in usual.parts and "effect" not in equal.parts
    result = fitted("--output", "none", "--kind", "pspice", "--equal-costs")
    assert result.exit_code == 2 and not Path("none").exists()
    assert "--equal-costs: models of kind 'pspice' have no such option" in result.stderr


@pytest.mark.filterwarnings("ignore:model .espice.:UserWarning")
def test_run_with_options_of_espice(espice_model: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made = record_shedders(monkeypatch)
    options = ["--latency-bound", "15ns", "--clock", "virtual", *PAPER, "--shedder", "espice", "--model", "n"]
    for given in ([], ["--f", "0.5"], ["--literal"], ["--f", "auto", "--detector", "queue"]):
        result = runner.invoke(app, ["run", *espice_model, "--json", *options, *given])
        assert result.exit_code == 0, result.stderr
    assert [(one.f, one.literal) for one in made] == [(0.8, False), (0.5, False), (0.8, True), ("auto", False)]


@pytest.mark.sample(2)
@pytest.mark.filterwarnings("ignore:model .espice.:UserWarning")
@pytest.mark.parametrize(("detector", "code"), [([], 0), (["--detector", "latency"], 2)])
def test_f_is_chosen_by_the_own_queue_detector(detector: list[str], code: int, espice_model: list[str]) -> None:
    options = ["--shedders", "espice", "--model", "n", "--rates", "200%", "--latency-bound", "10us", "--f", "auto"]
    result = runner.invoke(app, ["evaluate", *espice_model, *options, "--json", *detector])
    assert result.exit_code in (code, 1 - code), result.stderr
    assert ("f='auto' requires the queue detector" in result.stderr) == (code == 2)


@pytest.mark.sample(1)
@pytest.mark.filterwarnings("ignore:model .espice.:UserWarning")
@pytest.mark.parametrize("models", [["--model", "n"], ["--history", "h.csv"]])
def test_evaluate_with_options_of_espice(
    models: list[str], espice_model: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = record_shedders(monkeypatch)
    options = ["--shedders", "rs,espice", "--demands", "40%", *PAPER, "--json", *models]
    shed = []
    for given in ([], ["--f", "0.5", "--literal"]):
        result = runner.invoke(app, ["evaluate", *espice_model, *options, *given])
        assert result.exit_code == 0, result.stderr
        document = json.loads(result.stdout)
        assert [(one["name"], one["label"]) for one in document["setting"]["strategies"]][1] == ("espice", "espice")
        shed.append([row["recall"] for row in document["rows"]])
    assert {(one.f, one.literal) for one in made} == {(0.8, False), (0.5, True)}
    assert shed[0][0] == shed[1][0] and shed[0][1] != shed[1][1]


def record_shedders(monkeypatch: pytest.MonkeyPatch) -> list[ESpice]:
    """Return a list to which each shedder that is created is appended."""
    made: list[ESpice] = []
    create = ESpice.__init__

    def init(self: ESpice, *arguments: Any, **options: Any) -> None:
        create(self, *arguments, **options)
        made.append(self)

    monkeypatch.setattr(ESpice, "__init__", functools.wraps(create)(init))
    return made


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["run", "--shedder", "rs", "--f", "0.5"], "--f: shedder 'rs' has no such option; leave it out, or give "),
        (["run", "--shedder", "pspice", "--model", "m", "--literal"], "--literal: shedder 'pspice' has no such option"),
        (["run", "--literal"], "--literal: shedder 'auto' has no such option"),
        (["run", "--shedder", "espice", "--model", "m", "--f", "half"], "--f half: expected a number above 0 and "),
        (["run", "--shedder", "espice", "--model", "m", "--f", "1.5"], "f=1.5; expected a number above 0"),
        (["evaluate", "--shedders", "rs,pspice", "--bounds", "50%", "--f", "0.5"],
         "--f: none of the shedders rs, pspice has such an option; leave it out, or add espice to --shedders"),
        (["evaluate", "--shedders", "rs", "--bounds", "50%", "--literal"], "--literal: none of the shedders rs has"),
    ],
)  # fmt: skip
def test_options_of_espice_are_rejected_elsewhere(options: list[str], message: str) -> None:
    command, *rest = options
    bound = ["--latency-bound", "2ns"] if command == "run" else []
    result = start(command, "--input", "e.csv", *ONE, *bound, *rest)
    assert result.exit_code == 2 and message in result.stderr.replace("\n", " "), result.stderr
