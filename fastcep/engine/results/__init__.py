"""Results of an engine: matches, timed-out partial matches, RETURN columns."""
