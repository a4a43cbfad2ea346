"""Hypothesis strategies: schemas, queries, streams, and ways to run them."""
