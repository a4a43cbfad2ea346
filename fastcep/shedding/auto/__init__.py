"""Shedding without preparation: at random at first, by a model of the stream later."""

from fastcep.shedding.auto.shedder import Auto

__all__ = ["Auto"]
