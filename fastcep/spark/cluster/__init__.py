"""Run work items, and change the number of executors, on a cluster."""
