"""The description of a streaming query in its checkpoint: what must not change when the query is started again."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from fastcep.errors import ValidationError
from fastcep.query import Document, ast, document_text
from fastcep.spark.streaming.commit import Commit
from fastcep.spark.streaming.files import Files
from fastcep.spark.streaming.slice_engine import RESTORE_OPTIONS, StreamPlan
from fastcep.stored import TEXT, by_name, record

__all__ = ["Description"]

_NAME = "stream.json"
_CHECK = record({"stream": TEXT, "query": TEXT, "options": by_name(TEXT)})


@dataclass(frozen=True)
class Description:
    """Query and options of a streaming query.

    Attributes
    ----------
    query
        Schema and query as text.
    options
        Options of the engines that snapshots include, as text by name.
    """

    query: str
    options: dict[str, str]

    @classmethod
    def of(cls, query: ast.Query, options: dict[str, Any]) -> Description:
        """Describe a query and the options of its engines."""
        stored = {name: repr(value) for name, value in options.items() if name not in RESTORE_OPTIONS}
        return cls(document_text(Document(query.schema, (query,))), stored)

    def check(self, files: Files, latest: Commit | None, plan: StreamPlan) -> str:
        """Compare with the description in a checkpoint, or write it there; return the identity of the stream.

        Raises
        ------
        ValidationError
            If the checkpoint is of another query or of other options, or has other files.
        SnapshotError
            If the checkpoint is damaged, or the state does not fit the query.
        """
        try:
            stored = files.read_record(
                _NAME, _CHECK, "the description of a streaming query", "restore the checkpoint from a copy"
            )
        except FileNotFoundError:
            names = files.names()
            if names:
                raise ValidationError(
                    f"checkpoint={files.folder!r} has other files, such as {names[0]!r}, expected a new or an empty "
                    "folder, or the checkpoint of this query"
                ) from None
            return self._write(files, uuid.uuid4().hex)
        if self.is_changed(
            Description(stored["query"], stored["options"]), f"checkpoint={files.folder!r}", plan.on_change
        ):
            if latest is not None and latest.units[0].state:
                plan.restored_engine(files.read(latest.units[0].state))
            return self._write(files, stored["stream"])
        return str(stored["stream"])

    def is_changed(self, stored: Description, checkpoint: str, on_change: str) -> bool:
        """Return whether this is another query than that of a checkpoint, which it replaces.

        Raises
        ------
        ValidationError
            If an option differs, or the query may not be replaced; `checkpoint` begins the message.
        """
        if stored.options != self.options:
            names = sorted(stored.options.keys() | self.options.keys())
            name = next(name for name in names if stored.options.get(name) != self.options.get(name))
            raise ValidationError(
                f"{checkpoint} is of a query with {name}={stored.options.get(name, 'the default')}, "
                f"found {self.options.get(name, 'the default')}; use the same option, or a new checkpoint"
            )
        if stored.query != self.query and on_change == "error":
            pairs = zip(stored.query.splitlines(), self.query.splitlines(), strict=False)
            old, new = next(((old, new) for old, new in pairs if old != new), (stored.query, self.query))
            raise ValidationError(
                f"{checkpoint} is of another query: found {new!r}, expected {old!r}; pass on_change='replace' to start "
                "the query without state, or use a new checkpoint"
            )
        return stored.query != self.query

    def _write(self, files: Files, stream: str) -> str:
        document = {"stream": stream, "query": self.query, "options": self.options}
        files.write(_NAME, json.dumps(document, indent=1).encode())
        return stream
