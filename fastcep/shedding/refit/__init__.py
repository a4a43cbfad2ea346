"""Shedders whose models are fitted again on the stream while the engine runs."""
