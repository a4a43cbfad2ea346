"""The calls by which an engine's state leaves it and comes back: what is checked before anything is done."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from xxhash import xxh3_128_hexdigest

from fastcep.engine.queries import built_queries
from fastcep.engine.running_query import RunningQuery
from fastcep.engine.state.container import unpack
from fastcep.engine.state.header import check_header
from fastcep.engine.state.keygroups import GROUPS, check_groups
from fastcep.engine.state.snapshot import EngineParts, extracted, layout, merged, put, snapshot
from fastcep.engine.stream import Stream
from fastcep.errors import FastcepError, SnapshotError, ValidationError
from fastcep.events.units import INT64_MIN, format_time
from fastcep.plan.plan import KeyPlan, Plan
from fastcep.query import Document, ast, document_text, parse_document
from fastcep.stored import Misfit

__all__ = ["StateTransfer", "StoredState", "make_like", "read_snapshot"]

Made = TypeVar("Made")


_ALL = frozenset(range(GROUPS))
_MEND = "Its checksums are right, so it was written like that; take the snapshot again, or use an older one"
#: Options in which engines that exchange key groups must agree; limits may differ.
_ALIKE = ("attributes", "allowed_lateness", "timed_out", "index")


class StateTransfer:
    """Stores, restores, and moves the state of a stream by key groups.

    Parameters
    ----------
    stream
        The stream.
    options
        The options of its engine, for one that is restored.
    """

    def __init__(self, stream: Stream, options: dict[str, Any]) -> None:
        self._stream, self._options = stream, options
        #: Queries, and the part of a header that describes them: it is the same until they change.
        self._described: tuple[tuple[RunningQuery, ...], dict[str, Any]] | None = None

    @property
    def groups(self) -> tuple[int, ...]:
        """The key groups whose events are taken."""
        return tuple(sorted(self._owns))

    @property
    def _owns(self) -> frozenset[int]:
        owned = self._stream.queries.owned
        return _ALL if owned is None else owned

    def snapshot(self, groups: Iterable[int] | None = None) -> bytes:
        """Return the state, or that of some key groups; see `Engine.snapshot`."""
        with self._stream.exclusive():
            self._stream.check_given()
            return snapshot(self.parts(), None if groups is None else self._owned(groups))

    def extract(self, groups: Iterable[int]) -> bytes:
        """Return the state of key groups, and give them up; see `Engine.extract`."""
        with self._stream.exclusive():
            self._stream.check_given()
            chosen = self._owned(groups)
            data, rest = extracted(self.parts(), chosen)
            self._stream.queries.exchange(rest, self._owns.difference(chosen))
            self._stream.configure()
            return data

    def merge(self, snapshot: bytes | bytearray | memoryview) -> None:
        """Take over the key groups of a snapshot; see `Engine.merge`."""
        stored = read_snapshot(snapshot)
        header, tables = stored.header, stored.tables
        with self._stream.exclusive():
            self._stream.check_given()
            here = self.parts()
            self.check_same(header)
            groups = header["groups"]
            if groups is None:
                raise SnapshotError("the snapshot is of a whole engine; restore it, or extract key groups of it first")
            own = sorted(self._owns.intersection(groups))
            if own:
                raise SnapshotError(f"the engine has key groups {_some(own)} of the snapshot; extract them first")
            self._check_place(header)
            self._stream.memory.share_out(self._stream.queries, self._stream.shared_bytes())
            try:
                with _understood():
                    matchers = merged(here, header, tables)
            except Exception:
                self._stream.forget_strings()  # those of the snapshot
                raise
            owned = self._owns.union(groups)
            self._stream.queries.exchange(matchers, None if len(owned) == GROUPS else owned)
            self._stream.configure()

    def resume(self, stored: StoredState) -> None:
        """Let a new stream, of queries without state, go on where a snapshot was taken; see `Engine.restore`."""
        header, stream = stored.header, self._stream
        with _understood():
            stream.queries.settle(header.get("stores", ["rows"] * len(stream.queries)), 0)
        self.check_same(header)
        loop = stream.loop
        loop.position, loop.time, loop.sequence = (header[name] for name in ("position", "time", "sequence"))
        groups = header["groups"]
        stream.queries.owned = None if groups is None else frozenset(groups)
        stream.memory.share_out(stream.queries, stream.shared_bytes())
        with _understood():
            put(self.parts(), header, stored.tables)
        if groups is None or "control" in header:  # key groups leave the control behind; it begins anew
            with _understood():
                self.resume_control(header.get("control"))
        stream.configure()

    def resume_control(self, stored: dict[str, Any] | None) -> None:
        """Go on as the overload control of a snapshot."""
        control = self._stream.queries.control
        here, there = None if control is None else control.specs(), None if stored is None else stored["specs"]
        if here != there:
            raise SnapshotError(
                f"the snapshot is of an engine that sheds load by {there}, this one by {here}: restore it with "
                "shedder=… and detector=… as they were"
            )
        if control is not None and stored is not None:
            control.restore(stored)

    # ----------------------------------------------------------------------- checks

    def parts(self) -> EngineParts:
        """Return what a snapshot is made from, and put back into."""
        stream, loop = self._stream, self._stream.loop
        if not len(stream.queries):
            raise ValidationError("the engine has no query, so there is no state to be stored; add one")
        stands = {"position": loop.position, "time": loop.time, "sequence": loop.sequence}
        return EngineParts(stream.schema, stream.queries, stream.strings, stream.reorder, stands, self._about())

    def _about(self) -> dict[str, Any]:
        """What the engine is, for a header."""
        running = self._stream.queries.running
        if self._described is None or self._described[0] is not running:
            text = document_text(Document(self._stream.schema, tuple(item.query for item in running)))
            plans = [item.plan for item in running]
            identity = xxh3_128_hexdigest(layout(plans).encode())
            stores = [plan.store for plan in plans]
            control = self._stream.queries.control
            classes = [[] for _ in plans] if control is None else control.classes()
            classes = [own if _has_classes(plan) else None for own, plan in zip(classes, plans, strict=True)]
            self._described = running, {
                "text": text, "options": self._options, "stores": stores, "identity": identity, "classes": classes,
            }  # fmt: skip
        return self._described[1]

    def _owned(self, groups: Iterable[int]) -> tuple[int, ...]:
        """Check that these groups are here, and can be cut out."""
        chosen = check_groups(groups)
        if not self._owns.issuperset(chosen):
            missing = sorted(set(chosen) - self._owns)
            raise ValidationError(f"key groups {_some(missing)} are not here; the engine has {_some(self.groups)}")
        for item in self._stream.queries:
            self._check_keyed(item)
        return chosen

    def prepared(self, query: ast.Query) -> RunningQuery:
        """Make a query ready to run beside the others."""
        new = self._stream.queries.prepare(query, self._stream.loop.position)
        if self._stream.queries.owned is not None:
            self._check_keyed(new)
        return new

    def _check_keyed(self, item: RunningQuery) -> None:
        if not isinstance(item.plan.key, KeyPlan):
            raise ValidationError(
                f"the state of query {item.name!r} cannot be cut into key groups: {item.plan.key}. Only a query whose "
                "variables all agree in an attribute can: WHERE [attribute]"
            )

    def check_same(self, header: dict[str, Any]) -> None:
        """Refuse a snapshot of other queries, or of an engine that takes its events or windows otherwise."""
        about, theirs = self._about(), header["options"]
        for name in _ALIKE:
            own = about["options"][name]
            if theirs.get(name, own) != own:
                found = theirs[name]
                raise SnapshotError(f"the snapshot is of an engine with {name}={found!r}, expected {own!r} as here")
        if header["text"] != about["text"]:
            _check_queries(header["text"], [item.query for item in self._stream.queries])
        here, there = about["classes"], header.get("classes", about["classes"])
        alike = [own or [] for own in here] == [own or [] for own in there]
        for what, same in (
            ("whose shedder tells partial matches apart in another way", alike),
            ("with a shedder and this one has none, or the reverse", here == there),
        ):
            if not same:
                raise SnapshotError(
                    f"the snapshot is of an engine {what}: give both shedder=… and detector=… as they were"
                )
        stores = header.get("stores", ["rows"] * len(about["stores"]))
        for item, own, found in zip(self._stream.queries, about["stores"], stores, strict=True):
            if own != found:
                raise SnapshotError(
                    f"the snapshot has query {item.name!r} in the store {found!r}, the engine in {own!r}: store='auto' "
                    f"chooses by what an engine has seen; make engines that exchange key groups with store={own!r}"
                )
        if header["identity"] != about["identity"]:
            raise SnapshotError(
                "the snapshot was taken by a fastcep that plans these queries in another way; finish the stream with "
                "that version, or begin it again"
            )

    def _check_place(self, header: dict[str, Any]) -> None:
        """Refuse a snapshot that stands elsewhere in the stream."""
        loop = self._stream.loop
        for name, own in (("position", loop.position), ("sequence", loop.sequence), ("time", loop.time)):
            found = header[name]
            if found != own:
                shown = (found, own) if name != "time" else tuple(_moment(at) for at in (found, own))
                raise SnapshotError(
                    f"the snapshot stands at {name} {shown[0]}, the engine at {shown[1]}: they must have come to the "
                    "same event of the same stream; an engine takes events of groups that it has not, and ignores them"
                )
        order = header.get("order")
        if self._stream.reorder is None or order is None:
            return
        own_order = self._stream.reorder.parts()[0]
        if order["watermark"] != own_order["watermark"]:
            raise SnapshotError(
                f"the snapshot has the watermark {_moment(order['watermark'])}, the engine "
                f"{_moment(own_order['watermark'])}: they must have taken the same events"
            )
        if order["arrived"] != own_order["arrived"]:  # what is held back may differ
            raise SnapshotError(
                f"{order['arrived']:,} events have come to the engine of the snapshot, {own_order['arrived']:,} to "
                "this one: they must have taken the same events"
            )


@lru_cache(maxsize=64)
def _document(text: str) -> Document:
    """Parse the text of a snapshot: many may have the same, and nobody changes a query."""
    try:
        return parse_document(text, "snapshot")
    except FastcepError as error:
        raise SnapshotError(f"no engine for the snapshot can be made here: {error}") from error


class StoredState(NamedTuple):
    """An unpacked snapshot: its header, and its tables by name."""

    header: dict[str, Any]
    tables: Any


def read_snapshot(snapshot: bytes | bytearray | memoryview) -> StoredState:
    """Unpack a snapshot of an engine, and check its header.

    Raises
    ------
    SnapshotError
        The snapshot is damaged, of another version, or not of an engine.
    """
    header, tables = unpack(snapshot)
    with _understood():
        check_header(header)
    return StoredState(header, tables)


def make_like(make: Callable[..., Made], header: dict[str, Any], queries: Any, own: dict[str, Any]) -> Made:
    """Make an engine with the queries and options of a snapshot, but for its ``own`` options; it has no state.

    Raises
    ------
    SnapshotError
        ``queries`` are given and are not those of the snapshot, or no engine can be made of them here.
    """
    options = header["options"]
    try:
        if queries is None:
            built = _document(header["text"]).queries
        else:
            built = tuple(built_queries(queries, options["attributes"]))
            _check_queries(header["text"], built)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its user has been warned
            with _understood():
                return make(list(built), **{**options, **own})
    except SnapshotError:
        raise
    except FastcepError as error:
        raise SnapshotError(f"no engine for the snapshot can be made here: {error}") from error


def _has_classes(plan: Plan) -> bool:
    """Whether partial matches note their class, if only to say which of several indexes counts them."""
    return any(state.features or (plan.sheds and len(state.indexes) > 1) for state in plan.states)


@contextmanager
def _understood() -> Iterator[None]:
    """Say of what no engine has written, although its checksums are right, that it is no snapshot of an engine."""
    try:
        yield
    except Misfit as fault:
        raise SnapshotError(f"the snapshot does not fit together: {fault}. {_MEND}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError) as error:
        raise SnapshotError(f"the snapshot does not fit together ({error!r}). {_MEND}") from error


def _moment(time: int | None) -> str:
    return "no time yet" if time is None or time == INT64_MIN else format_time(time)


def _some(groups: Iterable[int]) -> str:
    """Numbers of groups, for a message."""
    listed = [str(group) for group in groups]
    return ", ".join(listed) if len(listed) <= 8 else f"{', '.join(listed[:7])} and {len(listed) - 7} more"


def _check_queries(text: str, queries: Sequence[ast.Query]) -> None:
    """Refuse queries, or a schema, that are not those of a snapshot's text."""
    own = document_text(Document(queries[0].schema, tuple(queries)))
    if own == text:
        return
    text = document_text(_document(text))  # as this version writes it
    if own == text:
        return
    theirs, ours = text.splitlines(), own.splitlines()
    differing = [(one, other) for one, other in zip(theirs, ours, strict=False) if one != other]
    what = f"found {differing[0][0]!r}, expected {differing[0][1]!r}" if differing else (
        f"found {len(theirs)} lines of schema and queries, expected {len(ours)}"
    )  # fmt: skip
    raise SnapshotError(f"the snapshot is of other queries, or another schema: {what}")
