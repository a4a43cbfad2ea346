"""Queueing theory: how many instances keep a queue below a limit, given how events arrive and how long they take."""
