from collections.abc import Callable
from typing import Any

class BatchReader:
    def __init__(
        self,
        layout_of: Callable[..., Any],
        strings: object,
        sources: tuple[str | int | None, ...],
        dtypes: bytes,
        type_names: tuple[str, ...],
        codes: tuple[int, ...] | None,
    ) -> None: ...
