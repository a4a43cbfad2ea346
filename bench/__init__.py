"""Benchmarks. Off in a normal test run; ``make bench`` runs them and writes ``bench/results``."""
