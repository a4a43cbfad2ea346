"""Hybrid load shedding: events and partial matches by what their classes are worth, learned from history."""
