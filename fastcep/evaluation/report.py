"""Report of an evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.extras import load
from fastcep.io.write.target import write_text

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Report"]

_TEXT_WIDTH = 80
_TEXT, _REAL, _COUNT, _FLAG = pa.string(), pa.float64(), pa.int64(), pa.bool_()
_COLUMNS: dict[str, pa.DataType] = {
    "shedder": _TEXT, "target": _TEXT, "bound": _REAL, "rate": _REAL, "demand": _REAL, "seed": pa.uint64(),
    "recall": _REAL, "precision": _REAL, "mean_latency": _REAL, "p95_latency": _REAL, "p99_latency": _REAL,
    "mean_latency_while_shedding": _REAL, "share_over_bound": _REAL, "throughput": _REAL, "shed_events": _COUNT,
    "shed_matches": _COUNT,
    "shed_event_ratio": _REAL, "shed_match_ratio": _REAL, "overhead": _REAL, "estimated_recall": _REAL,
    "held": _FLAG, "fired": _FLAG, "counts": _FLAG, "why": _TEXT,
}  # fmt: skip


class Report:
    """Result of an evaluation.

    Parameters
    ----------
    document
        The complete report as JSON values; see docs/evaluation.md.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document: dict[str, Any] = dict(document)

    def __repr__(self) -> str:
        excluded = len(self._excluded())
        names = ", ".join(repr(item["name"]) for item in self.document["setting"]["strategies"])
        return f"Report({names}: {len(self.rows)} rows" + (f", {excluded} of which do not count)" if excluded else ")")

    def __str__(self) -> str:
        """Return the table as text, in lines of 80 characters."""
        from rich.console import Console

        console = Console(width=_TEXT_WIDTH, color_system=None, force_terminal=False)
        with console.capture() as capture:
            console.print(self.table(_TEXT_WIDTH))
        return capture.get().rstrip("\n")

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows by target, strategy and seed, in this order."""
        rows: list[dict[str, Any]] = self.document["rows"]
        return rows

    def check(self) -> Report:
        """Return the report if every row counts.

        Raises
        ------
        ValidationError
            If rows do not count; the message lists them with the reasons and remedies.
        """
        excluded = self._excluded()
        if not excluded:
            return self
        lines = [f"{row['shedder']} at {row['target']}, seed {row['seed']}: {row['why']}" for row in excluded]
        remedies = []
        if any(not row["fired"] and row["held"] is not False for row in excluded):
            remedies.append("where nothing was shed, give a tighter bound, a higher rate or more events")
        if any(row["held"] is False for row in excluded):
            remedies.append("where the bound was not held, give a larger bound, a lower rate or more events")
        raise ValidationError(
            f"{len(excluded)} of {len(self.rows)} rows do not count:\n  " + "\n  ".join(lines) + "\n"
            + "; ".join(remedies)
        )  # fmt: skip

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return the document as one line of JSON, and write it to a file if a path is given.

        On the virtual clock, the same evaluation gives the same bytes.
        """
        text = json.dumps(self.document, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
        if path is not None:
            write_text(path, text)
        return text

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table, without the spread of repeated runs."""
        rows = [{name: row.get(name) for name in _COLUMNS} for row in self.rows]
        return pa.Table.from_pylist(rows, pa.schema(_COLUMNS))

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame of `to_arrow`; `ValidationError` if pandas is not installed."""
        load("pandas", "Report.to_pandas()", None)
        return self.to_arrow().to_pandas()

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write a self-contained HTML page with tables and plots; it needs no network."""
        from fastcep.report.evaluation import save_html

        save_html(self.document, Path(path))

    def table(self, width: int | None = None) -> Table:
        """Return means over the seeds as a table for the terminal (rich), with the columns that fit in ``width``."""
        from fastcep.report.evaluation import evaluation_table

        return evaluation_table(self.document, width)

    def _excluded(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if not row["counts"]]
