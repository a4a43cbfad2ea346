"""The reference matcher, and other slow, obvious implementations of fast code in the package."""
