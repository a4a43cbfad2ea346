"""Cost tables: the two built-in ones, files, and invalid tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastcep.errors import ValidationError
from fastcep.overload.costs import OPERATIONS, CostTable, cost_table

ORDER = ("event", "relevant", "visited", "created", "refused", "match", "purged", "decision")


def test_paper_counts_visits_and_creations() -> None:
    table = CostTable.named("paper")
    assert OPERATIONS == ORDER
    assert table.picoseconds().tolist() == [0, 0, 1000, 1000, 0, 0, 0, 0]
    assert table.picoseconds().dtype == np.int64
    assert table.name == "paper"


def test_measured_is_constant_and_says_where_it_is_from() -> None:
    table = CostTable.named("measured")
    assert table is CostTable.named("measured")
    assert all(getattr(table, key) > 0 for key in ORDER)
    file = Path(__import__("fastcep").__file__).parent / "overload" / "measured.json"
    data = json.loads(file.read_text())
    assert (data["name"], data["hash"]) == ("measured", table.hash)
    assert {"machine", "versions", "date", "measured_apart", "median_relative_error"} <= set(data["about"])
    assert data["about"]["measured_apart"] == ["refused", "purged", "decision"]
    assert cost_table(file) == table


def test_specs(tmp_path: Path) -> None:
    own = CostTable("own", event=1.5, decision=20_000)
    path = tmp_path / "own.json"
    own.write(path)
    assert cost_table(own) is own
    assert cost_table("paper") == CostTable.named("paper")
    assert cost_table("measured") == CostTable.named("measured")
    for spec in (path, str(path)):
        assert cost_table(spec) == own
        assert cost_table(spec).hash == own.hash


def test_about_stands_beside_the_numbers(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    CostTable("own", visited=2).write(path, {"machine": "this one"})
    assert json.loads(path.read_text())["about"] == {"machine": "this one"}
    assert cost_table(path) == CostTable("own", visited=2)


def test_the_hash_is_of_the_numbers() -> None:
    table = CostTable("one", event=1.25, match=3)
    assert table.hash == replace(table, name="other").hash == CostTable("x", event=1.2501, match=3.0).hash
    assert table.hash != replace(table, match=3.001).hash
    assert table.hash != CostTable("one", relevant=1.25, match=3).hash
    assert CostTable.named("paper").hash == "e80d625ac2be3b16"  # other versions report this hash


def test_picoseconds_are_rounded() -> None:
    assert CostTable("x", event=0.0004, relevant=0.0006, visited=1.9999, decision=20_000).picoseconds().tolist() == [
        0, 1, 2000, 0, 0, 0, 0, 20_000_000,
    ]  # fmt: skip


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 1e13, "3", None, True])
def test_a_number_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError, match=r"CostTable\('x'\): created is .*, expected a number of nanoseconds"):
        CostTable("x", created=value)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValidationError, match="cost table 'papr': expected 'measured' or 'paper'"):
        CostTable.named("papr")
    with pytest.raises(ValidationError, match="cost table 'papr': there is no such file; expected \"measured\""):
        cost_table("papr")
    with pytest.raises(ValidationError, match="cost table 3: expected a CostTable"):
        cost_table(3)  # type: ignore[arg-type]


NUMBERS = dict.fromkeys(ORDER, 1.0)


def numbers_only(numbers: dict[str, Any]) -> str:
    return json.dumps({"name": "x", "nanoseconds": numbers})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "expected JSON, as `fastcep calibrate --output` writes it"),
        ("[1]", "expected a JSON object with the keys name and nanoseconds"),
        (json.dumps({"nanoseconds": NUMBERS}), "name is None, expected a text"),
        (json.dumps({"name": "x"}), "nanoseconds is None, expected an object with event, relevant"),
        (numbers_only({"event": 1}), "nanoseconds has no key 'relevant'; expected a number"),
        (numbers_only(NUMBERS | {"match": "2"}), "nanoseconds.match is '2', expected a number"),
        (numbers_only(NUMBERS | {"purged": -1}), "nanoseconds.purged is -1, expected a number"),
        (numbers_only(NUMBERS | {"event": 10**400}), "nanoseconds.event is 1000"),
        (numbers_only(NUMBERS | {"created": float("nan")}), "nanoseconds.created is nan"),
        (numbers_only(NUMBERS | {"visit": 1}), "nanoseconds.visit is not known; expected only event"),
    ],
)
def test_wrong_files_are_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(ValidationError) as told:
        cost_table(path)
    assert str(told.value).startswith(f"cost table '{path}'")
    assert message in str(told.value)


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b"\xff\xfe\xff")
    for path in (tmp_path, tmp_path / "latin.json"):
        with pytest.raises(ValidationError, match="cannot be read"):
            cost_table(path)
    with pytest.raises(ValidationError, match="there is no folder"):
        CostTable.named("paper").write(tmp_path / "none" / "x.json")
