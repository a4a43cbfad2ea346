"""Kernels for fitting and evaluating shedders: covering knapsack, cascades of flows, clairvoyant reference.

The packing knapsack chooses the state to send in a migration.
"""
