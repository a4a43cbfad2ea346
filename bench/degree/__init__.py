"""Degrees of parallelism: the paper's traffic scenario, its checks of approximations, other streams, a live run."""
