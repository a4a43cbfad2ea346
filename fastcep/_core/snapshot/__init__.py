"""Dump the state of a query to arrays, and load it."""
