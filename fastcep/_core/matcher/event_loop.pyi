from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fastcep._core.input.batch import Batch
from fastcep._core.input.batch_reader import BatchReader
from fastcep._core.input.event_reader import EventReader
from fastcep._core.input.filters import Filters
from fastcep._core.matcher.interrupt import Pieces
from fastcep._core.matcher.matcher import Matcher
from fastcep._core.matcher.signals import Signals

class Stream(Protocol):
    def prepare(self, piece: Batch) -> set[int]: ...
    def decide(self) -> None: ...
    def give(self) -> Any: ...
    def deliver(self) -> None: ...
    def read_events(self) -> None: ...
    def interrupted(self, error: BaseException, taken: int, batch: Batch | None, size: int) -> None: ...
    def configure(self) -> None: ...

class EventLoop:
    position: int
    ended: bool
    matches_wait: bool
    unreturned: Any
    failed: bool
    @property
    def nothing(self) -> Any: ...
    string_limit: int
    time: int | None
    sequence: int | None
    is_direct: bool
    @property
    def pieces(self) -> Pieces: ...
    def __init__(
        self,
        queries: object,
        faults: object,
        batch_reader: BatchReader,
        event_readers: Mapping[str, EventReader],
        strings: object,
        signals: Signals,
    ) -> None: ...
    def enter(self) -> bool: ...
    def leave(self) -> None: ...
    def close(self) -> None: ...
    def open(
        self,
        matchers: Sequence[Matcher],
        filters: Filters,
        ring: object,
        nothings: Sequence[Any],
        make_matches: Callable[[Any, Any], Any],
        layout: object,
        *,
        plain: bool,
        decides: bool,
        direct: bool,
        prepares: bool,
        piece_size: int = 0,
        control: object = None,
        threads: object = None,
        candidates: Sequence[Matcher] = (),
        trial_step: int = 0,
    ) -> None: ...
    def process(self, data: object, stream: Stream) -> Any: ...
    def process_held(self, data: Any, stream: Any) -> Any: ...
    def process_batch(self, batch: Batch, stream: Stream) -> Any: ...
