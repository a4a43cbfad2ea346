"""Kernels for fitting and evaluating shedders: the knapsack, cascades of flows, the clairvoyant reference."""
