OPCODES: tuple[str, ...]
