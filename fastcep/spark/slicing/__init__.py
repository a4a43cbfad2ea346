"""Cut the stream of a DataFrame into slices, and send each slice its events."""
