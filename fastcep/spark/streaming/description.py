"""The description of a streaming query in its checkpoint: what must not change when the query is started again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from fastcep.errors import SnapshotError, ValidationError
from fastcep.query import Document, document_text
from fastcep.spark.relevant_events import condition
from fastcep.spark.streaming.assignment import group_sql
from fastcep.spark.streaming.commit import Commit
from fastcep.spark.streaming.files import Files
from fastcep.spark.streaming.preparation import Prepared
from fastcep.spark.streaming.slice_engine import RESTORE_OPTIONS, StreamPlan
from fastcep.stored import COUNT, TEXT, Check, by_name, record

__all__ = ["Description"]

_NAME = "stream.json"
_FIELDS: Mapping[str, Check] = {"query": TEXT, "options": by_name(TEXT), "events": TEXT, "key": TEXT}
_CHECK, _CHECK_STATE = record({"stream": TEXT, **_FIELDS}), record({"slices": COUNT, **_FIELDS})


@dataclass(frozen=True)
class Description:
    """Query and options of a streaming query.

    Attributes
    ----------
    query
        Schema and query as text.
    options
        Options of the engines that snapshots include, as text by name; ``shedder`` is that with its model and detector.
    events, key
        Which events are sent to the slices, and by which key, as SQL.
    """

    query: str
    options: dict[str, str]
    events: str
    key: str

    @classmethod
    def of(cls, prepared: Prepared) -> Description:
        """Describe a query and the options of its engines."""
        stored = {name: repr(value) for name, value in prepared.options.items() if name not in RESTORE_OPTIONS}
        text = document_text(Document(prepared.query.schema, (prepared.query,)))
        key = "all" if prepared.key is None else group_sql(prepared.plan, prepared.key)
        where = "all" if prepared.numbered else condition(prepared.plan) or "all"
        return cls(text, stored | {"shedder": prepared.shedding}, where, key)

    def state(self, slices: int) -> str:
        """Return it with the number of slices, for the state of a slice."""
        return json.dumps({"slices": slices, **asdict(self)})

    @classmethod
    def of_state(cls, text: str) -> tuple[int, Description]:
        """Return the number of slices and the description of a `state`.

        Raises
        ------
        SnapshotError
            If another version of fastcep has written it.
        """
        values = json.loads(text)
        try:
            _CHECK_STATE(values, "")
        except ValueError as error:
            raise SnapshotError(
                f"the checkpoint is of another version of fastcep ({error}); start with a new one"
            ) from None
        return values.pop("slices"), cls(**values)

    def check(self, files: Files, latest: Commit | None, plan: StreamPlan) -> tuple[str, bool]:
        """Compare with the description in a checkpoint, or write it to a new one.

        Returns
        -------
        The identity of the stream, and whether the query replaces another one: then `write` must follow the first
        commit, as the state is that of the other query until then.

        Raises
        ------
        ValidationError
            If the checkpoint is of another query or of other options, or has other files.
        SnapshotError
            If the checkpoint is damaged, or the state does not fit the query.
        """
        try:
            stored = files.read_record(
                _NAME, _CHECK, "the description of a streaming query", "restore the checkpoint from a copy, or start "
                "with a new one"
            )
        except FileNotFoundError:
            names = files.names()
            if names:
                raise ValidationError(
                    f"checkpoint={files.folder!r} has other files, such as {names[0]!r}, expected a new or an empty "
                    "folder, or the checkpoint of this query"
                ) from None
            stream = uuid.uuid4().hex
            self.write(files, stream)
            return stream, False
        stream = str(stored.pop("stream"))
        if not self.is_changed(Description(**stored), f"checkpoint={files.folder!r}", plan.on_change):
            return stream, False
        if latest is not None and latest.units and latest.units[0].state:
            plan.restored_engine(files.read(latest.units[0].state))
        return stream, True

    def is_changed(self, stored: Description, checkpoint: str, on_change: str) -> bool:
        """Return whether this is another query than that of a checkpoint, which it replaces.

        Raises
        ------
        ValidationError
            If an option differs, or the query may not be or cannot be replaced; `checkpoint` begins the message.
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
        if stored.query != self.query and (stored.events, stored.key) != (self.events, self.key):
            same_events = stored.events == self.events
            what = "has another key" if same_events else "uses other types, or other conditions on one event"
            raise ValidationError(
                f"{checkpoint} is of a query that {what}: events that wait for the watermark are not where the new "
                "query needs them; use a new checkpoint"
            )
        return stored.query != self.query

    def write(self, files: Files, stream: str) -> None:
        """Write it to a checkpoint, with the identity of the stream."""
        files.write(_NAME, json.dumps({"stream": stream, **asdict(self)}, indent=1).encode())
