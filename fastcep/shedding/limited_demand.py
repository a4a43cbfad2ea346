"""Demand beside a limit of the work for single events: drop as much as loses least together with the limit."""

from __future__ import annotations

import numpy as np

from fastcep.overload.protocols import Floats

__all__ = ["demand_of_least_loss", "loss_without_drops"]

#: Least share of the work left from which the loss by the work limit without drops is computed.
_LEFT = 0.05


def loss_without_drops(lost: float, saved: float) -> float:
    """Return the share of the matches that the work limit would lose if nothing were dropped.

    Parameters
    ----------
    lost
        Share of the matches that it loses now.
    saved
        Share of the work that drops save now.
    """
    return min(1.0, lost / max(1 - saved, _LEFT))


def demand_of_least_loss(saved: Floats, kept: Floats, loss: float) -> float:
    """Return the demand that loses least under a work limit that alone loses the share ``loss`` of the matches.

    The loss by the work limit is assumed to fall in proportion to the work that is saved.

    Parameters
    ----------
    saved, kept
        Share of the work saved (ascending), and of the matches kept, by choice of drops: float64[choices].
    loss
        See `loss_without_drops`.
    """
    return float(saved[np.argmin(1 - kept + loss * (1 - saved))])
