"""Checks of the options that `send`, `start` and `receive` share."""

from __future__ import annotations

import ssl
from datetime import timedelta
from typing import Any

from fastcep.errors import ValidationError
from fastcep.events.units import parse_size
from fastcep.option_checks import duration_option

__all__ = ["Address", "check_choice", "check_tls", "parse_address", "parse_key", "seconds", "sentence", "size_option"]

#: A host and a port, or text such as ``"10.0.0.7:4100"`` or ``"[::1]:4100"``.
Address = tuple[str, int] | str

_SHORTEST_KEY = 16


def parse_address(address: Any) -> tuple[str, int]:
    """Return host and port; ValidationError if they are none."""
    host: Any
    port: Any
    if isinstance(address, str) and ":" in address:
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        port = int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else None
    elif isinstance(address, tuple) and len(address) == 2:
        host, port = address
    else:
        host = port = None
    try:
        valid = isinstance(host, str) and bool(host.encode("idna")) and host.isprintable()
    except UnicodeError:
        valid = False
    number = isinstance(port, int) and not isinstance(port, bool) and 0 <= port <= 65535
    if not (valid and number):
        raise ValidationError(f'address={address!r}: expected (host, port) or text such as "10.0.0.7:4100"')
    return host, port


def sentence(text: str) -> str:
    """Return a text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def parse_key(key: Any) -> bytes:
    """Return the shared key as bytes; ValidationError, without the key, if it is none or too short."""
    value = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
    remedy = "make one with secrets.token_hex(32), and give it to both hosts"
    if not isinstance(value, bytes | bytearray):
        raise ValidationError(f"key: {type(key).__name__}; expected bytes or a text; {remedy}")
    if len(value) < _SHORTEST_KEY:
        raise ValidationError(f"key: {len(value)} bytes; expected at least {_SHORTEST_KEY}; {remedy}")
    return bytes(value)


def seconds(option: str, value: str | timedelta, *, positive: bool = False) -> float:
    """Return a duration in seconds; ValidationError as for `duration_option`."""
    return duration_option(option, value, positive=positive) / 1e9


def size_option(option: str, value: str | int) -> int:
    """Return a size in bytes; ValidationError if it is none."""
    try:
        return parse_size(value)
    except ValidationError as error:
        raise ValidationError(f"{option}={value!r}: {error}") from None


def check_tls(tls: Any) -> ssl.SSLContext | None:
    """Return the context; ValidationError if it is neither None nor one."""
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        raise ValidationError(f"tls: {type(tls).__name__}; expected None or an ssl.SSLContext")
    return tls


def check_choice(option: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return a value; ValidationError if it is not one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValidationError(f"{option}={value!r}: expected one of {', '.join(choices)}")
    return value
