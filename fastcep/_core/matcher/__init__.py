"""The loop over the events of a batch, both stores of partial matches, and the classes that Python sees."""
