"""Figures and run times of docs/migration.md."""
