"""Shared helpers of the tests: harnesses, processes, files, and comparisons."""
