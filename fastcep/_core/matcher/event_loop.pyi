from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from fastcep._core.input.batch import Batch
from fastcep._core.input.batch_reader import BatchReader
from fastcep._core.input.event_reader import EventReader
from fastcep._core.input.filters import Filters
from fastcep._core.matcher.interrupt import Pieces
from fastcep._core.matcher.matcher import Matcher

_Function = TypeVar("_Function", bound=Callable[..., Any])

class Owner(Protocol):
    def give(self) -> Any: ...
    def interrupted(self, error: BaseException, taken: int, size: int) -> None: ...
    def choose_path(self) -> None: ...

class EventLoop:
    position: int
    ended: bool
    matches_wait: bool
    string_limit: int
    time: int | None
    sequence: int | None
    @property
    def is_open(self) -> bool: ...
    @property
    def pieces(self) -> Pieces: ...
    def __init__(
        self,
        queries: object,
        faults: object,
        batch_reader: BatchReader,
        event_readers: Mapping[str, EventReader],
        strings: object,
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
        make: Callable[[Any, Any], Any],
        layout: object,
        plain: bool,
        decides: bool,
        tried: Sequence[Matcher] = (),
        step: int = 0,
    ) -> None: ...
    def process(self, data: object, stream: Owner) -> Any: ...
    def process_batch(self, batch: Batch, stream: Owner) -> Any: ...

class HasEventLoop:
    _loop: EventLoop
    _stream: Any

def compiled(function: _Function) -> _Function: ...
