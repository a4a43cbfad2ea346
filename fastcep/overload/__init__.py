"""Overload control: measure latency, derive how much work to save, and apply the drop plan of a shedder."""
