"""Snapshots and key groups: the state of an engine as bytes."""
