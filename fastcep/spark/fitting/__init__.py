"""Fit models of shedders on a DataFrame, and count for those that are fitted from counts."""
