"""`fastcep migrate send` and `receive`, as two processes."""

from __future__ import annotations

import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.json_lines import python, said

import fastcep as fc

SCHEMA = fc.Schema({kind: {"k": "int64", "v": "float64"} for kind in "ABC"}, time="ts", type="type", time_unit="us")
QUERIES = [
    fc.parse("PATTERN SEQ(A a, B+ b[], C c) WHERE [k] WITHIN 60us RETURN SUM(b[].v) AS total", SCHEMA, name="kleene"),
    fc.parse("PATTERN SEQ(A a, B b, NEG C n) WHERE [k] WITHIN 40us", SCHEMA, name="negation"),
    fc.parse("PATTERN SEQ(A a, B b) WHERE [k] WINDOW OPEN ON C o CLOSE AFTER 60us", SCHEMA, name="windows"),
]
KEY = "0123456789abcdef0123456789abcdef"


def stream() -> pa.Table:
    draw = np.random.default_rng(4)
    return pa.table({
        "type": draw.choice(list("ABC"), 400), "ts": np.cumsum(draw.integers(0, 4, 400)),
        "k": draw.integers(0, 4, 400), "v": draw.random(400).round(2),
    })  # fmt: skip


def command(*arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return python("fastcep", "migrate", *arguments, "--json")


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    path = tmp_path / "key.txt"
    path.write_text(KEY + "\n")
    return str(path)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "options", [[], ["--deadline", "60s", "--by", "query", "--utility", "size", "--bandwidth", "10MB"]]
)
def test_a_snapshot_moves(tmp_path: Path, key_file: str, options: list[str]) -> None:
    table = stream()
    engine = fc.Engine(QUERIES)
    engine.process(table.slice(0, 200))
    old, new = tmp_path / "old.fcep", tmp_path / "new.fcep"
    old.write_bytes(engine.snapshot())
    with command("receive", "127.0.0.1:0", "--key-file", key_file, "--output", str(new)) as receiver:
        host, port = said(receiver)["address"]
        with command("send", str(old), f"{host}:{port}", "--key-file", key_file, *options) as sender:
            report, result = said(sender), said(receiver)
            assert (sender.wait(60), receiver.wait(60)) == (0, 0)
    assert report["handed_over"] and report["complete"] and report["confirmed_states"] == report["states"] > 1
    assert result["complete"] and result["position"] == 200 and result["states"] == report["states"]
    moved = fc.Engine.restore(new.read_bytes())
    rest = table.slice(200)
    assert moved.process(rest).to_dicts() == engine.process(rest).to_dicts()
    assert moved.flush().to_dicts() == engine.flush().to_dicts()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key.txt", "new.fcep", "old.fcep"]


def test_what_cannot_be_stored_is_refused_before_it_moves(tmp_path: Path, key_file: str) -> None:
    """The state of the old host is not lost."""
    with command("receive", "127.0.0.1:0", "--key-file", key_file, "--output", str(tmp_path / "x")) as receiver:
        host, port = said(receiver)["address"]
        rows = pa.table({"ts": [1], "bike": [7]})
        aggregate = fc.migration.WindowAggregate(
            rows.schema, time="ts", keys=["bike"], window="9ns", aggregates={"rows": "count"}
        )
        aggregate.process(rows)
        with pytest.raises(fc.MigrationError, match="operators of the kind 'aggregate' are not accepted here"):
            fc.migration.send(aggregate, (host, port), key=KEY)
        assert aggregate.flush()["rows"].to_pylist() == [1]
        assert receiver.wait(60) == 2
    assert not list(tmp_path.glob("x*"))


@pytest.mark.thorough
def test_the_shedder_of_an_engine(tmp_path: Path, key_file: str) -> None:
    engine = fc.Engine(QUERIES[0], latency_bound="1s", shedder="rs", clock="virtual")
    engine.process(stream().slice(0, 200))
    old, new = tmp_path / "old.fcep", tmp_path / "new.fcep"
    old.write_bytes(engine.snapshot())
    options = ["--shedder", "rs"]
    with command("receive", "127.0.0.1:0", "--key-file", key_file, "--output", str(new), *options) as receiver:
        host, port = said(receiver)["address"]
        with command("send", str(old), f"{host}:{port}", "--key-file", key_file, *options) as sender:
            assert (sender.wait(60), receiver.wait(60)) == (0, 0)
    moved, rest = fc.Engine.restore(new.read_bytes(), shedder="rs"), stream().slice(200)
    assert moved.process(rest).to_dicts() == engine.process(rest).to_dicts()


@pytest.mark.thorough
def test_errors(tmp_path: Path, key_file: str) -> None:
    snapshot = tmp_path / "old.fcep"
    snapshot.write_bytes(fc.Engine(QUERIES).snapshot())
    (tmp_path / "short").write_text("short")
    (tmp_path / "bytes").write_bytes(b"\xff" * 32)
    (tmp_path / "none").write_bytes(b"no snapshot")
    receiving = ["receive", "127.0.0.1:0", "--key-file", key_file, "--output"]
    for arguments, message in (
        (["send", str(snapshot), "127.0.0.1:1", "--key-file", key_file], "cannot connect to 127.0.0.1:1"),
        (["send", str(snapshot), "127.0.0.1:1", "--key-file", str(tmp_path / "short")], "at least 16"),
        (["send", str(snapshot), "127.0.0.1:1", "--key-file", str(tmp_path / "bytes")], "not UTF-8 text"),
        (["send", str(tmp_path / "none"), "127.0.0.1:1", "--key-file", key_file], "snapshot"),
        (["send", str(snapshot), "127.0.0.1:1", "--key-file", key_file, "--by", "keys"], "expected one of 'auto'"),
        ([*receiving, str(tmp_path / "no" / "x")], "No such file"),
        ([*receiving, str(tmp_path)], "is a folder; expected the name of a file"),
        ([*receiving, str(tmp_path / "x"), "--wait", "1ms"], "within 0.001 s"),
    ):
        with command(*arguments) as process:
            out, error = process.communicate(timeout=120)
            text = " ".join(error.split())
            assert process.returncode == 2 and message in text and "Traceback" not in text, (arguments, out, error)
    assert not list(tmp_path.glob("x*"))
