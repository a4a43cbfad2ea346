from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from fastcep._core.input.batch_reader import BatchReader
from fastcep._core.input.event_reader import EventReader
from fastcep._core.input.filters import Filters
from fastcep._core.matcher.interrupt import Pieces
from fastcep._core.matcher.matcher import Matcher

_Function = TypeVar("_Function", bound=Callable[..., Any])

class FastPath:
    _position: int
    _ended: bool
    _waits: bool
    _many: int
    @property
    def _pieces(self) -> Pieces: ...
    _time: int | None
    _sequence: int | None
    def _enter(self) -> bool: ...
    def _leave(self) -> None: ...
    def _bind(self, intake: BatchReader, singles: Mapping[str, EventReader], strings: object) -> None: ...
    def _shut(self) -> None: ...
    def _open(
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
    def _quick(self, data: object) -> Any: ...

def compiled(function: _Function) -> _Function: ...
