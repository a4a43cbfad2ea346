"""Kernels for fitting and evaluating shedders: covering knapsack, cascades of flows, clairvoyant reference."""
