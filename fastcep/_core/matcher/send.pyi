from collections.abc import Callable
from typing import Any, TypeVar

from fastcep._core.matcher.event_loop import EventLoop

_Function = TypeVar("_Function", bound=Callable[..., Any])

class HasEventLoop:
    _loop: EventLoop
    _stream: Any

def compiled(function: _Function) -> _Function: ...
