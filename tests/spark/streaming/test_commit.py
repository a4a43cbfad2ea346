"""Records of batches: read as they were written, refused if damaged, and removed when nothing needs them."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest

from fastcep.errors import SnapshotError
from fastcep.spark.streaming.assignment import Unit
from fastcep.spark.streaming.commit import Commit, Commits, OutputFile
from fastcep.spark.streaming.files import Files

pytestmark = pytest.mark.spark


def commit_of(batch: int, state: str = "") -> Commit:
    state = state or f"batches/{batch}/state-0.fcs"
    shedding = {"events": 1, "partial_matches": 2, "latency": 5.0, "recall": None}
    output = OutputFile(f"batches/{batch}/rows-0.parquet", 2, 50)
    return Commit(batch, 10 * batch, 1, (Unit(tuple(range(64)), state),), (100,), (3,), (shedding,), (output,))


UNIT = {"groups": [0], "state": "", "bytes": 0, "partial_matches": 0, "shedding": None}


def test_written_commits_are_read(tmp_path: Path) -> None:
    commits = Commits(Files(str(tmp_path)))
    assert commits.latest() is None and commits.before(0) is None
    for batch in range(12):
        commits.write(commit_of(batch))
    again = Commits(Files(str(tmp_path)))
    assert again.latest() == commit_of(11) and again.before(10) == commit_of(9) and again.read(12) is None
    assert again.read(3) == replace(commit_of(3))
    with pytest.raises(SnapshotError, match="Spark is at batch 14, but there is no commit of batch 13"):
        again.before(14)


def test_folders_that_a_commit_needs_stay(tmp_path: Path) -> None:
    """Batches without events keep the files of an earlier one."""
    commits = Commits(Files(str(tmp_path)))
    for batch in range(4):
        commits.write(commit_of(batch))
    quiet = [commit_of(batch, "batches/1/state-0.fcs") for batch in (4, 5)]
    for commit in quiet:
        commits.write(commit)
    (tmp_path / "batches" / "6").mkdir()  # of a batch that was not committed
    commits.clean(*quiet)
    assert sorted(path.name for path in (tmp_path / "batches").iterdir()) == ["1", "4", "5", "6"]


def test_a_late_attempt_writes_to_a_folder_that_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The streaming query goes on, and a later batch removes the folder; other errors are raised."""
    commits = Commits(Files(str(tmp_path)))
    for batch in range(3):
        commits.write(commit_of(batch))
    for number in (errno.ENOTEMPTY, errno.ENOENT, errno.EACCES):

        def failing(files: Files, name: str, number: int = number) -> None:
            raise OSError(number, name)

        with monkeypatch.context() as patch:
            patch.setattr(Files, "remove_folder", failing)
            if number == errno.EACCES:
                with pytest.raises(PermissionError, match="batches/0"):
                    commits.clean(commit_of(1), commit_of(2))
            else:
                commits.clean(commit_of(1), commit_of(2))
    commits.clean(commit_of(1), commit_of(2))
    assert sorted(path.name for path in (tmp_path / "batches").iterdir()) == ["1", "2"]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("version", 1, "version: found 1"),
        ("batch", -1, "batch: found -1"),
        ("units", [UNIT | {"groups": [64]}], r"groups\[0\]: found 64"),
        ("units", [UNIT | {"state": "../x"}], r"state: found '../x'"),
        ("units", [UNIT | {"shedding": {"events": -1}}], r"shedding"),
        ("outputs", [{"file": "rows", "rows": 0, "bytes": 0}], r"file: found 'rows'"),
        ("watermark", "now", "watermark: found 'now'"),
        ("more", 1, "'more'"),
    ],
)
def test_damaged_records(tmp_path: Path, field: str, value: object, message: str) -> None:
    commits = Commits(Files(str(tmp_path)))
    commits.write(commit_of(0))
    path = tmp_path / "batches" / "0" / "commit.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(SnapshotError, match=f"is not the record of a batch .*{message}.* restore the checkpoint"):
        Commits(Files(str(tmp_path))).latest()
