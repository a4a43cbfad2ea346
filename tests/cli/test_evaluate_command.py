"""``fastcep evaluate``: its output, exit codes and errors."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pytest
from reference.user_functions import own_registry
from support.shedding.evaluations import evaluated, stream
from support.shedding.shed_runs import Q1, cep_text
from typer.testing import CliRunner

from fastcep.cli import app
from fastcep.cli import evaluate as command
from fastcep.evaluation import Report

runner = CliRunner()

QUERIES = cep_text(q1=Q1, q2="PATTERN SEQ(C c, D d) WHERE c.ID = d.ID WITHIN 100us")
PAPER = ["--cost-table", "paper", "--index", "key", "--query", "q1"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "q.cep").write_text(QUERIES)
    csv.write_csv(stream(), tmp_path / "e.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(*options: str, source: str = "e.csv", **invoke: Any) -> Any:
    return runner.invoke(app, ["evaluate", "q.cep", "--input", source, *options], catch_exceptions=False, **invoke)


@pytest.mark.thorough
def test_json_is_the_document_and_nothing_else() -> None:
    result = start(*PAPER, "--shedders", "ri, rs", "--bounds", "90%,60%", "--seeds", "2", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == evaluated(["ri", "rs"], bounds=["90%", "60%"], seeds=2, source="e.csv").to_json()


def test_files_need_not_have_the_same_columns(folder: Path) -> None:
    events = stream()
    csv.write_csv(events.slice(0, 9_000), folder / "1.csv")
    other = events.slice(9_000).select(events.column_names[::-1])
    csv.write_csv(other.append_column("note", pa.array(["x"] * len(other))), folder / "2.csv")
    options = [*PAPER, "--shedders", "ri", "--bounds", "60%", "--json"]
    report = json.loads(start(*options, "--input", "2.csv", source="1.csv").stdout)
    assert report["rows"] == json.loads(start(*options).stdout)["rows"]


def test_what_is_read_is_not_written_over(folder: Path) -> None:
    for option in ("--output", "--html"):
        result = start("--shedders", "ri", "--bounds", "60%", option, "./q.cep")
        assert result.exit_code == 2 and f"{option} cannot write to 'q.cep', which is the query file" in result.stderr
    assert (folder / "q.cep").read_text() == QUERIES


def test_a_report_may_have_the_name_of_a_cost_table_of_the_package(folder: Path) -> None:
    options = ["--shedders", "ri", "--bounds", "60%", "--json"]
    assert start(*PAPER, *options, "--output", "paper").exit_code == 0
    result = start(*PAPER, *options, "--cost-table", "./paper", "--output", "paper")
    assert result.exit_code == 2 and "--output cannot write to 'paper', which is --cost-table" in result.stderr


def test_the_report_as_a_file_and_from_standard_input(folder: Path) -> None:
    options = [*PAPER, "--shedders", "ri", "--rates", "150%,100000000", "--latency-bound", "10us", "--json"]
    result = start(*options, "--output", "r.json")
    document = json.loads(result.stdout)
    assert (folder / "r.json").read_text() == result.stdout
    assert [row["target"] for row in document["rows"]] == ["150%", "100,000,000 events/s"]
    piped = start(*options, "--format", "csv", source="-", input=(folder / "e.csv").read_bytes())
    assert json.loads(piped.stdout) == document | {"stream": document["stream"] | {"source": "standard input"}}


def test_rows_that_do_not_count_are_listed_and_give_code_1(folder: Path) -> None:
    result = start(*PAPER, "--shedders", "ri,rs", "--bounds", "60%,1000%", "--json", "--output", "r.json")
    assert result.exit_code == 1 and (folder / "r.json").read_text() == result.stdout
    assert result.stderr.splitlines() == [
        f"does not count: {name} at 1000%, seed 0: detector never fired: mean latency 0.1 of the bound"
        for name in ("ri", "rs")
    ]


def test_all_queries_and_fixed_demands() -> None:
    result = start("--cost-table", "paper", "--shedders", "ri", "--demands", "30%", "--skip", "0.1", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0 and document["query"]["names"] == ["q1", "q2"]
    assert document["setting"]["mode"] == "demands" and document["setting"]["skip"] == 0.1


@pytest.mark.thorough
def test_several_jobs_give_the_same() -> None:
    options = [*PAPER, "--shedders", "ri,rs", "--bounds", "60%", "--json"]
    assert start(*options, "--jobs", "2").stdout == start(*options).stdout


@pytest.mark.thorough
def test_functions_are_known_in_all_processes(folder: Path) -> None:
    (folder / "f.py").write_text(
        "import fastcep\n\n@fastcep.function('int64(int64)')\ndef double(x):\n    return 2 * x\n"
    )
    text = (folder / "q.cep").read_text()
    (folder / "q.cep").write_text(text.replace("c.ID = d.ID", "double(c.ID) = d.ID"))
    options = ["--query", "q2", "--cost-table", "paper", "--shedders", "ri", "--bounds", "60%", "--json"]
    with own_registry():
        result = start(*options, "--functions", "f.py", "--jobs", "2")
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_table_without_json(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    from rich.table import Table

    pages: list[Path] = []

    def table(report: Report, width: int | None = None) -> Table:
        drawn = Table("shedder", "recall")
        for row in report.rows:
            drawn.add_row(row["shedder"], f"{row['recall']:.2f}")
        return drawn

    monkeypatch.setattr(Report, "table", table)
    monkeypatch.setattr(Report, "to_html", lambda report, path: pages.append(path))
    result = start(*PAPER, "--shedders", "ri,rs", "--bounds", "60%", "--html", "page.html")
    assert result.exit_code == 0 and "shedder" in result.stdout and "rs" in result.stdout
    assert pages == [Path("page.html")]


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with command._progress() as progress:
        assert progress is not None
        progress(0, 4)
        progress(4, 4)
    assert "4/4" in terminal.getvalue()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shedders", "ri"], "found none of --bounds, --rates, --demands: give exactly one of them"),
        (["--shedders", "ri", "--bounds", "50"], "--bounds='50': expected a share of the latency without shedding"),
        (["--shedders", "r,ri", "--bounds", "50%"], "--shedders: unknown shedder 'r'"),
        (["--shedders", "ri", "--rates", "120%"], "--rates needs --latency-bound …: the bound on the event latency"),
        (["--shedders", "ri", "--rates", "quick", "--latency-bound", "1s"], "--rates='quick': expected a share of"),
        (["--shedders", "ri", "--bounds", "50%", "--statistic", "p1"], "--statistic='p1': expected 'mean', 'p95'"),
        (["--shedders", "ri", "--bounds", "50%", "--detector", "x"], "--detector: unknown detector 'x'"),
        (["--shedders", "ri", "--bounds", "50%", "--seeds", "0"], "--seeds=0: expected a number of seeds"),
        (["--shedders", "ri", "--bounds", "50%", "--history", "e.csv"], "--history=…: none of the shedders is fitted"),
        (["--shedders", "ri", "--bounds", "50%", "--model", "m"], "--model='m': none of the shedders takes a model"),
        (["--shedders", "ri", "--bounds", "50%", "--cost-table", "x"], "--cost-table 'x': there is no such file"),
        (["--shedders", "ri", "--bounds", "50%", "--output", "e.csv"], "--output cannot write to 'e.csv', which is"),
        (["--shedders", "ri", "--bounds", "50%", "--html", "no/p.html"], "cannot write 'no/p.html': there is no"),
        (["--shedders", "ri", "--bounds", "50%", "--query", "q3"], "has no query 'q3'; it has q1, q2"),
    ],
)
def test_errors_of_the_user(options: list[str], message: str) -> None:
    result = start(*options)
    assert result.exit_code == 2 and result.stdout == ""
    assert message in " ".join(result.stderr.split())


@pytest.fixture
def backwards(folder: Path) -> Iterator[None]:
    csv.write_csv(stream().take(list(range(20_000))[::-1]), folder / "e.csv")
    yield


@pytest.mark.usefixtures("backwards")
def test_events_out_of_order_are_sorted_if_asked_for() -> None:
    options = [*PAPER, "--shedders", "ri", "--bounds", "60%", "--json"]
    refused = start(*options)
    assert refused.exit_code == 2 and refused.stderr.strip().endswith("; sort the input with --sort")
    assert start(*options, "--sort").exit_code == 0


def test_a_row_that_cannot_be_taken_is_an_error(folder: Path) -> None:
    with (folder / "e.csv").open("a") as file:
        file.write("A,one,2,900000\n")
    result = start("--shedders", "ri", "--bounds", "60%")
    assert result.exit_code == 2 and "row 20000, column 'ID'" in result.stderr


def test_no_events_at_all(folder: Path) -> None:
    (folder / "e.csv").write_text("type,ID,V,ts\n")
    result = start("--shedders", "ri", "--bounds", "60%")
    assert result.exit_code == 2 and "found no events" in result.stderr
