"""Checks of queries: each raises a `ParseError` with the position."""
