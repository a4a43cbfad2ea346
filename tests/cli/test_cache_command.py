"""``fastcep cache info | clear``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fastcep.cli import app
from fastcep.kernels.cache import Cache, Entry
from fastcep.kernels.identity import identity

runner = CliRunner()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("FASTCEP_CACHE_DIR", str(tmp_path / "kernels"))
    cache = Cache(tmp_path / "kernels")
    cache.put(Entry("a" * 32, identity(), "symbol", b"x" * 100))
    cache.put(Entry("b" * 32, {**identity(), "numba": "0.1"}, "symbol", b"x" * 50))
    cache.put(Entry("c" * 32, identity(), error="RuntimeError: no"))
    (cache.folder / f"{'d' * 32}.kernel").write_bytes(b"planted")
    return cache


def test_info_counts_current_stale_failed_and_refused(cache: Cache) -> None:
    result = runner.invoke(app, ["cache", "info", "--json"])
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["folder"] == str(cache.folder)
    assert (facts["kernels"], facts["stale"], facts["failed"], facts["refused"]) == (2, 1, 1, 1)
    assert facts["bytes"] == sum(path.stat().st_size for path in cache.folder.glob("*.kernel"))
    assert sorted((version["current"], version["kernels"]) for version in facts["versions"]) == [(False, 1), (True, 1)]
    printed = runner.invoke(app, ["cache", "info"])
    assert "kernels  2 in" in printed.stdout
    assert "stale    1:" in printed.stdout


def test_clear_removes_all(cache: Cache) -> None:
    result = runner.invoke(app, ["cache", "clear"])
    assert (result.exit_code, result.stdout) == (0, f"removed 4 kernels from {cache.folder}\n")
    assert list(cache.folder.glob("*.kernel")) == []
    assert json.loads(runner.invoke(app, ["cache", "info", "--json"]).stdout)["kernels"] == 0


def test_a_folder_that_others_can_write_to_is_refused(cache: Cache) -> None:
    cache.folder.chmod(0o777)
    result = runner.invoke(app, ["cache", "info"])
    assert result.exit_code == 2
    assert "others can write to the folder" in result.stderr
    assert "chmod 700" in result.stderr
