"""Simulate migrations: states of the paper, transfers between two hosts, events that pass all four nodes."""
