"""Mistakes with models of shedders and with snapshots."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import fastcep as fc
from mistakes.catalogue import Mistakes

MISTAKES = Mistakes()
SCHEMA = fc.Schema({"Payment": {"card": "int64"}, "Refund": {"card": "int64"}}, type="kind", time_unit="s")
TEXT = "PATTERN SEQ(Payment a, Refund r) WHERE a.card = r.card WITHIN 10s"
QUERY = fc.parse(TEXT, SCHEMA, name="refunds")
CHANGED = fc.parse(TEXT.replace("10s", "20s"), SCHEMA, name="refunds")
OTHER = fc.parse(TEXT.replace("10s", "20s"), SCHEMA, name="slow")
HISTORY: dict[str, Any] = {
    "kind": ["Payment", "Refund"] * 200, "ts": list(range(400)), "card": [i // 2 % 3 for i in range(400)],
}  # fmt: skip


@lru_cache
def _model() -> fc.Model:
    return fc.fit(QUERY, HISTORY, kind="pspice")


def _engine(**options: Any) -> fc.Engine:
    return fc.Engine(QUERY, **({"latency_bound": "5ms"} | options))


@lru_cache
def _snapshot() -> bytes:
    engine = fc.Engine(QUERY)
    engine.process(HISTORY)
    return engine.snapshot()


# --------------------------------------------------------------------------------------------------------- models


@MISTAKES
def model_folder_missing(folder: Path) -> None:
    _engine(shedder="hybrid", model=folder / "model")


@MISTAKES
def model_that_is_a_file(folder: Path) -> None:
    (folder / "model").write_text("model")
    fc.load_model(folder / "model")


@MISTAKES
def model_from_another_folder(folder: Path) -> None:
    fc.load_model(folder)


@MISTAKES
def model_of_another_kind(folder: Path) -> None:
    _engine(shedder="hybrid", model=_model())


@MISTAKES
def model_of_another_query(folder: Path) -> None:
    fc.Engine(CHANGED, latency_bound="5ms", shedder="pspice", model=_model())


@MISTAKES
def model_of_another_schema(folder: Path) -> None:
    schema = fc.Schema({"Payment": {"card": "int64"}, "Refund": {"card": "int64"}}, type="kind", time_unit="ms")
    fc.Engine(fc.parse(TEXT, schema, name="refunds"), latency_bound="5ms", shedder="pspice", model=_model())


@MISTAKES
def model_for_one_of_two_queries(folder: Path) -> None:
    fc.Engine([QUERY, OTHER], latency_bound="5ms", shedder="pspice", model=_model())


@MISTAKES
def model_for_a_shedder_without_one(folder: Path) -> None:
    _engine(shedder="rs", model=_model())


@MISTAKES
def model_without_a_shedder(folder: Path) -> None:
    _engine(shedder=None, model=_model())


@MISTAKES
def model_without_a_bound(folder: Path) -> None:
    fc.Engine(QUERY, model=_model())


@MISTAKES
def model_as_a_text(folder: Path) -> None:
    _engine(shedder="pspice", model=5)


@MISTAKES
def list_of_no_models(folder: Path) -> None:
    _engine(shedder="pspice", model=[])


@MISTAKES
def model_saved_over_a_file(folder: Path) -> None:
    (folder / "model").write_text("notes")
    _model().save(folder / "model")


@MISTAKES
def model_saved_over_other_files(folder: Path) -> None:
    (folder / "notes.txt").write_text("notes")
    _model().save(folder)


@MISTAKES
def model_saved_into_a_missing_folder(folder: Path) -> None:
    _model().save(folder / "models" / "refunds")


@MISTAKES
def model_that_lacks_a_file(folder: Path) -> None:
    _model().save(folder / "model")
    sorted((folder / "model").glob("*.arrow"))[0].unlink()
    fc.load_model(folder / "model")


@MISTAKES
def model_that_was_edited(folder: Path) -> None:
    _model().save(folder / "model")
    manifest = folder / "model" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("pspice", "hybrid", 1))
    fc.load_model(folder / "model")


@MISTAKES
def model_with_a_manifest_of_something_else(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"name": "my app"}')
    fc.load_model(folder)


# ------------------------------------------------------------------------------------------------------ snapshots


@MISTAKES
def snapshot_as_a_path(folder: Path) -> None:
    fc.Engine.restore(folder / "snapshot.bin")  # type: ignore[arg-type]


@MISTAKES
def snapshot_as_a_text(folder: Path) -> None:
    fc.Engine.restore("snapshot.bin")  # type: ignore[arg-type]


@MISTAKES
def empty_snapshot(folder: Path) -> None:
    fc.Engine.restore(b"")


@MISTAKES
def snapshot_of_something_else(folder: Path) -> None:
    fc.Engine.restore(b"PK\x03\x04 this is a zip archive" * 10)


@MISTAKES
def snapshot_that_is_cut(folder: Path) -> None:
    fc.Engine.restore(_snapshot()[:-100])


@MISTAKES
def snapshot_that_was_changed(folder: Path) -> None:
    data = bytearray(_snapshot())
    data[len(data) // 2] ^= 1
    fc.Engine.restore(data)


@MISTAKES
def snapshot_with_a_changed_query(folder: Path) -> None:
    fc.Engine.restore(_snapshot(), CHANGED)


@MISTAKES
def snapshot_with_a_renamed_query(folder: Path) -> None:
    fc.Engine.restore(_snapshot(), fc.parse(TEXT, SCHEMA, name="returns"))


@MISTAKES
def snapshot_with_another_schema(folder: Path) -> None:
    schema = fc.Schema({"Payment": {"card": "int64"}, "Refund": {"number": "string"}}, type="kind")
    fc.Engine.restore(_snapshot(), fc.parse("PATTERN SEQ(Payment a) WITHIN 1h", schema), on_change="replace")


@MISTAKES
def snapshot_with_an_unknown_on_change(folder: Path) -> None:
    fc.Engine.restore(_snapshot(), QUERY, on_change="ignore")


@MISTAKES
def snapshot_with_no_queries(folder: Path) -> None:
    fc.Engine.restore(_snapshot(), [])


@MISTAKES
def snapshot_with_a_shedder_that_it_did_not_have(folder: Path) -> None:
    fc.Engine.restore(_snapshot(), shedder="rs")


@MISTAKES
def query_removed_that_does_not_exist(folder: Path) -> None:
    fc.Engine(QUERY).remove("refund")


@MISTAKES
def query_added_twice(folder: Path) -> None:
    fc.Engine(QUERY).add(QUERY)


@MISTAKES
def key_groups_of_a_query_without_a_key(folder: Path) -> None:
    fc.Engine(fc.parse("PATTERN SEQ(Payment a, Refund r) WITHIN 10s", SCHEMA)).extract(range(3))
