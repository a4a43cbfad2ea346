"""The reference matcher and other slow, obvious implementations of what the package computes fast."""
