"""Adapt the number of instances to the load: forecasts, the loop that decides, a simulation of it."""
