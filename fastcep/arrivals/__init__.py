"""Feed a stream to an engine at a given rate, and measure what operations cost."""
