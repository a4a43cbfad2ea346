"""Take and restore snapshots of an engine, and move its key groups; all checks come before any change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from xxhash import xxh3_128_hexdigest

from fastcep.engine.queries import warn_unbounded
from fastcep.engine.running_query import RunningQuery
from fastcep.engine.state.keygroups import GROUPS, check_groups
from fastcep.engine.state.partial_matches import SCHEMA, partial_matches_of
from fastcep.engine.state.snapshot import (
    EngineParts,
    extract_groups,
    merge_groups,
    plan_layout,
    restore_state,
    write_snapshot,
)
from fastcep.engine.stored_engine import (
    StoredState,
    called_functions,
    check_functions,
    check_queries,
    read_snapshot,
    report_misfits,
)  # fmt: skip
from fastcep.engine.stream import Stream
from fastcep.errors import SnapshotError, ValidationError
from fastcep.events.units import INT64_MIN, format_time
from fastcep.overload.renewal import RenewingShedder
from fastcep.plan.plan import KeyPlan, Plan
from fastcep.query import Document, ast, document_text

__all__ = ["CutState", "StateTransfer"]

_ALL = frozenset(range(GROUPS))


class CutState(NamedTuple):
    """The state of an engine at one event.

    Attributes
    ----------
    snapshot
        Snapshot of the whole engine.
    queries
        The queries, in their order in the snapshot.
    partial_matches
        Table of the partial matches of each query, in the order of its indexes and of their rows; None for the
        factorised store.
    """

    snapshot: bytes
    queries: tuple[RunningQuery, ...]
    partial_matches: list[pa.Table | None]


#: Options in which engines that exchange key groups must agree; limits may differ.
_SHARED_OPTIONS = ("attributes", "allowed_lateness", "timed_out", "index")


class StateTransfer:
    """Stores, restores, and moves the state of a stream by key groups.

    Parameters
    ----------
    stream
        The stream.
    options
        The options of its engine; a snapshot includes them.
    """

    def __init__(self, stream: Stream, options: dict[str, Any]) -> None:
        self._stream, self._options = stream, options
        self._was_ended = False
        #: The queries, and the part of a header that describes them; it does not change as long as they do not.
        self._cached_description: tuple[tuple[RunningQuery, ...], dict[str, Any]] | None = None

    @property
    def groups(self) -> tuple[int, ...]:
        """The key groups of the engine, in ascending order."""
        return tuple(sorted(self._owned_groups))

    @property
    def _owned_groups(self) -> frozenset[int]:
        owned = self._stream.queries.owned
        return _ALL if owned is None else owned

    def snapshot(self, groups: Iterable[int] | None = None) -> bytes:
        """Return the state, or that of some key groups; see `Engine.snapshot`."""
        with self._stream.exclusive():
            self._stream.check_given()
            checked = None if groups is None else self._check_owned(groups)
            if checked is not None:
                self._stream.wake()
            return write_snapshot(self.parts(), checked)

    def partial_matches(self) -> pa.Table:
        """Return a table of the live partial matches; see `Engine.partial_matches`."""
        with self._stream.exclusive():
            tables = list(self._partial_matches(self._stream.queries))
        return pa.concat_tables(tables) if tables else SCHEMA.empty_table()

    def _partial_matches(self, running: Iterable[RunningQuery]) -> Iterator[pa.Table]:
        """Yield the table of the partial matches of each query."""
        queries, loop = self._stream.queries, self._stream.loop
        utilities = {} if queries.control is None else queries.control.utilities()
        place = loop.position - 1, loop.time or 0
        for item in running:
            yield partial_matches_of(item, self._stream.strings, place, utilities.get(item.query.name))

    def cut(self) -> CutState:
        """Return the state and what is needed to divide it; an overload control that sleeps wakes up."""
        with self._stream.exclusive():
            self._stream.check_given()
            self._stream.wake()
            running = tuple(self._stream.queries)
            snapshot = write_snapshot(self.parts(), None)
            rows = [item for item in running if not item.plan.kept]
            tables = dict(zip([item.name for item in rows], self._partial_matches(rows), strict=True))
            return CutState(snapshot, running, [tables.get(item.name) for item in running])

    @property
    def received(self) -> int:
        """Number of events that the engine has received, including those that it holds back."""
        stream = self._stream
        return stream.loop.position if stream.reorder is None else stream.reorder.arrived

    def suspend(self, reason: str) -> None:
        """Refuse all calls that read or change the state with this reason; ``""``: accept them again."""
        stream = self._stream
        if bool(reason) == bool(stream.suspended):
            return
        if reason:
            with stream.exclusive(ended=True):
                self._was_ended, stream.loop.ended = stream.loop.ended, True  # no event enters without `exclusive`
                stream.suspended = reason
        else:
            stream.suspended, stream.loop.ended = "", self._was_ended

    def extract(self, groups: Iterable[int]) -> bytes:
        """Remove the state of key groups and return it; see `Engine.extract`."""
        with self._stream.exclusive():
            self._stream.check_given()
            extracted = self._check_owned(groups)
            self._stream.wake()
            data, matchers = extract_groups(self.parts(), extracted)
            self._stream.queries.exchange(matchers, self._owned_groups.difference(extracted))
            self._stream.configure()
            return data

    def merge(self, snapshot: bytes | bytearray | memoryview) -> None:
        """Add the key groups of a snapshot; see `Engine.merge`."""
        stored = read_snapshot(snapshot)
        header, tables = stored.header, stored.tables
        with self._stream.exclusive():
            self._stream.check_given()
            self._stream.wake()
            engine = self.parts()
            self._check_same(header)
            groups = header["groups"]
            if groups is None:
                raise SnapshotError("the snapshot is of a whole engine; restore it, or extract key groups of it first")
            common = sorted(self._owned_groups.intersection(groups))
            if common:
                raise SnapshotError(
                    f"the engine already has key groups {_list_groups(common)} of the snapshot; extract them first"
                )
            self._check_progress(header)
            self._stream.memory.share_out(self._stream.queries, self._stream.shared_bytes())
            try:
                with report_misfits():
                    matchers = merge_groups(engine, header, tables)
            except Exception:
                self._stream.forget_strings()  # those of the snapshot
                raise
            owned = self._owned_groups.union(groups)
            self._stream.queries.exchange(matchers, None if len(owned) == GROUPS else owned)
            self._stream.configure()

    def prepare(self, header: dict[str, Any], replaces: bool = False) -> None:
        """Plan the queries of a new stream as in the engine of a snapshot with this header, and check that they fit.

        ``replaces``: functions may have other signatures, because the queries that call them are replaced afterwards.

        Raises
        ------
        SnapshotError
            They do not; the engine cannot be used.
        """
        stream = self._stream
        self._resume_renewal(header.get("control"))
        self._resume_sleep(header.get("control"))
        with report_misfits():
            stream.queries.settle(header.get("stores", ["rows"] * len(stream.queries)), 0)
        self._check_same(header, replaces)
        if header["groups"] is None or "control" in header:
            with report_misfits():
                self._check_control(header.get("control"))

    def resume(self, stored: StoredState) -> None:
        """Load a snapshot into a new stream, after `prepare`; see `Engine.restore`."""
        header, stream = stored.header, self._stream
        loop = stream.loop
        loop.position, loop.time, loop.sequence = (header[name] for name in ("position", "time", "sequence"))
        groups = header["groups"]
        stream.queries.owned = None if groups is None else frozenset(groups)
        stream.memory.share_out(stream.queries, stream.shared_bytes())
        with report_misfits():
            restore_state(self.parts(), header, stored.tables)
        if groups is None or "control" in header:  # a snapshot of key groups has no control: it starts without history
            control = stream.queries.control
            with report_misfits():
                if control is not None and header.get("control") is not None:
                    control.restore(header["control"])
        if not stream.may_sleep():
            stream.wake()
        stream.configure()

    def _resume_renewal(self, stored: Any) -> None:
        """Let a shedder that changes while the engine runs take its stored classes, before any state is loaded."""
        control = self._stream.queries.control
        if control is None or not isinstance(control.shedder, RenewingShedder) or not isinstance(stored, dict):
            return
        with report_misfits():
            if stored["specs"] == control.specs():
                control.shedder.restore(stored["shedder"])
                self._stream.replan()

    def _resume_sleep(self, stored: Any) -> None:
        """Plan the queries as in the engine of the snapshot, whose overload control slept or did not."""
        control = self._stream.queries.control
        if control is None:
            return
        with report_misfits():
            slept = False
            if stored is not None:  # otherwise it is of key groups
                control.check_clock(stored)
                slept = stored.get("sleep", {"asleep": False})["asleep"] is True  # older snapshots lack it
            if control.can_sleep and control.sleep.asleep != slept:
                self._stream.switch(slept)

    def _check_control(self, stored: dict[str, Any] | None) -> None:
        """Check that a snapshot has the state of this engine's overload control."""
        control = self._stream.queries.control
        stored_specs = None if stored is None else stored["specs"]
        specs = None if control is None else control.specs()
        if specs != stored_specs:
            raise SnapshotError(
                f"the snapshot is of an engine that sheds load by {stored_specs}, this one by {specs}: restore it with "
                "the original shedder=… and detector=…"
            )

    # ----------------------------------------------------------------------- checks

    def parts(self) -> EngineParts:
        """Return the parts of the engine that a snapshot reads and restores."""
        stream, loop = self._stream, self._stream.loop
        if not len(stream.queries):
            raise ValidationError("the engine has no query, so it has no state; add one")
        progress = {"position": loop.position, "time": loop.time, "sequence": loop.sequence}
        return EngineParts(stream.schema, stream.queries, stream.strings, stream.reorder, progress, self._description())

    def _description(self) -> dict[str, Any]:
        """Return the fields of a header that describe the engine."""
        running = self._stream.queries.running
        if self._cached_description is None or self._cached_description[0] is not running:
            text = document_text(Document(self._stream.schema, tuple(item.query for item in running)))
            plans = [item.plan for item in running]
            identity = xxh3_128_hexdigest(plan_layout(plans).encode())
            stores = [plan.store for plan in plans]
            control = self._stream.queries.control
            classes = [[] for _ in plans] if control is None else control.classes()
            called = called_functions(item.query for item in running)
            classes = [of_query if _has_classes(plan) else None for of_query, plan in zip(classes, plans, strict=True)]
            self._cached_description = running, {
                "text": text, "options": self._options, "stores": stores, "identity": identity, "classes": classes,
            } | ({"functions": called} if called else {})  # fmt: skip
        return self._cached_description[1]

    def _check_owned(self, groups: Iterable[int]) -> tuple[int, ...]:
        """Check that the engine has these groups, and that its state can be divided by key; return them sorted."""
        checked = check_groups(groups)
        if not self._owned_groups.issuperset(checked):
            missing = sorted(set(checked) - self._owned_groups)
            raise ValidationError(
                f"key groups {_list_groups(missing)} are not here; the engine has {_list_groups(self.groups)}"
            )
        for item in self._stream.queries:
            self._check_keyed(item)
        return checked

    def prepared(self, query: ast.Query) -> RunningQuery:
        """Prepare a query to run beside the others."""
        new = self._stream.queries.prepare(query, self._stream.loop.position)
        if self._stream.queries.owned is not None:
            self._check_keyed(new)
        return new

    def change_queries(self, queries: Sequence[ast.Query], changed: Collection[str]) -> None:
        """Run these queries from now on; all except the ``changed`` ones run already and keep their state."""
        with self._stream.exclusive():
            running = {item.query.name: item for item in self._stream.queries}
            new = []
            for query in queries:
                if query.name in changed:
                    warn_unbounded(query)
                new.append(self.prepared(query) if query.name in changed else running[query.name])
            if new != list(running.values()):
                self._stream.run(new)

    def _check_keyed(self, item: RunningQuery) -> None:
        if not isinstance(item.plan.key, KeyPlan):
            raise ValidationError(
                f"the state of query {item.name!r} cannot be divided into key groups: {item.plan.key}. All variables "
                "of the query must agree in an attribute: WHERE [attribute]"
            )

    def _check_same(self, header: dict[str, Any], replaces: bool = False) -> None:
        """Check that a snapshot has the queries of this engine, and the options on which its state depends."""
        description, stored_options = self._description(), header["options"]
        for name in _SHARED_OPTIONS:
            option = description["options"][name]
            stored_option = stored_options.get(name, option)
            if stored_option != option:
                raise SnapshotError(
                    f"the snapshot is of an engine with {name}={stored_option!r}, expected {option!r} as in this one"
                )
        if header["text"] != description["text"]:
            check_queries(header["text"], [item.query for item in self._stream.queries])
        changed = check_functions(header, description.get("functions", {}), replaces)
        self._check_classes(description["classes"], header.get("classes", description["classes"]))
        stored_stores = header.get("stores", ["rows"] * len(description["stores"]))
        for item, store, stored_store in zip(self._stream.queries, description["stores"], stored_stores, strict=True):
            if store != stored_store:
                raise SnapshotError(
                    f"the snapshot has query {item.name!r} in the store {stored_store!r}, the engine in {store!r}: "
                    "store='auto' chooses by the events that an engine has seen; create engines that exchange key "
                    f"groups with store={store!r}"
                )
        if header["identity"] != description["identity"]:
            if changed:
                raise SnapshotError(
                    f"{changed}, and a query joins by it; register it as it was, restore the snapshot without queries, "
                    "and remove the queries that call it"
                )
            raise SnapshotError(
                "the snapshot was taken by a fastcep that plans these queries differently; finish the stream with that "
                "version, or start it again"
            )

    @staticmethod
    def _check_classes(classes: list[Any], stored_classes: list[Any]) -> None:
        """Check that the shedders of engine and snapshot have the same classes of partial matches."""
        equal = [of_query or [] for of_query in classes] == [of_query or [] for of_query in stored_classes]
        if not equal:
            difference = "whose shedder distinguishes partial matches differently"
        elif classes != stored_classes:
            difference = "with a shedder and this one has none, or the reverse"
        else:
            return
        raise SnapshotError(f"the snapshot is of an engine {difference}: use the original shedder=… and detector=…")

    def _check_progress(self, header: dict[str, Any]) -> None:
        """Check that snapshot and engine have reached the same event of the stream."""
        loop = self._stream.loop
        for name, value in (("position", loop.position), ("sequence", loop.sequence), ("time", loop.time)):
            stored_value = header[name]
            if stored_value != value:
                is_time = name == "time"
                stored_text, text = (_time_text(at) if is_time else at for at in (stored_value, value))
                raise SnapshotError(
                    f"the snapshot is at {name} {stored_text}, the engine at {text}: both must have reached the same "
                    "event of the same stream; an engine counts and ignores the events of groups that it does not have"
                )
        stored_order = header.get("order")
        if self._stream.reorder is None or stored_order is None:
            return
        order = self._stream.reorder.parts()[0]
        if stored_order["watermark"] != order["watermark"]:
            raise SnapshotError(
                f"the snapshot has the watermark {_time_text(stored_order['watermark'])}, the engine "
                f"{_time_text(order['watermark'])}: both must have received the same events"
            )
        if stored_order["arrived"] != order["arrived"]:  # the events that are held back may differ
            raise SnapshotError(
                f"{stored_order['arrived']:,} events have arrived at the engine of the snapshot, "
                f"{order['arrived']:,} at this one: both must have received the same events"
            )


def _has_classes(plan: Plan) -> bool:
    """Return True if rows have a word for their class and weight."""
    return any(state.features or (plan.weighed and state.indexes) for state in plan.states)


def _time_text(time: int | None) -> str:
    return "no time yet" if time is None or time == INT64_MIN else format_time(time)


def _list_groups(groups: Iterable[int]) -> str:
    """List the numbers of groups, for a message."""
    numbers = [str(group) for group in groups]
    return ", ".join(numbers) if len(numbers) <= 8 else f"{', '.join(numbers[:7])} and {len(numbers) - 7} more"
