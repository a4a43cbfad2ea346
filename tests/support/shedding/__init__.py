"""Engines with shedders, models and evaluations for tests."""
