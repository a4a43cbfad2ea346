"""Containers without Python objects, accounted to one budget: vectors, heaps, hash indexes of rows, starts, windows.

No module here depends on queries or events.
"""
