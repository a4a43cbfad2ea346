"""How strategies look: a colour and a marker for each, fixed by its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from fastcep.report.evaluation.cells import Strategy

__all__ = ["FAINT", "GRID", "INK", "Look", "looks"]

INK, FAINT, GRID = "#1f2937", "#6b7280", "#e5e7eb"


@dataclass(frozen=True)
class Look:
    """A colour (``#rrggbb``), a marker and a line style as matplotlib names them."""

    colour: str
    marker: str
    line: str = "-"


#: Blue: drops events; orange: drops partial matches; green: both. Within a hue the lightness differs.
_KNOWN = {
    "ri": Look("#1f5fa8", "o"),
    "si": Look("#5fa8e0", "s"),
    "e-bl": Look("#0a2c5c", "^"),
    "bl": Look("#2c9bb3", "D"),
    "espice": Look("#7d8fe0", "h"),
    "hyi": Look("#3f51c4", "p"),
    "rs": Look("#c4511d", "v"),
    "ss": Look("#f0a03c", "P"),
    "pm-bl": Look("#7f2f0a", "X"),
    "pspice": Look("#d9b100", "<"),
    "pspice--": Look("#a07a2c", ">"),
    "hys": Look("#e0764a", "d"),
    "hybrid": Look("#2f8a57", "*"),
    "oracle": Look("#111111", "*", "--"),
    "informed": Look("#7a7a7a", "d", "--"),
}
_OTHERS = ("#7b4fb0", "#b0579d", "#5b4b8a", "#9a6fe0", "#d47fc0", "#6d2f66")
_REFERENCES = ("#4d4d4d", "#999999", "#2b2b2b")
_MARKERS = "osv^DPXdph<>"


def looks(strategies: Sequence[Strategy]) -> dict[str, Look]:
    """A look for each strategy, by its name; those of unknown names follow from the name, and none occurs twice."""
    taken = {_KNOWN[each.name] for each in strategies if each.name in _KNOWN}
    found: dict[str, Look] = {}
    for each in strategies:
        look = _KNOWN.get(each.name) or _made(each, taken)
        taken.add(look)
        found[each.name] = Look(look.colour, look.marker, "--") if each.reference else look
    return found


def _made(strategy: Strategy, taken: set[Look]) -> Look:
    colours = _REFERENCES if strategy.reference else _OTHERS
    first = crc32(strategy.name.encode("utf-8", "surrogatepass"))
    for number in range(first, first + len(colours) * len(_MARKERS)):
        look = Look(colours[number % len(colours)], _MARKERS[number // len(colours) % len(_MARKERS)])
        if look not in taken:
            return look
    return look  # more strategies than looks
