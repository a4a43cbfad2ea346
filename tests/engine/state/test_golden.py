"""Snapshots in tests/golden can be read, and the engines continue as they did when the snapshots were written."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from support import golden_engines as stored
from support.golden_engines import CASES, GOLDEN, no_time, rest

import fastcep as fc
from fastcep.engine.state.container import FORMAT

FILES = sorted(path.stem for path in GOLDEN.glob("*.snapshot")
               if not path.stem.startswith("container") and not path.stem.endswith("_rest"))  # fmt: skip


def expected(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def assert_goes_on(engine: fc.Engine, wanted: dict[str, Any]) -> None:
    data = wanted.pop("batches")
    assert rest(engine, data) == wanted


def test_every_case_is_stored() -> None:
    assert {f"{name}_{FORMAT}" for name in CASES} <= set(FILES)
    assert all(re.fullmatch(r"[a-z_]+_\d+", name) for name in FILES)


@pytest.mark.parametrize("name", FILES)
def test_goes_on(name: str) -> None:
    wanted = expected(name)
    assert any(wanted["matches"])
    assert_goes_on(fc.Engine.restore((GOLDEN / f"{name}.snapshot").read_bytes(), clock=no_time), wanted)


@pytest.mark.parametrize("name", [name for name in FILES if (GOLDEN / f"{name}_rest.snapshot").exists()])
def test_groups_are_merged(name: str) -> None:
    engine = fc.Engine.restore((GOLDEN / f"{name}_rest.snapshot").read_bytes(), clock=no_time)
    assert len(engine.groups) == 32
    engine.merge((GOLDEN / f"{name}.snapshot").read_bytes())
    assert_goes_on(engine, expected(f"{name}_whole"))


def test_they_hold_what_they_are_for() -> None:
    """Held and late events, waiting matches, open windows, timed-out rows."""
    before = {name: expected(f"{name}_{FORMAT}")["before"] for name in CASES}
    assert before["late"]["held_events"] > 0
    assert before["late"]["late_waiting"] > 0
    assert before["negation"]["waiting_matches"] > 0
    assert before["groups"]["waiting_matches"] > 0
    assert before["windows"]["open_windows"] > 2
    assert before["timed_out"]["timed_out_waiting"] > 0
    assert before["kleene"]["live_partial_matches"] > 5


@pytest.mark.parametrize("name", CASES)
def test_this_version_still_writes_them(name: str) -> None:
    """The bytes may differ with another compiler, but new files continue in the same way."""
    for file, content in stored.make(name).items():
        if file.endswith(".json"):
            assert json.loads(content) == json.loads((GOLDEN / file).read_text(encoding="utf-8"))
