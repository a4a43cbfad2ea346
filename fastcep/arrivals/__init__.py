"""Streams that arrive at a given rate: input queue, replay, maximum throughput; and what operations cost."""
