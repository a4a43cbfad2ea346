"""Containers of plain memory, all of it from one budget: vectors, heaps, hash indexes of rows, starts, windows.

Nothing here knows of queries or events.
"""
