"""Load shedding on streams and queries that the shedders were not tuned to; docs/unseen.md describes the results."""
