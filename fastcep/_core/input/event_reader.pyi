from collections.abc import Mapping

class EventReader:
    def __init__(
        self,
        type_id: int,
        places: Mapping[str, int],
        dtypes: bytes,
        factor: int,
        is_numbered: bool,
        strings: object,
    ) -> None: ...
