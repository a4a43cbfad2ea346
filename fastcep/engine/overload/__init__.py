"""Overload: what work costs, clocks that count it, and the latency that follows."""
