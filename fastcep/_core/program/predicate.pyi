OPCODES: tuple[str, ...]
SYMBOLS: dict[str, int]
