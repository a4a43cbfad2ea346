"""The state of one query while it runs (``core``), and what is read off it or removed from it."""
