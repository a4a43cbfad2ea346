"""The state of a query as buffers, and back."""
