"""Line styles of strategies: a colour and a marker for each, determined by its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from fastcep.report.evaluation.cells import Strategy

__all__ = ["Look", "looks"]


@dataclass(frozen=True)
class Look:
    """A colour (``#rrggbb``), and a marker and a line style of matplotlib."""

    colour: str
    marker: str
    line: str = "-"


#: Blue: drops events; orange: drops partial matches; green: both. Strategies of the same hue differ in lightness.
_LOOKS = {
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
    """Return a distinct look for each strategy, by name. The look of an unknown name is derived from the name."""
    taken = {_LOOKS[strategy.name] for strategy in strategies if strategy.name in _LOOKS}
    look_of: dict[str, Look] = {}
    for strategy in strategies:
        look = _LOOKS.get(strategy.name) or _derived(strategy, taken)
        taken.add(look)
        look_of[strategy.name] = Look(look.colour, look.marker, "--") if strategy.reference else look
    return look_of


def _derived(strategy: Strategy, taken: set[Look]) -> Look:
    colours = _REFERENCES if strategy.reference else _OTHERS
    first = crc32(strategy.name.encode("utf-8", "surrogatepass"))
    for number in range(first, first + len(colours) * len(_MARKERS)):
        look = Look(colours[number % len(colours)], _MARKERS[number // len(colours) % len(_MARKERS)])
        if look not in taken:
            return look
    return look  # more strategies than looks
