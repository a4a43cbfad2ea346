"""From tables to files and standard output."""
