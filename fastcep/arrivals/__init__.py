"""Streams that arrive at a given rate: input queue, replay, maximum throughput; calibration of cost tables."""
