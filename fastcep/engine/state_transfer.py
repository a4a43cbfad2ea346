"""The calls by which an engine's state leaves it and comes back: what is checked before anything is done."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NoReturn, Self

from xxhash import xxh3_128_hexdigest

from fastcep.engine.queries import Buildable, built_queries
from fastcep.engine.running_query import RunningQuery
from fastcep.engine.state.container import unpack
from fastcep.engine.state.header import check_header
from fastcep.engine.state.keygroups import GROUPS, check_groups
from fastcep.engine.state.snapshot import EngineParts, extracted, layout, merged, put, snapshot
from fastcep.engine.stream import Stream
from fastcep.engine.thread_pool import make_pool
from fastcep.errors import FastcepError, SnapshotError, ValidationError
from fastcep.events.units import INT64_MIN, format_time
from fastcep.overload.protocols import Detector, Shedder
from fastcep.plan.plan import KeyPlan, Plan
from fastcep.query import Document, ast, document_text, parse_document
from fastcep.stored import Misfit

__all__ = ["StateTransfer"]


_ALL = frozenset(range(GROUPS))
_MEND = "Its checksums are right, so it was written like that; take the snapshot again, or use an older one"
#: Options in which engines that exchange key groups must agree; limits may differ.
_ALIKE = ("attributes", "allowed_lateness", "timed_out", "index")


class StateTransfer(Stream):
    """A stream whose state can be stored, restored, and moved by key groups."""

    #: What the engine was made with, for one that is restored.
    _options: dict[str, Any]
    #: Queries, and the part of a header that tells of them: it is the same until they change.
    _told: tuple[tuple[RunningQuery, ...], dict[str, Any]] | None = None

    @property
    def groups(self) -> tuple[int, ...]:
        """The key groups whose events the engine takes: all, but for those that `extract` took away."""
        return tuple(sorted(self._owns))

    @property
    def _owns(self) -> frozenset[int]:
        owned = self._queries.owned
        return _ALL if owned is None else owned

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: `TypeError`."""
        raise TypeError("an engine cannot be pickled or copied; take snapshot() and make another by Engine.restore()")

    def snapshot(self, groups: Iterable[int] | None = None) -> bytes:
        """Give the engine's state; the engine goes on as if nothing had been.

        Parameters
        ----------
        groups
            Only the state of these key groups, which `merge` can put beside others: partial matches, the events that
            they bind and those kept for ``NEG``, open windows; but no counters, late events and timed-out partial
            matches, which stay here. None: everything.

        Returns
        -------
        bytes
            See docs/reliability.md.

        Raises
        ------
        ValidationError
            If there is no such group here, or the state of a query cannot be cut by key; without queries; after
            :meth:`flush`; while another thread uses the engine.
        """
        with self._alone():
            self._check_given()
            return snapshot(self._here(), None if groups is None else self._owned(groups))

    def extract(self, groups: Iterable[int]) -> bytes:
        """Give the state of key groups, and give them up: events of these groups are ignored from now on.

        They still count as events of the stream, so that another engine that is given the same events, and these groups
        by `merge`, finds what this one would have found.

        Parameters
        ----------
        groups
            As for `snapshot`.

        Raises
        ------
        ValidationError, MemoryLimitError
            As by `snapshot`; there is no room to make the rest anew. Nothing has changed then.
        """
        with self._alone():
            self._check_given()
            chosen = self._owned(groups)
            data, rest = extracted(self._here(), chosen)
            self._queries.exchange(rest, self._owns.difference(chosen))
            self._choose_way()
            return data

    def merge(self, snapshot: bytes | bytearray | memoryview) -> None:
        """Take over the key groups of a snapshot, with all that is in them.

        Engine and snapshot stand at the same event of the same stream, and none of its groups is here. What the other
        engine has counted, and late events and timed-out partial matches that wait there, stay there: take them.

        Parameters
        ----------
        snapshot
            From `extract` or `snapshot` of an engine with the same queries.

        Raises
        ------
        SnapshotError
            The snapshot is damaged, of another version, of other queries, of another place in the stream, or has groups
            that are here. Nothing has changed then.
        MemoryLimitError
            A query would need more than its share. Nothing has changed then.
        """
        header, tables = _read(snapshot)
        with self._alone():
            self._check_given()
            here = self._here()
            self._check_same(header)
            groups = header["groups"]
            if groups is None:
                raise SnapshotError("the snapshot is of a whole engine; restore it, or extract key groups of it first")
            own = sorted(self._owns.intersection(groups))
            if own:
                raise SnapshotError(f"the engine has key groups {_some(own)} of the snapshot; extract them first")
            self._check_place(header)
            self._memory.share_out(self._queries, self._shared())
            try:
                with _understood():
                    matchers = merged(here, header, tables)
            except Exception:
                self._forget_strings()  # those of the snapshot
                raise
            owned = self._owns.union(groups)
            self._queries.exchange(matchers, None if len(owned) == GROUPS else owned)
            self._choose_way()

    @classmethod
    def restore(
        cls,
        snapshot: bytes | bytearray | memoryview,
        queries: ast.Query | Buildable | Sequence[ast.Query | Buildable] | None = None,
        *,
        clock: str | Callable[[], int] | None = None,
        memory_limit: str | int | None = "same",
        threads: int = 1,
        shedder: Shedder | None = None,
        detector: Detector | Sequence[Detector] | None = None,
    ) -> Self:
        """Make an engine that goes on where a snapshot was taken.

        Parameters
        ----------
        snapshot
            From `snapshot` or `extract`. The engine has its groups.
        queries
            Its queries, which are in the snapshot too; if they are given they must be those.
        clock
            As for the engine that it was taken of; None: the same. Other options are in the snapshot.
        memory_limit
            As for an engine; ``"same"`` is what it was.
        threads
            As for an engine. It may be another number than that of the engine that the snapshot was taken of, which
            is not in the snapshot.
        shedder, detector
            As for the engine that it was taken of, with the same options: what they had learned is in the snapshot. An
            engine made from key groups may have others, which begin anew.

        Raises
        ------
        SnapshotError
            The snapshot is damaged, of another version, of other queries, or of queries that this version plans in
            another way or cannot read; functions that they call must be registered.
        MemoryLimitError
            A query would need more than its share.
        ValidationError
            `threads` is no number of threads.
        """
        make_pool(threads)  # tells if it is no number of threads
        header, tables = _read(snapshot)
        limit = {} if memory_limit == "same" else {"memory_limit": memory_limit}
        own = {"threads": threads, "shedder": shedder, "detector": detector, **limit}
        engine = cls._made(header, queries, own if clock is None else {**own, "clock": clock})
        with _understood():
            engine._queries.settle(header.get("stores", ["rows"] * len(engine._queries)), 0)
        engine._check_same(header)
        engine._position, engine._time, engine._sequence = (header[name] for name in ("position", "time", "sequence"))
        groups = header["groups"]
        engine._queries.owned = None if groups is None else frozenset(groups)
        engine._memory.share_out(engine._queries, engine._shared())
        with _understood():
            put(engine._here(), header, tables)
        if groups is None or "control" in header:  # key groups leave the control behind; it begins anew
            with _understood():
                engine._resume_control(header.get("control"))
        engine._choose_way()
        return engine

    def _resume_control(self, stored: dict[str, Any] | None) -> None:
        """Go on as the overload control of a snapshot."""
        control = self._queries.control
        here, there = None if control is None else control.specs(), None if stored is None else stored["specs"]
        if here != there:
            raise SnapshotError(
                f"the snapshot is of an engine that sheds load by {there}, this one by {here}: restore it with "
                "shedder=… and detector=… as they were"
            )
        if control is not None and stored is not None:
            control.resume(stored)

    @classmethod
    def _made(cls, header: dict[str, Any], queries: Any, own: dict[str, Any]) -> Self:
        """An engine like that of a snapshot, but for its own options, at the begin of the stream."""
        options = header["options"]
        try:
            if queries is None:
                built = _document(header["text"]).queries
            else:
                built = tuple(built_queries(queries, options["attributes"]))
                _check_queries(header["text"], built)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # its user has been warned
                engine: Any = cls
                with _understood():
                    return engine(list(built), **{**options, **own})  # type: ignore[no-any-return]
        except SnapshotError:
            raise
        except FastcepError as error:
            raise SnapshotError(f"no engine for the snapshot can be made here: {error}") from error

    # ----------------------------------------------------------------------- checks

    def _here(self) -> EngineParts:
        if not len(self._queries):
            raise ValidationError("the engine has no query, so there is no state to be stored; add one")
        stands = {"position": self._position, "time": self._time, "sequence": self._sequence}
        return EngineParts(self._schema, self._queries, self._strings, self._reorder, stands, self._about())

    def _about(self) -> dict[str, Any]:
        """What the engine is, for a header."""
        running = self._queries.running
        if self._told is None or self._told[0] is not running:
            text = document_text(Document(self._schema, tuple(item.query for item in running)))
            plans = [item.plan for item in running]
            identity = xxh3_128_hexdigest(layout(plans).encode())
            stores = [plan.store for plan in plans]
            control = self._queries.control
            classes = [[] for _ in plans] if control is None else control.classes()
            classes = [own if _has_classes(plan) else None for own, plan in zip(classes, plans, strict=True)]
            self._told = running, {
                "text": text, "options": self._options, "stores": stores, "identity": identity, "classes": classes,
            }  # fmt: skip
        return self._told[1]

    def _owned(self, groups: Iterable[int]) -> tuple[int, ...]:
        """Check that these groups are here, and can be cut out."""
        chosen = check_groups(groups)
        if not self._owns.issuperset(chosen):
            missing = sorted(set(chosen) - self._owns)
            raise ValidationError(f"key groups {_some(missing)} are not here; the engine has {_some(self.groups)}")
        for item in self._queries:
            self._check_keyed(item)
        return chosen

    def _prepared(self, query: ast.Query) -> RunningQuery:
        """Make a query ready to run beside the others."""
        new = self._queries.prepare(query, self._position)
        if self._queries.owned is not None:
            self._check_keyed(new)
        return new

    def _check_keyed(self, item: RunningQuery) -> None:
        if not isinstance(item.plan.key, KeyPlan):
            raise ValidationError(
                f"the state of query {item.name!r} cannot be cut into key groups: {item.plan.key}. Only a query whose "
                "variables all agree in an attribute can: WHERE [attribute]"
            )

    def _check_same(self, header: dict[str, Any]) -> None:
        """Refuse a snapshot of other queries, or of an engine that takes its events or windows otherwise."""
        about, theirs = self._about(), header["options"]
        for name in _ALIKE:
            own = about["options"][name]
            if theirs.get(name, own) != own:
                found = theirs[name]
                raise SnapshotError(f"the snapshot is of an engine with {name}={found!r}, expected {own!r} as here")
        if header["text"] != about["text"]:
            _check_queries(header["text"], [item.query for item in self._queries])
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
        for item, own, found in zip(self._queries, about["stores"], stores, strict=True):
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
        for name, own in (("position", self._position), ("sequence", self._sequence), ("time", self._time)):
            found = header[name]
            if found != own:
                shown = (found, own) if name != "time" else tuple(_moment(at) for at in (found, own))
                raise SnapshotError(
                    f"the snapshot stands at {name} {shown[0]}, the engine at {shown[1]}: they must have come to the "
                    "same event of the same stream; an engine takes events of groups that it has not, and ignores them"
                )
        order = header.get("order")
        if self._reorder is None or order is None:
            return
        own_order = self._reorder.parts()[0]
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


def _read(snapshot: bytes | bytearray | memoryview) -> tuple[dict[str, Any], Any]:
    """Unpack a snapshot of an engine."""
    header, tables = unpack(snapshot)
    with _understood():
        check_header(header)
    return header, tables


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
